/** Cells summed up over seeds, and beside the ranges that the paper prints. */
import type { Goal, Table } from '../figure.ts'
import { type Interval, interval } from '../statistics/interval.ts'
import { figure, withInterval } from '../statistics/words.ts'
import { type ApplicationKind, type Cell, PAPER_SPEEDUPS, WHY_MISSED } from './cells.ts'
import type { Played } from './play-cell.ts'

/** One cell with what was played of it, by seed. */
export interface CellRuns {
  cell: Cell
  seeds: readonly (readonly Played[])[]
}

type Name = Played['planner']

/** Planning included, as the paper's end-to-end time. */
export const endToEnd = (played: Played) => played.real_s + played.planning_s

export function over(
  { seeds }: CellRuns,
  of: (by: (name: Name) => Played | undefined) => number | undefined,
): Interval | null {
  const samples = seeds.flatMap((played) => of((name) => played.find(({ planner }) => planner === name)) ?? [])
  return samples.length === 0 ? null : interval(samples)
}

/** How many times as long another planner takes as `base`. */
export function ratio(runs: CellRuns, other: Name, base: Name = 'ours'): Interval | null {
  return over(runs, (by) => {
    const [a, b] = [by(other), by(base)]
    return a === undefined || b === undefined ? undefined : endToEnd(a) / endToEnd(b)
  })
}

const shown = (value: Interval | null) => (value === null ? '–' : withInterval(value))

export function cellTable(kind: ApplicationKind, all: readonly CellRuns[]): Table {
  const paper = PAPER_SPEEDUPS[kind]
  const words = ([low, high]: readonly [number, number]) => `${low.toFixed(1)} to ${high.toFixed(1)}`
  const ranges = paper === null ? '' : ` (the paper: Max ${words(paper.max)}, Min ${words(paper.min)})`
  return {
    title: `${kind}: end to end with planning, seconds; other planners as multiples of ours${ranges}`,
    columns: [
      'cell',
      'ours s',
      'greedy',
      'Max',
      'Min',
      'Max ÷ greedy',
      'Min ÷ greedy',
      'estimate off %',
      'planning s: ours, greedy, Max, Min',
    ],
    rows: all
      .filter(({ cell }) => cell.kind === kind)
      .map((runs) => [
        runs.cell.name,
        shown(over(runs, (by) => optional(by('ours'), endToEnd))),
        ...(['greedy', 'max', 'min'] as const).map((name) => shown(ratio(runs, name))),
        ...(['max', 'min'] as const).map((name) => shown(ratio(runs, name, 'greedy'))),
        shown(over(runs, (by) => optional(by('ours'), (one) => 100 * (one.estimated_s / one.real_s - 1)))),
        (['ours', 'greedy', 'max', 'min'] as const)
          .map((name) => figure(over(runs, (by) => by(name)?.planning_s)?.mean ?? Number.NaN))
          .join(', '),
      ]),
  }
}

function optional<T>(value: T | undefined, of: (value: T) => number): number | undefined {
  return value === undefined ? undefined : of(value)
}

/** Cells in which a heuristic is closer to ours than in any cell of the paper, and applications whose largest speedup is below the paper's: why. */
export function missedTable(all: readonly CellRuns[]): Table {
  const rows = [...new Set(all.map(({ cell }) => cell.kind))].flatMap((kind) =>
    (['max', 'min'] as const).flatMap((name) => missedRows(kind, name, all)),
  )
  const columns = ['application', 'against', 'paper', 'cells below the range', 'largest', 'why']
  return { title: "Where ours is below the paper's ranges", columns, rows: [...rows, ...missedIdleRows(all)] }
}

function missedRows(kind: ApplicationKind, name: 'max' | 'min', all: readonly CellRuns[]): string[][] {
  const range = PAPER_SPEEDUPS[kind]?.[name]
  if (range === undefined) return []
  const cells = all.flatMap((runs) => {
    const mean = runs.cell.kind === kind ? ratio(runs, name)?.mean : undefined
    return mean === undefined ? [] : [{ name: runs.cell.name, mean }]
  })
  const largest = Math.max(...cells.map(({ mean }) => mean))
  const below = cells.filter(({ mean }) => rounded(mean) < range[0])
  if (below.length === 0 && rounded(largest) >= range[1]) return []
  const listed = below.map((one) => `${one.name}: ${figure(one.mean)}`).join('; ')
  const why = WHY_MISSED[kind]?.[name] ?? 'not explained'
  return [[kind, name === 'max' ? 'Max' : 'Min', range.join(' to '), listed || 'none', figure(largest), why]]
}

