/** How far what a profile draws is from the trace that it was fitted to, marginal by marginal. */
import { ksDistance, wassersteinOverMean } from '../distance.ts'
import { MARGINALS, type MarginalName, marginalsOf } from '../marginals.ts'
import type { WorkloadProgram } from '../program.ts'
import { mean } from './statistics.ts'

export interface MarginalDistance {
  ks: number
  wasserstein_over_mean: number
  mean: number
  trace_mean: number
  /** At 0, 5, … 100 %. */
  trace_quantiles: number[]
}

export type WorkloadDistances = Partial<Record<MarginalName, MarginalDistance>>

export function distances(drawn: readonly WorkloadProgram[], trace: readonly WorkloadProgram[]): WorkloadDistances {
  const of_drawn = marginalsOf(drawn)
  const of_trace = marginalsOf(trace)
  const result: WorkloadDistances = {}
  for (const name of MARGINALS) {
    const measured = of_trace[name]
    if (measured.length === 0) continue
    result[name] = {
      ks: rounded(ksDistance(of_drawn[name], measured)),
      wasserstein_over_mean: rounded(wassersteinOverMean(of_drawn[name], measured)),
      mean: rounded(mean(of_drawn[name])),
      trace_mean: rounded(mean(measured)),
      trace_quantiles: quantiles(measured),
    }
  }
  return result
}

function quantiles(values: readonly number[]): number[] {
  const sorted = [...values].sort((a, b) => a - b)
  return Array.from({ length: 21 }, (_, i) => rounded(sorted[Math.round((i / 20) * (sorted.length - 1))] ?? 0))
}

function rounded(value: number): number {
  return Number(value.toPrecision(4))
}

/** Markdown: one row a workload, KS and Wasserstein over the mean in each cell. */
export function distanceTable(report: Readonly<Record<string, WorkloadDistances>>): string {
  const head = ['workload', ...MARGINALS.map((name) => name.replaceAll('_', ' '))]
  const rows = Object.entries(report).map(([workload, of]) => [
    workload,
    ...MARGINALS.map((name) => {
      const distance = of[name]
      return distance === undefined ? '' : `${distance.ks.toFixed(3)} / ${distance.wasserstein_over_mean.toFixed(3)}`
    }),
  ])
  return [head, head.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |`).join('\n')
}
