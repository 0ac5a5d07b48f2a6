/**
 * ModelCosts compiled for simulation: the duration of an iteration in seconds with one multiplication for each size that it depends on. A run of
 * equal decode iterations is a sum in closed form, since B stays and S grows by B.
 */
import type { ModelCosts, PhaseConstants } from './model-costs.ts'

/** vLLM's default max_num_seqs is 256; the logs go up to this. */
export const SEQUENCES_MAX = 512

const GIGA = 1e9
const S_PER_US = 1e-6

export class IterationCosts {
  readonly costs: ModelCosts
  /** Of a decode iteration by B: in any case, for each token of S, for each token of s. */
  readonly decode_base_s = new Float64Array(SEQUENCES_MAX + 1)
  readonly decode_token_s = new Float64Array(SEQUENCES_MAX + 1)
  readonly decode_longest_s = new Float64Array(SEQUENCES_MAX + 1)
  /** Of a prefill iteration by B: in any case, for s, for s², for each token of S. */
  readonly #prefill_base_s = new Float64Array(SEQUENCES_MAX + 1)
  readonly #prefill_longest_s = new Float64Array(SEQUENCES_MAX + 1)
  readonly #prefill_square_s = new Float64Array(SEQUENCES_MAX + 1)
  readonly #prefill_token_s = new Float64Array(SEQUENCES_MAX + 1)
  readonly #call_flops: number
  readonly #token_flops: number

  constructor(costs: ModelCosts) {
    this.costs = costs
    const { layers, hidden, elements, tp } = costs
    this.#call_flops = 2 * elements
    this.#token_flops = 4 * layers * hidden
    for (let calls = 1; calls <= SEQUENCES_MAX; calls += 1) {
      const decode = constantsAt(costs.knots, costs.decode, calls)
      const decode_us_per_flop = decode.compute[0] / GIGA / tp
      this.decode_base_s[calls] = S_PER_US * decode.fixed_us
      this.decode_token_s[calls] = S_PER_US * (decode.sample[0] + decode_us_per_flop * this.#token_flops)
      this.decode_longest_s[calls] = S_PER_US * decode.prepare[0] * calls
      const prefill = constantsAt(costs.knots, costs.prefill, calls)
      const prefill_us_per_flop = prefill.compute[0] / GIGA / tp
      this.#prefill_base_s[calls] = S_PER_US * prefill.fixed_us
      this.#prefill_longest_s[calls] = S_PER_US * calls * (prefill.prepare[0] + prefill_us_per_flop * this.#call_flops)
      this.#prefill_square_s[calls] = S_PER_US * calls * prefill_us_per_flop * this.#token_flops
      this.#prefill_token_s[calls] = S_PER_US * prefill.sample[0]
    }
  }

  /** `tokens`: S, the sum of the prompts; `longest`: s. */
  prefillS(calls: number, longest: number, tokens: number): number {
    return (
      (this.#prefill_base_s[calls] as number) +
      (this.#prefill_longest_s[calls] as number) * longest +
      (this.#prefill_square_s[calls] as number) * longest * longest +
      (this.#prefill_token_s[calls] as number) * tokens
    )
  }

  decodeS(calls: number, longest: number, tokens: number): number {
    return (
      (this.decode_base_s[calls] as number) +
      (this.decode_token_s[calls] as number) * tokens +
      (this.decode_longest_s[calls] as number) * longest
    )
  }

  prefillFlops(calls: number, longest: number): number {
    return calls * longest * (this.#call_flops + this.#token_flops * longest)
  }

  /** Of `steps` decode iterations, in the first of which S is `tokens`. */
  decodeFlops(calls: number, tokens: number, steps: number): number {
    return steps * (this.#call_flops * calls + this.#token_flops * (tokens + (calls * (steps - 1)) / 2))
  }
}

interface ConstantsAtB {
  compute: readonly [number, number]
  prepare: readonly [number, number]
  sample: readonly [number, number]
  /** The constants of all three parts. */
  fixed_us: number
}

function constantsAt(knots: readonly number[], phase: PhaseConstants, calls: number): ConstantsAtB {
  const [below, above, share] = between(knots, calls)
  const at = (lines: readonly (readonly [number, number])[]): [number, number] => {
    const low = lines[below] as readonly [number, number]
    const high = lines[above] as readonly [number, number]
    return [low[0] + (high[0] - low[0]) * share, low[1] + (high[1] - low[1]) * share]
  }
  const [compute, prepare, sample] = [at(phase.compute), at(phase.prepare), at(phase.sample)]
  return { compute, prepare, sample, fixed_us: compute[1] + prepare[1] + sample[1] }
}

/** The knots around a value, and how far it is from the one to the other. Beyond the last knot: the last. */
export function between(knots: readonly number[], value: number): [below: number, above: number, share: number] {
  let above = knots.findIndex((knot) => knot >= value)
  if (above === -1) above = knots.length - 1
  const below = Math.max(0, above - 1)
  const low = knots[below] as number
  const high = knots[above] as number
  if (value >= high || high === low) return [above, above, 0]
  return [below, above, Math.max(0, (value - low) / (high - low))]
}