/** Smallest and largest speedup of an application at or above the ends of the paper's range. */
export function speedupGoals(all: readonly CellRuns[]): Goal[] {
  return [...new Set(all.map(({ cell }) => cell.kind))].flatMap((kind) => {
    const ranges = PAPER_SPEEDUPS[kind]
    if (ranges === null) return []
    const cells = all.filter(({ cell }) => cell.kind === kind)
    return (['max', 'min'] as const).map((name): Goal => {
      const means = cells.flatMap((runs) => ratio(runs, name)?.mean ?? [])
      const [low, high] = [Math.min(...means), Math.max(...means)]
      const [paper_low, paper_high] = ranges[name]
      return {
        goal: `${kind}: speedup against the ${name === 'max' ? 'Max' : 'Min'}-heuristic, smallest to largest`,
        target: `≥ ${paper_low} to ≥ ${paper_high}`,
        ours: `${figure(low)} to ${figure(high)}`,
        met: rounded(low) >= paper_low && rounded(high) >= paper_high,
      }
    })
  })
}

/** The paper prints one decimal. */
function rounded(value: number): number {
  return Math.round(value * 10) / 10
}

export function otherGoals(all: readonly CellRuns[]): Goal[] {
  const worst = (name: Name) =>
    Math.min(
      ...all.flatMap(({ seeds }) =>
        seeds.flatMap((played) => {
          const [a, b] = [played.find((one) => one.planner === name), played.find((one) => one.planner === 'ours')]
          return a === undefined || b === undefined ? [] : [a.estimated_s / b.estimated_s]
        }),
      ),
    )
  const planning = Math.max(...all.flatMap((runs) => over(runs, (by) => by('ours')?.planning_s)?.mean ?? []))
  const goals: Goal[] = [
    {
      goal: 'our search is never worse than the greedy by its own estimate, in any cell and seed',
      target: '≥ 1',
      ours: `smallest ${figure(worst('greedy'))}`,
      met: worst('greedy') >= 1 - 1e-9,
    },
    { goal: 'planning time of ours, largest cell', target: '≤ 1 s', ours: `${figure(planning)} s`, met: planning <= 1 },
  ]
  const add = (
    goal: string,
    target: string,
    kind: ApplicationKind,
    name: Name,
    base: Name,
    low: number,
    high: number,
  ) => {
    const means = all.filter(({ cell }) => cell.kind === kind).flatMap((runs) => ratio(runs, name, base)?.mean ?? [])
    if (means.length === 0) return
    const [least, most] = [Math.min(...means), Math.max(...means)]
    const met = rounded(least) >= low && rounded(most) <= high
    goals.push({ goal, target, ours: `${figure(least)} to ${figure(most)}`, met })
  }
  const above = Number.POSITIVE_INFINITY
  add('mixed: one application after the other costs', '1.0 to 1.2', 'mixed', 'sequential', 'ours', 1, above)
  add('no preemption costs the greedy', '1.0 to 1.2', 'ablation', 'greedy-no-preemption', 'greedy', 1, above)
  add('no preemption costs the Min-heuristic', '1.3 to 1.4', 'ablation', 'min-no-preemption', 'min', 1.3, above)
  add('known lengths take of ours', '0.9 to 1.0', 'ablation', 'ours, lengths known', 'ours', 0.9, 1.04)
  return goals
}

/** Less is none, and nothing to divide by. */
const IDLE_GPU_S_MIN = 1

/** Idle GPU time in chain summaries as multiples of ours: what the paper prints. */
const PAPER_IDLE = { max: { low: 0.9, high: 1.6, mean: 1.2 }, min: { low: 1.1, high: 1.9, mean: 1.5 } } as const

