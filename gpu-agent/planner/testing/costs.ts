/** Costs for tests: whole microseconds, as the engine counts them. */
import type { ModelCosts } from '../costs/model-costs.ts'

export interface SimpleCosts {
  base_us: number
  per_sequence_us: number
  per_token_us: number
  per_prompt_token_us: number
}

/** Iterations of base + B · per_sequence + S · per_token, and for prompts S · per_prompt_token more. */
export function simpleCosts(times: SimpleCosts, given: Partial<ModelCosts> = {}): ModelCosts {
  const { base_us, per_sequence_us, per_token_us, per_prompt_token_us } = times
  const knots = [1, 512]
  const compute = knots.map((calls): [number, number] => [0, base_us + calls * per_sequence_us])
  const none = knots.map((): [number, number] => [0, 0])
  const sample = (us: number) => knots.map((): [number, number] => [us, 0])
  return {
    model: 'test',
    tp: 1,
    basis: 'fitted',
    error_percent: { prefill: 0, decode: 0 },
    ...{
      layers: 2,
      hidden: 8,
      elements: 1000,
      max_model_tokens: 4096,
      kv_tokens: 4096,
      loading_s: 0,
      loading_per_replica_s: 0,
    },
    knots,
    prefill: { compute, prepare: none, sample: sample(per_token_us + per_prompt_token_us) },
    decode: { compute, prepare: none, sample: sample(per_token_us) },
    ...given,
  }
}
