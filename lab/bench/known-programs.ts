/** What an engine knows of a workload before a run: programs of its mix that ended, none of which the run plays. */
import type { ClassTables } from '../../gpu-agent/engine/order/policy.ts'
import { ClassSketch } from '../../src/core/classes/class-sketch.ts'
import { type EndedProgram, endedAsStated } from '../../src/core/classes/ended-program.ts'
import { indexTable } from '../../src/core/classes/index-table.ts'
import { OBJECTIVES } from '../../src/protocol/objective.ts'
import type { CallShape } from './program-kinds.ts'
import { drawShapes, type WorkloadMix } from './workload.ts'

const ENDED_PROGRAMS = 300
const SEED = 90_001

/** A benchmark has one class. */
export function knownPrograms(mix: WorkloadMix): ClassTables {
  const sketch = new ClassSketch()
  for (const { calls } of drawShapes(SEED, ENDED_PROGRAMS, mix)) sketch.add(endedShape(calls))
  const tables = new Map(OBJECTIVES.map((objective) => [objective, indexTable(sketch, objective)]))
  return { tableOf: (_tenant, _class, objective) => tables.get(objective) ?? null }
}

function endedShape(calls: readonly CallShape[]): EndedProgram {
  return endedAsStated(
    calls.map(({ parents, new_prompt_tokens, output_tokens, gap_ms }) => ({
      ...{ parents, added_prompt_tokens: new_prompt_tokens, output_tokens, tool_us: gap_ms * 1000 },
    })),
  )
}
