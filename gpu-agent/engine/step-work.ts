/** What one step computes: its tokens shared out over the calls that were placed for it, listed by ascending slot. */

import type { Slot } from './memory/kv-cache.ts'
import type { ScheduledCall } from './scheduled-call.ts'
import type { SchedulerConfig } from './scheduler-config.ts'
import { assignStepTokens, assignWholePrompts } from './step-tokens.ts'
import type { StepWork } from './types.ts'

type StepSizes = Pick<SchedulerConfig, 'chunked_prefill' | 'max_step_tokens' | 'prefill_chunk_tokens'>

/** `offline_tokens`: of the prompts of all offline calls together. Leaves in `flight` the calls of the returned work, in the same order. Calls that got no tokens are left out. */
export function stepWork(
  flight: ScheduledCall[],
  slots: readonly Slot<ScheduledCall>[],
  step: number,
  { chunked_prefill, max_step_tokens, prefill_chunk_tokens }: StepSizes,
  offline_tokens = max_step_tokens,
): StepWork[] {
  if (chunked_prefill) assignStepTokens(flight, max_step_tokens, prefill_chunk_tokens, offline_tokens)
  else assignWholePrompts(flight, max_step_tokens)
  flight.length = 0
  const work: StepWork[] = []
  for (const { id, holder } of slots) {
    if (holder === null || holder.placed_step !== step || holder.step_tokens === 0) continue
    const from = holder.computed_tokens
    const to = from + holder.step_tokens
    work.push({ lease: holder.call.lease, slot: id, from, to, samples: to === holder.known_tokens })
    holder.in_flight = true
    flight.push(holder)
  }
  return work
}
