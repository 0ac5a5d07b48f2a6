/** Figures of replayed forecasts (replay.ts), for one class or for all. */
import { CONFIDENCE_MIN } from '../../src/core/call/forecast.ts'
import type { Scored } from './replay.ts'

/** Times below count as this: a clock of milliseconds tells no more. */
const TIME_US_MIN = 1000

export interface ForecastScore {
  class: string
  calls: number
  /** Calls of which something was known. */
  forecast_share: number
  /** The likeliest of all outcomes came: the tool by name, or the end. */
  top1_share: number
  /** Mean of −ln p of what came, nats. */
  log_loss: number
  /** Below the bound at which the mean over all tools is taken. */
  unsure_share: number
  /** Forecast ÷ real or real ÷ forecast, the larger: 1 is exact. Before the call. */
  tool_ratio_p50: number | null
  tool_ratio_p90: number | null
  /** The same once the answer has named the tools. */
  named_ratio_p50: number | null
  named_ratio_p90: number | null
  /** Median of the absolute error, tokens. */
  answer_error_p50_tokens: number | null
  /** Of the median of the situation, tokens. */
  output_mae_tokens: number
  output_acc5_share: number
  output_acc15_share: number
}

export function scoreOf(name: string, calls: readonly Scored[]): ForecastScore {
  const forecast = calls.flatMap((call) => (call.forecast === null ? [] : [{ ...call, forecast: call.forecast }]))
  const share = (of: (call: (typeof forecast)[number]) => boolean) => meanOf(forecast.map((call) => Number(of(call))))
  const ratios = forecast.flatMap((call) => ratioOf(call.forecast.tool_us, call.tool_us))
  const named = calls.flatMap((call) => ratioOf(call.named_tool_us, call.tool_us))
  const answers = forecast.flatMap(({ forecast: { answer_tokens: told }, answer_tokens: real }) =>
    told === null || real === null ? [] : [Math.abs(told - real)],
  )
  const errors = forecast.map((call) => Math.abs(call.forecast.output_tokens - call.output_tokens))
  return {
    class: name,
    calls: calls.length,
    forecast_share: calls.length === 0 ? 0 : forecast.length / calls.length,
    top1_share: share((call) => call.forecast.is_right),
    log_loss: meanOf(forecast.map((call) => -Math.log(call.forecast.share))),
    unsure_share: share((call) => call.forecast.confidence < CONFIDENCE_MIN),
    tool_ratio_p50: quantileOf(ratios, 0.5),
    tool_ratio_p90: quantileOf(ratios, 0.9),
    named_ratio_p50: quantileOf(named, 0.5),
    named_ratio_p90: quantileOf(named, 0.9),
    answer_error_p50_tokens: quantileOf(answers, 0.5),
    output_mae_tokens: meanOf(errors),
    output_acc5_share: meanOf(errors.map((error) => Number(error <= 5))),
    output_acc15_share: meanOf(errors.map((error) => Number(error <= 15))),
  }
}

/** Each class by name, then all of them together where there are several. */
export function scoresOf(calls: readonly Scored[]): ForecastScore[] {
  const classes = [...Map.groupBy(calls, (call) => call.class)].sort(([a], [b]) => (a < b ? -1 : 1))
  const scores = classes.map(([name, of]) => scoreOf(name, of))
  return classes.length > 1 ? [...scores, scoreOf('all', calls)] : scores
}

function ratioOf(told_us: number | null, real_us: number | null): number[] {
  if (told_us === null || real_us === null) return []
  const [told, real] = [Math.max(TIME_US_MIN, told_us), Math.max(TIME_US_MIN, real_us)]
  return [Math.max(told / real, real / told)]
}

function meanOf(values: readonly number[]): number {
  return values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length
}

function quantileOf(values: readonly number[], share: number): number | null {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? null
}
