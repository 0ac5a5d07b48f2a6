/** Throughput ratios between systems at common SLOs, and what may be said of them. */
import type { PaperRow, Table } from '../figure.ts'
import type { CurvePoint, ThroughputRatio } from '../statistics/read-off.ts'
import { throughputRatio } from '../statistics/read-off.ts'
import { figure, withInterval } from '../statistics/words.ts'

export interface RatioAt extends ThroughputRatio {
  slo_ms: number
}

type Curves = readonly (readonly CurvePoint[])[]

/** Rates that differ by less are the same. */
const SAME = 0.02

/** At every SLO where a value or a lower bound is known. */
export function ratiosAt(ours: Curves, others: Curves, slos_ms: readonly number[]): RatioAt[] {
  return slos_ms.flatMap((slo_ms) => {
    const ratio = throughputRatio(ours, others, slo_ms)
    return ratio === null ? [] : [{ slo_ms, ...ratio }]
  })
}

/** The paper says "up to": the largest over SLOs, of exact values if there are any. */
export function largest(ratios: readonly RatioAt[]): RatioAt | null {
  const exact = ratios.filter(({ bound }) => bound === 'exact')
  const of = exact.length > 0 ? exact : ratios
  return of.reduce<RatioAt | null>(
    (most, one) => (most === null || one.ratio.mean > most.ratio.mean ? one : most),
    null,
  )
}

export function smallest(ratios: readonly RatioAt[]): RatioAt | null {
  return ratios
    .filter(({ bound }) => bound === 'exact')
    .reduce<RatioAt | null>((least, one) => (least === null || one.ratio.mean < least.ratio.mean ? one : least), null)
}

export function ratioText({ bound, ratio }: ThroughputRatio): string {
  return `${bound === 'at_least' ? '≥ ' : ''}${withInterval(ratio)}×`
}

/** None where no SLO can be compared. */
export function ratioTable(
  title: string,
  slos_ms: readonly number[],
  rows: readonly { name: string; ratios: readonly RatioAt[] }[],
): Table[] {
  const shown = slos_ms.filter((slo_ms) => rows.some(({ ratios }) => ratios.some((one) => one.slo_ms === slo_ms)))
  if (shown.length === 0) return []
  const table: Table = {
    title,
    columns: ['', ...shown.map((slo_ms) => `${slo_ms} ms`)],
    rows: rows.map(({ name, ratios }) => [
      name,
      ...shown.map((slo_ms) => {
        const at = ratios.find((one) => one.slo_ms === slo_ms)
        return at === undefined ? '–' : ratioText(at)
      }),
    ]),
  }
  return [table]
}

export function paperRatio(claim: string, paper: number, ratios: readonly RatioAt[]): PaperRow {
  const most = largest(ratios)
  if (most === null) return { claim, paper, ours: null, unit: '×', note: 'no SLO that both systems meet' }
  const note = `largest over SLOs, at ${most.slo_ms} ms per token`
  return { claim, paper, ours: most.ratio, at_least: most.bound === 'at_least', unit: '×', note }
}

/** `1.9× (at 100 ms per token) to 2.3× (at 50 ms) the rate of vLLM-opt`; null: no SLO that both meet. */
export function rangeText(other: string, ratios: readonly RatioAt[]): string | null {
  const low = smallest(ratios)
  const high = largest(ratios)
  if (low === null || high === null) return null
  const of = `the rate of ${other}`
  const [least, most] = [figure(low.ratio.mean), figure(high.ratio.mean)]
  if (low.ratio.mean > 1 - SAME && high.ratio.mean < 1 + SAME) return `${of} (within ${SAME * 100} %)`
  if (low.slo_ms === high.slo_ms) return `${least}× ${of} (at ${low.slo_ms} ms per token)`
  return `${least}× (at ${low.slo_ms} ms per token) to ${most}× (at ${high.slo_ms} ms) ${of}`
}
