/**
 * Throughput at a latency, as Autellix reads it off figure 12: the highest rate at which mean program token latency is within
 * the SLO, on straight lines between the rates that were played. A curve that leaves the SLO and comes back counts up to where
 * it left first. Where every rate played is within the SLO, or none, only a bound is known.
 */
import { type Interval, interval } from './interval.ts'

export interface CurvePoint {
  rate: number
  latency_ms: number
}

export type Throughput =
  | { kind: 'at'; rate: number }
  /** Every rate that was played is within the SLO. */
  | { kind: 'at_least'; rate: number }
  /** The lowest rate that was played is beyond it. */
  | { kind: 'below'; rate: number }

/** `curve`: rates ascending, at least one. */
export function throughputAt(curve: readonly CurvePoint[], slo_ms: number): Throughput {
  let within: CurvePoint | null = null
  for (const point of curve) {
    if (point.latency_ms > slo_ms) {
      if (within === null) return { kind: 'below', rate: point.rate }
      const share = (slo_ms - within.latency_ms) / (point.latency_ms - within.latency_ms)
      return { kind: 'at', rate: within.rate + share * (point.rate - within.rate) }
    }
    within = point
  }
  if (within === null) throw new RangeError('a curve needs a point')
  return { kind: 'at_least', rate: within.rate }
}

/** How many times the throughput of `other` that of `ours` is; null where neither a value nor a bound is known. */
export interface ThroughputRatio {
  bound: 'exact' | 'at_least'
  ratio: Interval
}

/** Curves by seed, equal seeds playing equal programs. */
export function throughputRatio(
  ours: readonly (readonly CurvePoint[])[],
  others: readonly (readonly CurvePoint[])[],
  slo_ms: number,
): ThroughputRatio | null {
  let bound: ThroughputRatio['bound'] = 'exact'
  const ratios: number[] = []
  for (const [seed, curve] of ours.entries()) {
    const mine = throughputAt(curve, slo_ms)
    const other = throughputAt(others[seed] as readonly CurvePoint[], slo_ms)
    if (mine.kind === 'below' || other.kind === 'at_least') return null
    if (mine.kind === 'at_least' || other.kind === 'below') bound = 'at_least'
    ratios.push(mine.rate / other.rate)
  }
  return ratios.length === 0 ? null : { bound, ratio: interval(ratios) }
}
