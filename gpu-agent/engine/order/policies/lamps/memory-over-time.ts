/**
 * How much memory a call takes over how long: the area under the curve of LAMPS' Figure 4, in token-seconds, for the handling
 * that its tool is expected to get. A program of several tools is ranked segment by segment: each call with the tool at its
 * end (§4.2, Multi-API).
 *
 *     prefill    T_fwd(missing) · P                  its blocks are reserved when it starts
 *     decode     Σ (context + k) · step, k = 1…O     the context grows by a token a step
 *     tool       the waste of the handling, ÷ M      equations 1 to 3
 *
 * The tool's part counts what the rest of the batch loses, as equations 2 and 3 do. Without it the paper's own example (§3.1)
 * would rank R2 before R3: R2 alone takes less memory over time, but while it is computed again the others wait.
 */
import { curveUs, type Handling, type Waste } from '../../../memory/handling/waste.ts'
import type { EngineMemory } from '../../policy.ts'

export interface SegmentLeft {
  prompt_tokens: number
  /** Of its prompt, those to be computed. */
  missing_tokens: number
  /** Written so far. */
  output_tokens: number
  /** Still to be written, as expected. */
  output_tokens_left: number
}

const US_PER_S = 1e6

/** Token-seconds. `tool` null: none is expected. */
export function memoryOverTime(
  { prompt_tokens, missing_tokens, output_tokens, output_tokens_left }: SegmentLeft,
  tool: { handling: Handling; waste: Waste } | null,
  { costs, step_us }: EngineMemory,
): number {
  const prefill = curveUs(costs.forward, missing_tokens) * prompt_tokens
  const context_tokens = prompt_tokens + output_tokens
  const decode = step_us * (output_tokens_left * context_tokens + (output_tokens_left * (output_tokens_left + 1)) / 2)
  const wasted_byte_s = tool === null ? 0 : (tool.waste[tool.handling] ?? 0)
  return (prefill + decode) / US_PER_S + wasted_byte_s / costs.kv_bytes_per_token
}
