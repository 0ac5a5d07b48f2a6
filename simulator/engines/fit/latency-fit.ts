/**
 * The constants of one engine's LatencyProfile from measured iterations. The features are those of `stepDurationUs`, so that what is
 * fitted is what is played; `shadow_tokens` bends the line, so it is searched, and the others are fitted for each value of it.
 *
 * The log's engine padded its batches: a prefill computes `sequences · longest` tokens, and a decode step pays for the block tables'
 * padding. The first is fitted as computed. The second gets a term of its own, `per_padded_token_ns`, so that it does not bend the others; a
 * profile leaves it out, since our engine pads nothing.
 */
import { type FitError, fitError, fitNonNegative, predict, type Sample } from '../../fit/least-squares.ts'
import type { Iteration, Phase } from './iteration-log.ts'

export interface LatencyConstants {
  base_us: number
  per_sequence_us: number
  per_kv_token_ns: number
  per_prefill_token_us: number
  per_prefill_pair_ps: number
  per_padded_token_ns: number
  shadow_tokens: number
}

export interface LatencyFit {
  constants: LatencyConstants
  /** On rows that the fit has not seen. */
  error: Record<Phase, FitError>
}

/** Every so many rows one is kept from the fit. */
const HELD_OUT_EVERY = 5
const SHADOW_TOKENS_MAX = 256
const SHADOW_STEP_TOKENS = 16

export function fitLatency(iterations: readonly Iteration[]): LatencyFit {
  const held_out = iterations.filter((_, index) => index % HELD_OUT_EVERY === 0)
  const seen = iterations.filter((_, index) => index % HELD_OUT_EVERY !== 0)
  let best: { constants: LatencyConstants; mean: number } | null = null
  for (let shadow_tokens = 0; shadow_tokens <= SHADOW_TOKENS_MAX; shadow_tokens += SHADOW_STEP_TOKENS) {
    const samples = seen.map((iteration) => sampleOf(iteration, shadow_tokens))
    const constants = constantsOf(fitNonNegative(samples, 6), shadow_tokens)
    const error = errorOf(constants, seen)
    const mean = error.prefill.mean_abs_percent + error.decode.mean_abs_percent
    if (best === null || mean < best.mean) best = { constants, mean }
  }
  if (best === null) throw new Error('no shadow was tried')
  return { constants: best.constants, error: errorOf(best.constants, held_out) }
}

export function errorOf(constants: LatencyConstants, iterations: readonly Iteration[]): Record<Phase, FitError> {
  const coefficients = coefficientsOf(constants)
  const of = (phase: Phase) =>
    fitError(
      iterations
        .filter((iteration) => iteration.phase === phase)
        .map((iteration) => {
          const { features, measured } = sampleOf(iteration, constants.shadow_tokens)
          return { predicted: predict(coefficients, features), measured }
        }),
    )
  return { prefill: of('prefill'), decode: of('decode') }
}

function sampleOf(iteration: Iteration, shadow_tokens: number): Sample {
  const { phase, sequences, longest_tokens, total_tokens, duration_us: measured } = iteration
  const padded = sequences * longest_tokens
  if (phase === 'prefill') {
    const computed = Math.max(0, padded - shadow_tokens)
    return { features: [1, sequences, padded, computed, (padded * longest_tokens) / 2, 0], measured }
  }
  const computed = Math.max(0, sequences - shadow_tokens)
  return { features: [1, sequences, total_tokens, computed, 0, Math.max(0, padded - total_tokens)], measured }
}

function constantsOf(coefficients: readonly number[], shadow_tokens: number): LatencyConstants {
  const [base = 0, sequence = 0, kv = 0, token = 0, pair = 0, padded = 0] = coefficients
  return {
    base_us: base,
    per_sequence_us: sequence,
    per_kv_token_ns: kv * 1e3,
    per_prefill_token_us: token,
    per_prefill_pair_ps: pair * 1e6,
    per_padded_token_ns: padded * 1e3,
    shadow_tokens,
  }
}

function coefficientsOf(constants: LatencyConstants): number[] {
  return [
    constants.base_us,
    constants.per_sequence_us,
    constants.per_kv_token_ns / 1e3,
    constants.per_prefill_token_us,
    constants.per_prefill_pair_ps / 1e6,
    constants.per_padded_token_ns / 1e3,
  ]
}
