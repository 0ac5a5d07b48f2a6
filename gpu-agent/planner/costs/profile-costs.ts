/**
 * ModelCosts of an engine whose latency profile is known: `npm run calibrate` measures one on any host, and an emulated engine keeps to one.
 *
 * A profile's step lasts base + per_sequence · B + per_kv_token · S + per_prefill_token · tokens + per_prefill_pair · pairs. SamuLLM's lines have the
 * same terms, so nothing is lost but chunked prefill: a prompt is one iteration here. FLOPs are those of a device that computes one TFLOP/s, since a
 * profile has no sizes. They only weigh nodes against each other in Algorithm 1, so profiles of one host are comparable.
 */
import type { ModelCosts } from './model-costs.ts'

/** What of a latency profile the planner needs. */
export interface StepTimes {
  base_us: number
  per_sequence_us: number
  per_kv_token_ns: number
  per_prefill_token_us: number
  per_prefill_pair_ps?: number | undefined
  seats: number
  slot_tokens_max: number
  block_tokens: number
  capacity_blocks: number
  max_step_tokens: number
}

/** Microseconds for 10^9 FLOPs of that device. */
const US_PER_GFLOP = 1000
const GIGA = 1e9
const KNOTS = [1, 512]

export function profileCosts(model: string, tp: number, times: StepTimes, loading_s: number): ModelCosts {
  const { base_us, per_sequence_us, per_kv_token_ns, per_prefill_token_us, per_prefill_pair_ps = 0 } = times
  const { seats, block_tokens, capacity_blocks, slot_tokens_max, max_step_tokens } = times
  // Over all tp GPUs, since an iteration divides its FLOPs by them.
  const flops_per_us = (GIGA / US_PER_GFLOP) * tp
  // 2 · elements FLOPs a token; 4 · layers · hidden · s² FLOPs a prompt, which has s² / 2 pairs.
  const elements = Math.max(1, Math.round((per_prefill_token_us * flops_per_us) / 2))
  const hidden = Math.max(1, Math.round(((per_prefill_pair_ps / 1e6) * flops_per_us) / 8))
  const fixed = KNOTS.map((calls) => base_us + calls * per_sequence_us)
  const none = KNOTS.map((): [number, number] => [0, 0])
  const attention_us = (4 * hidden) / flops_per_us
  return {
    ...{ model, tp, basis: 'fitted', error_percent: { prefill: 0, decode: 0 } },
    ...{ layers: 1, hidden, elements, max_model_tokens: slot_tokens_max },
    ...{ kv_tokens: capacity_blocks * block_tokens, loading_s, loading_per_replica_s: 0, knots: KNOTS },
    engine: { seats, block_tokens, step_tokens: max_step_tokens },
    prefill: {
      compute: fixed.map((us): [number, number] => [per_prefill_token_us > 0 ? US_PER_GFLOP : 0, us]),
      ...{ prepare: none, sample: none },
    },
    decode: {
      compute: fixed.map((us): [number, number] => [0, us]),
      prepare: none,
      // A decoded token reads the KV of its context; the attention of one token is among it.
      sample: KNOTS.map((): [number, number] => [Math.max(per_kv_token_ns / 1000, attention_us), 0]),
    },
  }
}
