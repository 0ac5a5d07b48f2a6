/** Figures that compare a few variants at one or a few loads: a table of all metrics, and bars of the main ones. */
import type { Panel, Scope, Table } from '../figure.ts'
import { barChart } from '../plots/bar-chart.ts'
import { seriesColor } from '../plots/colors.ts'
import type { Chain, Runs } from '../runs/run-chains.ts'
import type { RunChange } from '../runs/run-spec.ts'
import { withInterval } from '../statistics/words.ts'
import { chainOf, METRICS, type Metric, metricOf, type Point, type Row } from './setting.ts'

export interface Variant {
  label: string
  row: Row
  change?: RunChange
}

export const ALL_METRICS: readonly Metric[] = Object.values(METRICS)

export function variantChains(variants: readonly Variant[], points: readonly Point[], scope: Scope): Chain[] {
  return variants.map(({ row, change }) => chainOf(points, row, scope, change))
}

export function variantMetric(runs: Runs, { row, change }: Variant, point: Point, metric: Metric, scope: Scope) {
  return metricOf(runs, point, row, metric, scope, change)
}

export function variantTable(
  title: string,
  variants: readonly Variant[],
  point: Point,
  runs: Runs,
  scope: Scope,
  metrics: readonly Metric[] = ALL_METRICS,
): Table {
  return {
    title,
    columns: ['', ...metrics.map(({ label, unit }) => `${label} (${unit})`)],
    rows: variants.map((variant) => [
      variant.label,
      ...metrics.map((metric) => withInterval(variantMetric(runs, variant, point, metric, scope))),
    ]),
  }
}

export function variantBars(
  variants: readonly Variant[],
  points: readonly Point[],
  metric: Metric,
  runs: Runs,
  scope: Scope,
): Panel {
  return {
    name: metric.name,
    alt: `${metric.label} of each variant by load.`,
    svg: barChart({
      ...{ title: metric.label, y: `${metric.label} (${metric.unit})`, x: 'load' },
      categories: points.map(({ load }) => `${load}`),
      bars: variants.map((variant, at) => ({
        ...{ name: variant.label, color: seriesColor(at) },
        values: points.map((point) => variantMetric(runs, variant, point, metric, scope)),
      })),
    }),
  }
}
