/**
 * Shares the tokens of one step out over its calls, given in the order of seats. Calls that lack a single token (decodes)
 * come first, so a long prompt never delays text that is flowing. The rest goes to prompts, in chunks (Sarathi's chunked
 * prefill).
 */
import type { ScheduledCall } from './scheduled-call.ts'

/**
 * Sets each call's `step_tokens`, to 0 if nothing is left. `max_step_tokens` is at least the number of calls. The prompts of all offline calls
 * together get at most `offline_tokens`, which is at least 1.
 */
export function assignStepTokens(
  calls: readonly ScheduledCall[],
  max_step_tokens: number,
  chunk_tokens: number,
  offline_tokens = max_step_tokens,
): void {
  let budget_tokens = max_step_tokens
  let offline_left_tokens = offline_tokens
  let prefills = false
  for (const call of calls) {
    const missing_tokens = call.known_tokens - call.computed_tokens
    call.step_tokens = missing_tokens === 1 ? 1 : 0
    budget_tokens -= call.step_tokens
    if (missing_tokens > 1) prefills = true
  }
  if (!prefills) return
  for (const call of calls) {
    if (call.step_tokens > 0) continue
    const missing_tokens = call.known_tokens - call.computed_tokens
    const { offline = false } = call.call
    const most_tokens = offline ? Math.min(budget_tokens, offline_left_tokens) : budget_tokens
    call.step_tokens = Math.min(missing_tokens, chunk_tokens, most_tokens)
    budget_tokens -= call.step_tokens
    if (offline) offline_left_tokens -= call.step_tokens
  }
}

/**
 * The same without chunks (vLLM without chunked prefill). A step either decodes, or computes whole prompts: as many as
 * `max_step_tokens` holds, and at least one. While prompts are computed, no call decodes.
 */
export function assignWholePrompts(calls: readonly ScheduledCall[], max_step_tokens: number): void {
  let budget_tokens = max_step_tokens
  let prompts = 0
  for (const call of calls) {
    const missing_tokens = call.known_tokens - call.computed_tokens
    const fits = missing_tokens > 1 && (missing_tokens <= budget_tokens || prompts === 0)
    call.step_tokens = fits ? missing_tokens : 0
    budget_tokens -= call.step_tokens
    if (fits) prompts += 1
  }
  if (prompts > 0) return
  for (const call of calls) call.step_tokens = 1
}
