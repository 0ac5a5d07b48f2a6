/** ModelCosts of an engine that keeps to a latency profile: emulated ones do, and `npm run calibrate` measures the profile of a real one. */
import { engineCosts } from './engine-costs.ts'
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

const CALLS_MAX = 512

export function profileCosts(model: string, tp: number, times: StepTimes, loading_s: number): ModelCosts {
  const { base_us, per_sequence_us, per_kv_token_ns, per_prefill_token_us, per_prefill_pair_ps = 0 } = times
  const { seats, block_tokens, capacity_blocks, slot_tokens_max, max_step_tokens } = times
  return engineCosts(
    { model, tp, loading_s },
    {
      prefill: { base_us, per_sequence_us, per_prefill_token_us, per_prefill_pair_ps },
      decode: {
        base_us: [1, CALLS_MAX].map((calls) => [calls, base_us + calls * per_sequence_us] as const),
        per_kv_token_ns,
      },
    },
    {
      ...{ seats, context_tokens: slot_tokens_max, kv_tokens: capacity_blocks * block_tokens },
      ...{ block_tokens, step_tokens: max_step_tokens },
    },
  )
}
