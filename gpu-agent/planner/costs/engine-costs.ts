/**
 * ModelCosts of an engine whose step times are known, as a latency profile has them or as `npm run calibrate` measures them.
 *
 * SamuLLM's lines have the same terms, so nothing is lost but chunked prefill: a prompt is one iteration here. FLOPs are those of a device that computes
 * one TFLOP/s, since step times have no sizes. They only weigh nodes against each other in Algorithm 1, so tables of one host are comparable.
 */
import type { ModelCosts } from './model-costs.ts'

export interface EngineTimes {
  prefill: {
    base_us: number
    per_sequence_us: number
    per_prefill_token_us: number
    /** For each pair of a prompt token and one before it. */
    per_prefill_pair_ps: number
  }
  decode: {
    /** Of an iteration of so many calls, by calls, ascending; linear between. */
    base_us: readonly (readonly [calls: number, us: number])[]
    per_kv_token_ns: number
  }
}

export interface EngineSize {
  seats: number
  /** Prompt and output of one call. */
  context_tokens: number
  kv_tokens: number
  block_tokens: number
  step_tokens: number
}

/** Those of an engine that takes `factor` times as long for everything. */
export function scaledTimes({ prefill, decode }: EngineTimes, factor: number): EngineTimes {
  return {
    prefill: {
      base_us: prefill.base_us * factor,
      per_sequence_us: prefill.per_sequence_us * factor,
      per_prefill_token_us: prefill.per_prefill_token_us * factor,
      per_prefill_pair_ps: prefill.per_prefill_pair_ps * factor,
    },
    decode: {
      base_us: decode.base_us.map(([calls, us]) => [calls, us * factor] as const),
      per_kv_token_ns: decode.per_kv_token_ns * factor,
    },
  }
}

/** Microseconds for 10^9 FLOPs of that device. */
const US_PER_GFLOP = 1000
const GIGA = 1e9

export function engineCosts(
  { model, tp, loading_s }: Pick<ModelCosts, 'model' | 'tp' | 'loading_s'>,
  { prefill, decode }: EngineTimes,
  { seats, context_tokens, kv_tokens, block_tokens, step_tokens }: EngineSize,
): ModelCosts {
  // Over all tp GPUs, since an iteration divides its FLOPs by them.
  const flops_per_us = (GIGA / US_PER_GFLOP) * tp
  const knots = decode.base_us.map(([calls]) => calls)
  const none = knots.map((): [number, number] => [0, 0])
  // 2 · elements FLOPs a token; 4 · layers · hidden · s² FLOPs a prompt, which has s² / 2 pairs.
  const elements = Math.max(1, Math.round((prefill.per_prefill_token_us * flops_per_us) / 2))
  const hidden = Math.max(1, Math.round(((prefill.per_prefill_pair_ps / 1e6) * flops_per_us) / 8))
  const attention_us = (4 * hidden) / flops_per_us
  return {
    ...{ model, tp, basis: 'fitted', error_percent: { prefill: 0, decode: 0 } },
    ...{ layers: 1, hidden, elements, max_model_tokens: context_tokens },
    ...{ kv_tokens, loading_s, loading_per_replica_s: 0, knots },
    engine: { seats, block_tokens, step_tokens, padding_tokens_max: null },
    prefill: {
      compute: knots.map((calls): [number, number] => [
        prefill.per_prefill_token_us > 0 ? US_PER_GFLOP : 0,
        prefill.base_us + calls * prefill.per_sequence_us,
      ]),
      ...{ prepare: none, sample: none },
    },
    decode: {
      compute: decode.base_us.map(([, us]): [number, number] => [0, us]),
      prepare: none,
      // A decoded token reads the KV of its context; the attention of one token is among it.
      sample: knots.map((): [number, number] => [Math.max(decode.per_kv_token_ns / 1000, attention_us), 0]),
    },
  }
}
