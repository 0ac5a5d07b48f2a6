/**
 * A marginal distribution as a table: few distinct values as they are with their shares, many as quantiles on a grid that is fine at the
 * tails. Both answer the same question, which value stands at a share `u` of the distribution.
 */

export type Table =
  | { kind: 'values'; values: readonly number[]; cumulative: readonly number[] }
  | { kind: 'quantiles'; values: readonly number[] }

/** Shares at which quantile tables are held. */
const GRID: readonly number[] = [
  0,
  0.001,
  0.0025,
  0.005,
  ...Array.from({ length: 99 }, (_, i) => (i + 1) / 100),
  0.995,
  0.9975,
  0.999,
  1,
]
const DISTINCT_VALUES_MAX = 64

export function tableOf(sample: readonly number[]): Table {
  const sorted = [...sample].sort((a, b) => a - b)
  if (sorted.length === 0) throw new RangeError('a table needs at least one value')
  const values = [...new Set(sorted)]
  if (values.length > DISTINCT_VALUES_MAX)
    return { kind: 'quantiles', values: GRID.map((u) => round(quantile(sorted, u))) }
  let last = 0
  const cumulative = values.map((value) => {
    while (last < sorted.length && (sorted[last] as number) <= value) last += 1
    return round(last / sorted.length)
  })
  return { kind: 'values', values, cumulative }
}

/** `u` in [0, 1]. */
export function valueAt(table: Table, u: number): number {
  if (table.kind === 'values') {
    const index = table.cumulative.findIndex((share) => u <= share)
    return table.values[index < 0 ? table.values.length - 1 : index] ?? 0
  }
  let upper = 1
  while (upper < GRID.length - 1 && (GRID[upper] as number) < u) upper += 1
  const from = GRID[upper - 1] as number
  const part = Math.min(1, Math.max(0, (u - from) / ((GRID[upper] as number) - from)))
  const low = table.values[upper - 1] ?? 0
  return low + part * ((table.values[upper] ?? low) - low)
}

function quantile(sorted: readonly number[], u: number): number {
  const at = u * (sorted.length - 1)
  const low = sorted[Math.floor(at)] as number
  return low + (at - Math.floor(at)) * ((sorted[Math.ceil(at)] as number) - low)
}

function round(value: number): number {
  return Number(value.toPrecision(6))
}
