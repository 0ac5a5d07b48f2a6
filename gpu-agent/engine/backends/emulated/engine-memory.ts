/**
 * What the memory of an emulated engine costs, as policies that handle contexts weigh it: the curves of its latency profile
 * (LAMPS eq. 1 to 3: T_fwd, T_swap, M), and a batch as it usually is (§3.2.1, "profiling the number of requests in a batch").
 */
import type { EngineMemory } from '../../order/policy.ts'
import { stepSizeUs } from './emulated-backend.ts'
import type { LatencyProfile } from './profiles/profile.ts'

/** Of the KV memory, in use when handling matters: while there is room, every handling does. */
const USED_SHARE = 0.8
/** Of a call, where the profile's seats would not bound the batch. */
const CONTEXT_TOKENS = 512
/** Where a profile does not say. It is a factor of all three wastes, so no decision depends on it. */
const KV_BYTES_PER_TOKEN = 131_072

/** `swaps` false: KV is not moved. */
export function engineMemory(profile: LatencyProfile, swaps: boolean): EngineMemory {
  const { capacity_blocks, block_tokens, seats, swap_costs, kv_bytes_per_token = KV_BYTES_PER_TOKEN } = profile
  const { save_us_per_token, restore_us_per_token, base_us } = swap_costs
  const other_tokens = Math.round(USED_SHARE * capacity_blocks * block_tokens)
  const calls = Math.max(1, Math.min(seats, Math.round(other_tokens / CONTEXT_TOKENS)))
  const per_token_us = (save_us_per_token + restore_us_per_token) / 2
  return {
    costs: {
      forward: {
        ...{ base_us: profile.base_us, free_tokens: profile.shadow_tokens ?? 0 },
        ...{ per_token_us: profile.per_prefill_token_us, per_pair_us: (profile.per_prefill_pair_ps ?? 0) / 1e6 },
      },
      swap: swaps ? { base_us, free_tokens: 0, per_token_us, per_pair_us: 0 } : null,
      kv_bytes_per_token,
    },
    step_us: stepSizeUs(profile, calls, other_tokens, 0),
    other_tokens,
  }
}
