/**
 * Programs that are tree searches or waves of calls, under `learned` and under the clairvoyant order: alone, and beside programs of
 * other kinds. Beside others an order can be as good on average and still make trees wait.
 */
import type { Goal, Table } from '../figure.ts'
import type { RunOutcome } from '../runs/run-outcome.ts'
import { type Interval, interval } from '../statistics/interval.ts'
import { figure, percent, withInterval } from '../statistics/words.ts'

/** The workloads that have trees, and which of their programs are. */
export const TREES: Readonly<Record<string, string>> = {
  lats: 'lats',
  'lats-long': 'lats-long',
  'parallel-waves': 'parallel-waves',
  mixed: 'lats',
  'mixed-whole': 'lats-long',
}
/** Learned ÷ clairvoyant. */
const TREES_MAX = 1.1

/** One cell of a workload with trees: outcomes seed by seed. */
export interface TreeCell {
  name: string
  workload: string
  warm: readonly RunOutcome[]
  cold: readonly RunOutcome[]
  clairvoyant: readonly RunOutcome[]
}

interface Row {
  name: string
  kind: string
  /** Per token. */
  clairvoyant_ms: number
  warm: Interval
  cold: Interval
}

/** Null: none of the cells has trees. */
export function readTrees(cells: readonly TreeCell[]): { table: Table; goal: Goal } | null {
  const rows = cells.flatMap(rowOf)
  return rows.length === 0 ? null : { table: table(rows), goal: goalOf(rows) }
}

function rowOf({ name, workload, warm, cold, clairvoyant }: TreeCell): Row[] {
  const kind = TREES[workload]
  if (kind === undefined) return []
  const means = (outcomes: readonly RunOutcome[]) =>
    outcomes.map(({ by_workload }) => by_workload[kind]?.token_latency_ms.mean ?? Number.NaN)
  const base = means(clairvoyant)
  const over = (outcomes: readonly RunOutcome[]) =>
    interval(means(outcomes).map((mean, at) => mean / (base[at] as number)))
  return [{ name, kind, clairvoyant_ms: interval(base).mean, warm: over(warm), cold: over(cold) }]
}

function table(rows: readonly Row[]): Table {
  return {
    title: 'Trees: mean program token latency ÷ that under the clairvoyant order, of the tree programs alone',
    columns: ['programs', 'of them', 'clairvoyant, ms per token', 'learned, warm', 'learned, cold'],
    rows: rows.map(({ name, kind, clairvoyant_ms, warm, cold }) => [
      ...[name, kind, figure(clairvoyant_ms), withInterval(warm), withInterval(cold)],
    ]),
  }
}

function goalOf(rows: readonly Row[]): Goal {
  const misses = rows.filter(({ warm }) => warm.mean > TREES_MAX)
  return {
    goal: 'Learned, warm: mean of trees ÷ that under the clairvoyant order',
    target: `≤ ${TREES_MAX}`,
    ours:
      misses.length === 0
        ? `no miss in ${rows.length} cells`
        : `${misses.length} of ${rows.length} cells miss: ${misses.map(({ name, warm }) => `${name} (${percent(warm.mean - 1)} above)`).join('; ')}`,
    met: misses.length === 0,
  }
}
