/**
 * The engine of the verification: a step takes a tenth of a second and more, so that what a loaded machine adds to a call (tens of
 * milliseconds in the client, the control plane and timers) is small beside it.
 */
import type { LatencyProfile } from '../../gpu-agent/engine/backends/emulated/profiles/index.ts'

export const PACED: LatencyProfile = {
  name: 'paced',
  provenance: 'Invented for the verification of plans; resembles no machine.',
  base_us: 100_000,
  per_sequence_us: 5_000,
  per_kv_token_ns: 4_000,
  per_prefill_token_us: 400,
  swap_costs: { save_us_per_token: 20, restore_us_per_token: 20, base_us: 1_000 },
  gpus: 1,
  seats: 8,
  slots: 128,
  slot_tokens_max: 8_192,
  block_tokens: 16,
  capacity_blocks: 4_096,
  max_step_tokens: 512,
  prefill_chunk_tokens: 256,
}
