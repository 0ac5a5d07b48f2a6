/**
 * What calibration observes: a span of engine steps, what they computed in all, and how long they took. One step of the embedded engine is
 * a span; so is the wait for a first token, and the pause between two tokens, of an endpoint whose steps cannot be seen. A span's duration
 * is linear in its sums because a step's is, so one fit serves both.
 */
import type { StepPlan } from '../../gpu-agent/engine/types.ts'
import { type FitError, fitError, fitNonNegative, predict, type Sample } from '../../simulator/fit/least-squares.ts'

export interface Span {
  steps: number
  /** Calls, summed over the steps. */
  calls: number
  /** Those of them that decode. */
  decodes: number
  kv_tokens: number
  prefill_tokens: number
  /** Pairs of a prompt token and a token before it. */
  prefill_pairs: number
  duration_us: number
}

export interface StepCosts {
  base_us: number
  per_sequence_us: number
  per_kv_token_ns: number
  per_prefill_token_us: number
  per_prefill_pair_ps: number
}

export interface CalibrationFit {
  costs: StepCosts
  /** On spans that the fit has not seen. */
  error: FitError
  spans: number
}

/** Each constant needs spans that differ in it. */
export const SPANS_MIN = 10
const HELD_OUT_EVERY = 5

export function spanOfStep(plan: StepPlan, duration_us: number): Span {
  let decodes = 0
  let kv_tokens = 0
  let prefill_tokens = 0
  let prefill_pairs = 0
  for (const { from, to, samples } of plan.work) {
    kv_tokens += to
    if (samples && to - from === 1) {
      decodes += 1
      continue
    }
    prefill_tokens += to - from
    prefill_pairs += ((to - from) * (from + to)) / 2
  }
  return { steps: 1, calls: plan.work.length, decodes, kv_tokens, prefill_tokens, prefill_pairs, duration_us }
}

/** Throws RangeError for too few spans. */
export function fitSpans(spans: readonly Span[]): CalibrationFit {
  if (spans.length < SPANS_MIN) throw new RangeError(`${spans.length} spans were observed; a fit needs ${SPANS_MIN}`)
  const held_out = spans.filter((_, index) => index % HELD_OUT_EVERY === HELD_OUT_EVERY - 1)
  const seen = spans.filter((_, index) => index % HELD_OUT_EVERY !== HELD_OUT_EVERY - 1)
  const coefficients = fitNonNegative(seen.map(sampleOf), 5, 'predicted')
  const [base = 0, sequence = 0, kv = 0, prefill = 0, pair = 0] = coefficients
  const pairs = held_out
    .map(sampleOf)
    .map(({ features, measured }) => ({ predicted: predict(coefficients, features), measured }))
  return {
    costs: {
      base_us: Math.max(1, Math.round(base)),
      per_sequence_us: significant(sequence),
      per_kv_token_ns: significant(kv * 1e3),
      per_prefill_token_us: significant(prefill),
      per_prefill_pair_ps: significant(pair * 1e6),
    },
    error: fitError(pairs),
    spans: spans.length,
  }
}

function sampleOf({ steps, calls, kv_tokens, prefill_tokens, prefill_pairs, duration_us }: Span): Sample {
  return { features: [steps, calls, kv_tokens, prefill_tokens, prefill_pairs], measured: duration_us }
}

function significant(value: number): number {
  return Number(value.toPrecision(5))
}
