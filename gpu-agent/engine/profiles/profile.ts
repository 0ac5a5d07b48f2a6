/**
 * A latency profile: how long a step of an emulated engine takes, and how large the engine is. The duration is linear:
 *
 *     base + per_sequence · calls in the step + per_kv_token · KV tokens read + per_prefill_token · prompt tokens computed
 *
 * which is the shape of a memory-bound decode (weights are read once per step, KV once per token) with a compute-bound
 * prefill beside it. Times are integers of the unit in the name, so that equal plans last equally long.
 */
import type { SwapCosts } from '../types.ts'

export interface LatencyProfile {
  name: string
  /** What the figures stand on. Shown wherever the profile is. */
  provenance: string
  base_us: number
  per_sequence_us: number
  per_kv_token_ns: number
  per_prefill_token_us: number
  /** A step that swaps lasts so much longer. */
  swap_costs: SwapCosts

  seats: number
  slots: number
  slot_tokens_max: number
  block_tokens: number
  capacity_blocks: number
  max_step_tokens: number
  prefill_chunk_tokens: number
}
