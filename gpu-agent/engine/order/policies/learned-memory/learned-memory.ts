/**
 * `learned-memory`: programs by the memory over time that they are expected to take until they end. LAMPS ranks a call with
 * the tool at its end, and counts nothing of the program behind it: "predicting the total number of API calls and their
 * combined resource usage beforehand is challenging" (§4.2). Here that is learned from how programs of the class ended:
 *
 *     rank = LAMPS' score of the call + LATER_SHARE · p(a tool follows) · later work × memory
 *
 * The later work is the median of the class's output, given what the program will have written when the call ends, less
 * that; with the prompt tokens that go with it, and a tool for each call. Its memory is the context as it grows. A program
 * that is past the median of all that came so far counts as near its end. The mean instead of the median would count the
 * longest programs for all: it is worse than LAMPS (README.md).
 *
 * Contexts are handled, and starving calls promoted, as `lamps` does.
 */
import { followsProbability } from '../../../../../src/core/call/forecast.ts'
import { type IndexStep, type IndexTable, indexTable, stepAt } from '../../../../../src/core/classes/index-table.ts'
import type { ClassTables, EngineMemory, PolicyCall } from '../../policy.ts'
import { Lamps, type LampsConfig, type LampsPlace, outputOf } from '../lamps/lamps.ts'

/** Of the later work: it is expected of a class, the call's own of the call. */
export const LATER_SHARE = 0.1
const US_PER_S = 1e6

let prior_table: IndexTable | null = null

export class LearnedMemory extends Lamps {
  override readonly name = 'learned-memory'

  constructor(config: LampsConfig, memory: EngineMemory, classes: ClassTables | null) {
    super(config, memory, (place) => LATER_SHARE * laterMemory(place, tableOf(classes, place.of), memory))
  }
}

function tableOf(classes: ClassTables | null, { call }: PolicyCall): IndexTable {
  const known = classes?.tableOf(call.tenant, call.class, 'response')
  if (known) return known
  prior_table ??= indexTable(null, 'response')
  return prior_table
}

/** Token-seconds after the call. */
function laterMemory(
  { of, choice, output_tokens: written }: LampsPlace,
  table: IndexTable,
  { costs, step_us }: EngineMemory,
): number {
  const { call, program, prompt_tokens } = of
  // The thread ends with it.
  if (call.forecast !== undefined && call.forecast.tool === null) return 0
  const call_tokens = Math.max(written, outputOf(call.forecast))
  const at_end_tokens = program.output_tokens - written + call_tokens
  const { median_tokens } = table.steps[stepAt(table, at_end_tokens)] as IndexStep
  const later_tokens = Math.max(0, median_tokens - at_end_tokens)
  const later_prompt_tokens = later_tokens * table.prompt_tokens_per_output_token
  const busy_us = later_tokens * step_us + later_prompt_tokens * costs.forward.per_token_us
  const context_tokens = prompt_tokens + call_tokens + (later_tokens + later_prompt_tokens) / 2
  // A call writes a token at least.
  const tools = table.call_tokens > 0 ? later_tokens / Math.max(1, table.call_tokens) : 0
  const wasted_byte_s = choice === null ? 0 : (choice.waste[choice.handling] ?? 0)
  const follows = call.forecast === undefined ? 1 : followsProbability(call.forecast)
  return follows * ((busy_us / US_PER_S) * context_tokens + (tools * wasted_byte_s) / costs.kv_bytes_per_token)
}