const WHY_IDLE = {
  max: 'It gives the summary all GPUs, one after another, so hardly any of them waits. Ours lets evaluators run beside the summary, and they wait for it.',
  min: 'With 100 and 200 documents evaluators wait for the summary in ours. From 300 documents on ours gives all GPUs to the summary, as Max does, and hardly idles.',
} as const

function idleRatio(runs: CellRuns, name: 'max' | 'min'): Interval | null {
  return over(runs, (by) => {
    const [a, b] = [by(name)?.idle_gpu_s, by('ours')?.idle_gpu_s]
    return a === undefined || b === undefined || b < IDLE_GPU_S_MIN ? undefined : Math.max(0, Math.round(a)) / b
  })
}

function chainSummaries(all: readonly CellRuns[]): CellRuns[] {
  return all.filter(({ cell }) => cell.kind === 'chain summary')
}

export function idleGoals(all: readonly CellRuns[]): Goal[] {
  return (['max', 'min'] as const).flatMap((name) => {
    const means = chainSummaries(all).flatMap((runs) => idleRatio(runs, name)?.mean ?? [])
    if (means.length === 0) return []
    const { low, high, mean } = PAPER_IDLE[name]
    const ours = means.reduce((sum, one) => sum + one, 0) / means.length
    const least = Math.min(...means)
    return {
      goal: `chain summary: idle GPU time of the ${name === 'max' ? 'Max' : 'Min'}-heuristic ÷ ours`,
      target: `${low} to ${high}, mean ${mean}`,
      ours: `${figure(least)} to ${figure(Math.max(...means))}, mean ${figure(ours)}`,
      met: rounded(least) >= low && rounded(ours) >= mean,
    }
  })
}

function missedIdleRows(all: readonly CellRuns[]): string[][] {
  return (['max', 'min'] as const).flatMap((name) => {
    const { low, high } = PAPER_IDLE[name]
    const cells = chainSummaries(all).flatMap((runs) => {
      const mean = idleRatio(runs, name)?.mean
      return mean === undefined ? [] : [{ name: runs.cell.name, mean }]
    })
    const below = cells.filter(({ mean }) => rounded(mean) < low)
    if (below.length === 0) return []
    const listed = below.map((one) => `${one.name}: ${figure(one.mean)}`).join('; ')
    const largest = figure(Math.max(...cells.map(({ mean }) => mean)))
    const heuristic = name === 'max' ? 'Max' : 'Min'
    return [['chain summary, idle GPU time', heuristic, `${low} to ${high}`, listed, largest, WHY_IDLE[name]]]
  })
}

export function idleTable(all: readonly CellRuns[]): Table {
  return {
    title:
      'chain summary: GPU time in which nothing is computed or loaded, in GPU seconds, and as a multiple of ours (the paper: Max 0.9 to 1.6, Min 1.1 to 1.9)',
    columns: ['cell', 'ours', 'greedy', 'Max', 'Min', 'Max ÷ ours', 'Min ÷ ours'],
    rows: chainSummaries(all).map((runs) => [
      runs.cell.name,
      ...(['ours', 'greedy', 'max', 'min'] as const).map((name) =>
        shown(over(runs, (by) => optional(by(name), ({ idle_gpu_s }) => Math.max(0, Math.round(idle_gpu_s))))),
      ),
      ...(['max', 'min'] as const).map((name) => shown(idleRatio(runs, name))),
    ]),
  }
}

export function variantTable(all: readonly CellRuns[]): Table {
  const names = [
    'greedy',
    'greedy-no-preemption',
    'greedy, lengths known',
    'ours, lengths known',
    'max',
    'min',
    'min-no-preemption',
    'sequential',
  ] as const
  return {
    title: 'mixed and ablation: end to end, as multiples of ours',
    columns: ['cell', 'ours s', ...names],
    rows: all
      .filter(({ cell }) => cell.kind === 'mixed' || cell.kind === 'ablation')
      .map((runs) => [
        runs.cell.name,
        shown(over(runs, (by) => optional(by('ours'), endToEnd))),
        ...names.map((name) => shown(ratio(runs, name))),
      ]),
  }
}
