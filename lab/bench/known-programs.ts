/** What an engine knows of a workload before a run: programs of its mix that ended, none of which the run plays. */
import type { ClassTables } from '../../gpu-agent/engine/order/policy.ts'
import { ClassSketch } from '../../src/core/classes/class-sketch.ts'
import { type EndedProgram, endedAsStated } from '../../src/core/classes/ended-program.ts'
import { indexTable } from '../../src/core/classes/index-table.ts'
import { OBJECTIVES } from '../../src/protocol/objective.ts'
import type { CallShape } from './program-kinds.ts'
import { drawShapes, type Labels, labelOf, type WorkloadMix } from './workload.ts'

const ENDED_PROGRAMS = 300
const SEED = 90_001

/** By class, the label of its programs. */
export function knownPrograms(mix: WorkloadMix, labels: Labels): ClassTables {
  const classes = Map.groupBy(drawShapes(SEED, ENDED_PROGRAMS, mix), ({ kind }) => labelOf(labels, mix.workload, kind))
  const tables = new Map(
    [...classes].map(([label, programs]) => {
      const sketch = new ClassSketch()
      for (const { calls } of programs) sketch.add(endedShape(calls))
      return [label, new Map(OBJECTIVES.map((objective) => [objective, indexTable(sketch, objective)]))]
    }),
  )
  return { tableOf: (_tenant, label, objective) => tables.get(label)?.get(objective) ?? null }
}

function endedShape(calls: readonly CallShape[]): EndedProgram {
  return endedAsStated(
    calls.map(({ parents, new_prompt_tokens, output_tokens, gap_ms }) => ({
      ...{ parents, added_prompt_tokens: new_prompt_tokens, output_tokens, tool_us: gap_ms * 1000 },
    })),
  )
}
