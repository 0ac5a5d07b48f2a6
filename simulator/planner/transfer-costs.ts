/**
 * Constants of models and GPU counts that were not logged.
 *
 * - The same shape under another name (WizardLM is a Llama 13B, Mixtral Instruct is Mixtral): that model's constants.
 * - Eight GPUs of a logged model: the time that does not depend on FLOPs is a part that all GPUs share, the weights, and a part that they do not.
 *   Two and four GPUs tell the parts. What a FLOP on one GPU takes is that of four GPUs.
 * - Another shape: the constants of the simulator's profiles, carried over by engines/transfer.ts, as lines for each B.
 */
import type { ModelCosts, PhaseConstants } from '../../gpu-agent/planner/costs/model-costs.ts'
import type { LoggedEngine } from '../engines/logged-engines.ts'
import { activeElements, type ModelShape } from '../engines/model-shapes.ts'
import { transfer } from '../engines/transfer.ts'
import { KNOTS } from './fit-costs.ts'

type Phases = Pick<ModelCosts, 'prefill' | 'decode'>

/** At least this share of what four GPUs take in any case. */
const FIXED_SHARE_MIN = 0.5

export function onEightGpus(two: Phases, four: Phases): Phases {
  const lines = (of_two: PhaseConstants['compute'], of_four: PhaseConstants['compute']): PhaseConstants['compute'] =>
    of_four.map(([slope, fixed], at) => {
      const [, fixed_two] = of_two[at] as [number, number]
      const shared = Math.max(0, fixed_two - fixed) / 2
      return [slope, Math.max(fixed - shared, fixed * FIXED_SHARE_MIN)]
    })
  const phase = (of_two: PhaseConstants, of_four: PhaseConstants): PhaseConstants => ({
    ...of_four,
    compute: lines(of_two.compute, of_four.compute),
  })
  return { prefill: phase(two.prefill, four.prefill), decode: phase(two.decode, four.decode) }
}

export function fromOtherShapes(logged: readonly LoggedEngine[], shape: ModelShape, tp: number): Phases {
  const constants = transfer(logged, shape, tp)
  const { base_us, per_sequence_us, per_prefill_token_us, shadow_tokens } = constants
  const [kv_us, padded_us] = [constants.per_kv_token_ns / 1000, constants.per_padded_token_ns / 1000]
  const elements = activeElements(shape)
  const call_gflop = (2 * elements) / tp / 1e9
  const token_gflop = (4 * shape.layers * shape.hidden) / tp / 1e9
  const kv_slope = kv_us / token_gflop
  const rounded = (value: number) => Number(value.toPrecision(6))
  const none = KNOTS.map((): [number, number] => [0, 0])
  return {
    decode: {
      compute: KNOTS.map((calls) => {
        const computed_us = Math.max(0, calls - shadow_tokens) * per_prefill_token_us
        const fixed_us = base_us + calls * per_sequence_us + computed_us
        return [rounded(kv_slope), rounded(fixed_us)]
      }),
      prepare: KNOTS.map(() => [rounded(padded_us), 0]),
      sample: none,
    },
    prefill: {
      compute: KNOTS.map((calls) => [
        rounded(per_prefill_token_us / call_gflop),
        rounded(base_us + calls * per_sequence_us - shadow_tokens * per_prefill_token_us),
      ]),
      prepare: KNOTS.map(() => [rounded(padded_us + kv_us), 0]),
      sample: none,
    },
  }
}
