/**
 * What the planner needs of measured spans (SamuLLM §4.1): a line for prefill, and for decode a line in tokens of KV whose constant depends on the calls.
 * Spans in which some calls decode while others prefill are left out: neither phase takes their time.
 */

import type { EngineTimes } from '../../gpu-agent/planner/costs/engine-costs.ts'
import { between } from '../../gpu-agent/planner/costs/iteration-costs.ts'
import { fitError, fitNonNegative, predict, type Sample } from '../../simulator/fit/least-squares.ts'
import type { Span } from './span.ts'

export interface PhaseFit {
  times: EngineTimes
  /** Mean error of every fifth span of a phase, which the fit has not seen. */
  error_percent: { prefill: number; decode: number }
}

/** Of each phase. */
export const PHASE_SPANS_MIN = 5
const HELD_OUT_EVERY = 5

/** `overhead_us`: what the engine takes from one step to the next. Throws RangeError for too few spans. */
export function fitPhases(spans: readonly Span[], overhead_us: number): PhaseFit {
  const prefills = spans.filter(({ decodes, prefill_tokens }) => decodes === 0 && prefill_tokens > 0)
  const decodes = spans.filter((span) => span.decodes > 0 && span.prefill_tokens === 0)
  for (const [name, found] of [['prefill', prefills] as const, ['decode', decodes] as const]) {
    if (found.length < PHASE_SPANS_MIN)
      throw new RangeError(`${found.length} spans of ${name} were observed; a fit needs ${PHASE_SPANS_MIN}`)
  }
  const knots = knotsOf(decodes)
  const prefill = fitOf(prefills, prefillFeatures, 4)
  const decode = fitOf(decodes, (span) => decodeFeatures(knots, span), knots.length + 1)
  const [base = 0, sequence = 0, token = 0, pair = 0] = prefill.coefficients
  const kv = decode.coefficients[knots.length] ?? 0
  return {
    times: {
      prefill: {
        base_us: significant(base + overhead_us),
        per_sequence_us: significant(sequence),
        per_prefill_token_us: significant(token),
        per_prefill_pair_ps: significant(pair * 1e6),
      },
      decode: {
        base_us: knots.map((calls, at) => [calls, significant((decode.coefficients[at] ?? 0) + overhead_us)] as const),
        per_kv_token_ns: significant(kv * 1e3),
      },
    },
    error_percent: { prefill: prefill.error_percent, decode: decode.error_percent },
  }
}

/** Numbers of calls that were seen often enough for a constant of their own; all, where none was. */
function knotsOf(decodes: readonly Span[]): number[] {
  const by_calls = [...Map.groupBy(decodes, callsOf)].sort(([a], [b]) => a - b)
  const often = by_calls.filter(([, spans]) => spans.length >= PHASE_SPANS_MIN)
  return (often.length > 0 ? often : by_calls).map(([calls]) => calls)
}

/** Calls of a step; of an endpoint, where a span is many steps, in the mean. */
function callsOf({ calls, steps }: Span): number {
  return Math.max(1, Math.round(calls / steps))
}

function prefillFeatures({ steps, calls, prefill_tokens, prefill_pairs }: Span): number[] {
  return [steps, calls, prefill_tokens, prefill_pairs]
}

function decodeFeatures(knots: readonly number[], span: Span): number[] {
  const row = new Array<number>(knots.length + 1).fill(0)
  const [below, above, share] = between(knots, span.calls / span.steps)
  row[below] = (row[below] as number) + span.steps * (1 - share)
  row[above] = (row[above] as number) + span.steps * share
  row[knots.length] = span.kv_tokens
  return row
}

function fitOf(spans: readonly Span[], featuresOf: (span: Span) => number[], features: number) {
  const samples = spans.map((span): Sample => ({ features: featuresOf(span), measured: span.duration_us }))
  const is_held_out = (_: Sample, at: number) => at % HELD_OUT_EVERY === HELD_OUT_EVERY - 1
  const constants = (used: readonly Sample[]) => fitNonNegative(used, features, 'predicted')
  const seen = constants(samples.filter((sample, at) => !is_held_out(sample, at)))
  const pairs = samples
    .filter(is_held_out)
    .map((sample) => ({ predicted: predict(seen, sample.features), measured: sample.measured }))
  return { coefficients: constants(samples), error_percent: Number(fitError(pairs).mean_abs_percent.toFixed(2)) }
}

function significant(value: number): number {
  return Number(value.toPrecision(6))
}
