/** What an engine knows of a workload before a run: programs of its mix that ended, none of which the run plays. */
import type { ClassTables } from '../../gpu-agent/engine/order/policy.ts'
import { modelledServiceUs } from '../../src/core/call/service.ts'
import { ClassSketch } from '../../src/core/classes/class-sketch.ts'
import type { EndedProgram } from '../../src/core/classes/ended-program.ts'
import { indexTable } from '../../src/core/classes/index-table.ts'
import { OBJECTIVES } from '../../src/protocol/objective.ts'
import type { CallShape } from './program-kinds.ts'
import { drawShapes, type WorkloadMix } from './workload.ts'

const ENDED_PROGRAMS = 300
const SEED = 90_001

/** The one class of a benchmark, whatever its name. */
export function knownPrograms(mix: WorkloadMix): ClassTables {
  const sketch = new ClassSketch()
  for (const { calls } of drawShapes(SEED, ENDED_PROGRAMS, mix)) sketch.add(endedShape(calls))
  const tables = new Map(OBJECTIVES.map((objective) => [objective, indexTable(sketch, objective)]))
  return { tableOf: (_tenant, _class, objective) => tables.get(objective) ?? null }
}

function endedShape(calls: readonly CallShape[]): EndedProgram {
  const ended = { output_tokens: 0, calls: calls.length, path_us: 0, service_us: 0, tool_us: 0, later_prompt_tokens: 0 }
  const paths_us: number[] = []
  for (const [index, { parents, new_prompt_tokens, output_tokens, gap_ms }] of calls.entries()) {
    const tokens = { uncached_prompt_tokens: new_prompt_tokens, cached_prompt_tokens: 0, output_tokens }
    const service_us = modelledServiceUs(tokens)
    const path_us = service_us + Math.max(0, ...parents.map((parent) => paths_us[parent] as number))
    paths_us.push(path_us)
    ended.path_us = Math.max(ended.path_us, path_us)
    ended.service_us += service_us
    ended.output_tokens += output_tokens
    ended.tool_us += gap_ms * 1000
    if (index > 0) ended.later_prompt_tokens += new_prompt_tokens
  }
  return ended
}
