/**
 * What engines know of classes of programs, as the control plane tells them: from programs that ended before the run, and
 * from those that end in it. Engines are told at intervals.
 */
import type { ClassTables } from '../../gpu-agent/engine/order/policy.ts'
import { modelledServiceUs } from '../../src/core/call/service.ts'
import { ClassBook } from '../../src/core/classes/class-book.ts'
import { ClassSketch } from '../../src/core/classes/class-sketch.ts'
import type { EndedProgram } from '../../src/core/classes/ended-program.ts'
import type { IndexTable, Objective } from '../../src/core/classes/index-table.ts'
import type { WorkloadProgram } from '../workloads/program.ts'

/** Programs end before their class is told for the first time; while few have ended it is told after each. */
const TOLD_INTERVAL_US = 60_000_000
const TOLD_AT_ONCE_ENDS = 64

export class ClassKnowledge implements ClassTables {
  readonly #book = new ClassBook()
  #told_us = 0

  /** A program of the class has ended. */
  ended(tenant: string, program_class: string, program: WorkloadProgram, now_us: number): void {
    const known = this.#book.sketchOf(tenant, program_class)
    const sketch = known ?? new ClassSketch()
    sketch.add(endedProgram(program))
    if (known === null) this.#book.set(tenant, program_class, sketch)
    if (sketch.ends > TOLD_AT_ONCE_ENDS && now_us < this.#told_us + TOLD_INTERVAL_US) return
    this.#told_us = now_us
    this.#book.publish()
  }

  tableOf(tenant: string, program_class: string, objective: Objective): IndexTable | null {
    return this.#book.tableOf(tenant, program_class, objective)
  }
}

function endedProgram({ calls }: WorkloadProgram): EndedProgram {
  const ended = { output_tokens: 0, calls: calls.length, path_us: 0, service_us: 0, tool_us: 0, later_prompt_tokens: 0 }
  const paths_us: number[] = []
  for (const [
    index,
    { prompt_tokens, shared_prefix_tokens, output_tokens, tool_seconds, parents },
  ] of calls.entries()) {
    const uncached_prompt_tokens = prompt_tokens - shared_prefix_tokens
    const service_us = modelledServiceUs({ uncached_prompt_tokens, cached_prompt_tokens: 0, output_tokens })
    const path_us = service_us + Math.max(0, ...parents.map((parent) => paths_us[parent] as number))
    paths_us.push(path_us)
    ended.path_us = Math.max(ended.path_us, path_us)
    ended.service_us += service_us
    ended.output_tokens += output_tokens
    ended.tool_us += Math.round((tool_seconds ?? 0) * 1e6)
    if (index > 0) ended.later_prompt_tokens += uncached_prompt_tokens
  }
  return ended
}
