/**
 * A latency profile: how long a step of an emulated engine takes, and how large the engine is. The duration is
 *
 *     base + per_sequence · calls in the step + per_kv_token · KV tokens read + per_prefill_token · tokens computed
 *          + per_prefill_pair · pairs of a prompt token and a token before it
 *
 * which is the shape of a memory-bound decode (weights are read once per step, KV once per token) with a compute-bound prefill beside
 * it, whose attention grows with the context. While few tokens are computed, reading the weights hides it: the first `shadow_tokens` of a
 * step, decoded ones included, cost nothing beyond `base`. A profile without `shadow_tokens` charges prompt tokens alone, and all of them.
 *
 * Logged A100s need both refinements: without them the prefill steps of a 7B model are missed by 13 % on average, with them by 6 %
 * (docs/traces.md).
 */
import type { SwapCosts } from '../../../types.ts'

export interface LatencyProfile {
  name: string
  /** Where the figures come from. Shown with the profile. */
  provenance: string
  base_us: number
  per_sequence_us: number
  per_kv_token_ns: number
  per_prefill_token_us: number
  /** Absent: 0. */
  per_prefill_pair_ps?: number
  shadow_tokens?: number
  /** A step that swaps lasts so much longer. */
  swap_costs: SwapCosts
  /** Moves run beside the forward pass, so a step lasts as long as the longer of the two. Absent: one after the other. */
  moves_overlap?: boolean
  /** That one engine takes. Absent: 1, or none where it runs on a CPU. Nothing but what a fleet costs depends on it. */
  gpus?: number
  /** Absent: not known. Nothing but the unit of a figure depends on it. */
  kv_bytes_per_token?: number

  seats: number
  slots: number
  slot_tokens_max: number
  block_tokens: number
  capacity_blocks: number
  max_step_tokens: number
  prefill_chunk_tokens: number
}
