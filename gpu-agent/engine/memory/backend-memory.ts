/** What a backend can do with KV, and its cost on this machine, in the form that the scheduler takes. */
import type { EngineMemory } from '../order/policy.ts'
import type { SchedulerConfig } from '../scheduler-config.ts'
import type { Backend, SwapCosts } from '../types.ts'

/** Of a call that runs, where no batch is there to ask. */
const CONTEXT_TOKENS = 512

/** `prefill_tokens_per_s` as measured at start; null or nothing measured: KV is never cheaper to save than to compute. */
export function memoryOf(
  backend: Pick<Backend, 'swapCosts' | 'copies_prefixes'>,
  prefill_tokens_per_s: number | null,
  image_tokens_max: number,
): Pick<SchedulerConfig, 'swap' | 'copies_prefixes'> {
  const { copies_prefixes } = backend
  const costs = backend.swapCosts()
  if (costs === null || prefill_tokens_per_s === null) return { swap: null, copies_prefixes }
  return { swap: { costs, recompute_us_per_token: 1e6 / prefill_tokens_per_s, image_tokens_max }, copies_prefixes }
}

/** What an engine measured of itself at start. */
export interface MeasuredMemory {
  prefill_tokens_per_s: number
  /** Of a step in which a few calls decode. */
  step_us: number
  swap: SwapCosts | null
  kv_bytes_per_token: number
}

/** The curves of LAMPS' equations 1 to 3 for such an engine, and a full batch of usual calls (§3.2.1). */
export function measuredMemory(
  { prefill_tokens_per_s, step_us, swap, kv_bytes_per_token }: MeasuredMemory,
  seats: number,
): EngineMemory {
  const straight = { free_tokens: 0, per_pair_us: 0 }
  const moved_us = swap === null ? 0 : (swap.save_us_per_token + swap.restore_us_per_token) / 2
  return {
    costs: {
      forward: { ...straight, base_us: 0, per_token_us: 1e6 / prefill_tokens_per_s },
      swap: swap === null ? null : { ...straight, base_us: swap.base_us, per_token_us: moved_us },
      kv_bytes_per_token,
    },
    step_us,
    other_tokens: (seats - 1) * CONTEXT_TOKENS,
  }
}
