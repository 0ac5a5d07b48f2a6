/**
 * `learned` beside the best order that knows nothing and the clairvoyant one: on every workload, from light load to twice what
 * an engine serves, with few and many seats, warm (400 programs of each workload have ended before) and cold (none has).
 */
import type { WorkloadName } from '../../workloads/index.ts'
import type { Figure, Goal, Panel, Scope, Table } from '../figure.ts'
import { SYSTEM_COLORS } from '../plots/colors.ts'
import { lineChart } from '../plots/line-chart.ts'
import { ifPlayed, MissingRun, type Runs } from '../runs/run-chains.ts'
import type { RunOutcome } from '../runs/run-outcome.ts'
import { type RunSpec, runSpec } from '../runs/run-spec.ts'
import { type Interval, interval } from '../statistics/interval.ts'
import { figure, percent, withInterval } from '../statistics/words.ts'
import { type SystemName, systemOf } from '../systems.ts'
import { readTrees, type TreeCell } from './learned-trees.ts'

/** Orders that know nothing. */
export const OTHERS = ['vllm-opt', 'fcfs-program', 'mlfq', 'plas', 'atlas'] as const satisfies readonly SystemName[]
const CLAIRVOYANT: SystemName = 'wsrpt'
const LEARNED: SystemName = 'learned'

/**
 * Programs per second that one engine of a100-8b serves with 128 seats: the middle of a burst under FCFS by program. And how
 * many are played, so that an overload lasts longer than a program does.
 */
export const PLAYED: Readonly<Partial<Record<WorkloadName, { capacity: number; programs: number }>>> = {
  sharegpt: { capacity: 1.4, programs: 400 },
  bfcl: { capacity: 0.83, programs: 300 },
  lats: { capacity: 0.25, programs: 120 },
  mixed: { capacity: 0.65, programs: 240 },
  'bfcl-whole': { capacity: 2.2, programs: 500 },
  'lats-long': { capacity: 0.24, programs: 120 },
  'mixed-whole': { capacity: 0.65, programs: 240 },
  infercept: { capacity: 7.3, programs: 1500 },
  'infercept-single': { capacity: 20, programs: 2000 },
  toolbench: { capacity: 6, programs: 1000 },
  'lamps-toolbench': { capacity: 7.7, programs: 1000 },
  'equal-chains': { capacity: 1.4, programs: 300 },
  'parallel-waves': { capacity: 1, programs: 240 },
  'long-contexts': { capacity: 0.22, programs: 120 },
  'questions-and-agents': { capacity: 8, programs: 1000 },
  'heavy-tails': { capacity: 4.7, programs: 600 },
}
const WORKLOADS = Object.keys(PLAYED) as WorkloadName[]
const LOADS = [0.6, 0.9, 1, 1.25, 1.5, 2] as const
/** Seats, and the loads played with them. */
const SEATS: readonly { seats: number; loads: readonly number[] }[] = [
  { seats: 128, loads: LOADS },
  { seats: 64, loads: [1, 1.5] },
  { seats: 256, loads: [1, 1.5] },
]
/** What cells can be chosen by. */
export const GRID = { seats: SEATS.map(({ seats }) => seats), loads: LOADS } as const
const QUICK_PROGRAMS = 40
const QUICK_WORKLOADS: readonly WorkloadName[] = ['bfcl']
/** Programs of each workload that have ended before a warm run. */
export const HISTORY = 400

/** Learned ÷ the best of the others, and of the clairvoyant order's gain where that is worth it. */
const WORSE_MAX = 1.05
export const GAP_MIN = 0.15
const GAP_LOAD_MIN = 1.25
export const CLOSED_MIN = { warm: 0.8, cold: 0.65 } as const
/** p99 ÷ that of FCFS: up to the load, and above it. */
const TAIL = { load: 0.95, up_to: 1.25, above: 1.5 } as const

type Start = 'warm' | 'cold'
const STARTS: readonly Start[] = ['warm', 'cold']

interface Cell {
  workload: WorkloadName
  seats: number
  load: number
}

function cells({ quick, part }: Scope): Cell[] {
  const workloads = quick ? QUICK_WORKLOADS : WORKLOADS
  const settings = quick ? SEATS.slice(0, 1) : SEATS
  const chosen = (some: readonly number[] = [], one: number) => some.length === 0 || some.includes(one)
  return workloads
    .flatMap((workload) => settings.flatMap(({ seats, loads }) => loads.map((load) => ({ workload, seats, load }))))
    .filter(({ seats, load }) => chosen(part?.seats, seats) && chosen(part?.loads, load))
}

function spec(
  { workload, seats, load }: Cell,
  system: SystemName,
  seed: number,
  quick: boolean,
  start?: Start,
): RunSpec {
  const { capacity, programs } = PLAYED[workload] ?? { capacity: 1, programs: QUICK_PROGRAMS }
  const rate = Number((load * capacity).toPrecision(3))
  return runSpec({
    ...{ workload, programs: quick ? QUICK_PROGRAMS : programs, seed, rate, system, max_seqs: seats },
    ...(start === 'warm' ? { history: HISTORY } : {}),
  })
}

function specs(cell: Cell, seed: number, quick: boolean): RunSpec[] {
  return [
    ...[...OTHERS, CLAIRVOYANT].map((system) => spec(cell, system, seed, quick)),
    ...STARTS.map((start) => spec(cell, LEARNED, seed, quick, start)),
  ]
}

type Metric = (outcome: RunOutcome) => number
const MEAN: Metric = ({ token_latency_ms }) => token_latency_ms.mean
const P99: Metric = ({ token_latency_ms }) => token_latency_ms.p99
const MAKESPAN: Metric = ({ makespan_s }) => makespan_s

interface Read {
  cell: Cell
  /** The others' order with the least mean, over the seeds. */
  best: SystemName
  /** ms per token. */
  best_ms: number
  /** ÷ the best of the others, seed by seed. */
  clairvoyant: Interval
  learned: Record<Start, { mean: Interval; makespan: Interval; p99: Interval; closed: number | null }>
  trees: TreeCell
}

function read(cell: Cell, runs: Runs, { seeds, quick }: Scope): Read {
  const values = (metric: Metric, system: SystemName, start?: Start) =>
    seeds.map((seed) => metric(runs.need(spec(cell, system, seed, quick, start))))
  const least = (metric: Metric) => {
    const of = OTHERS.map((system) => values(metric, system))
    return seeds.map((_, at) => Math.min(...of.map((some) => some[at] as number)))
  }
  const over = (some: readonly number[], others: readonly number[]) =>
    interval(some.map((one, at) => one / (others[at] as number)))
  const means = OTHERS.map((system) => ({ system, mean: interval(values(MEAN, system)).mean }))
  const best = means.reduce((a, b) => (b.mean < a.mean ? b : a))
  const [best_means, best_makespans] = [least(MEAN), least(MAKESPAN)]
  const clairvoyant = over(values(MEAN, CLAIRVOYANT), best_means)
  const gap = 1 - clairvoyant.mean
  const of = (start: Start) => {
    const mean = over(values(MEAN, LEARNED, start), best_means)
    return {
      mean,
      makespan: over(values(MAKESPAN, LEARNED, start), best_makespans),
      p99: over(values(P99, LEARNED, start), values(P99, 'vllm-opt')),
      closed: gap < GAP_MIN ? null : (1 - mean.mean) / gap,
    }
  }
  const learned = { warm: of('warm'), cold: of('cold') }
  const outcomes = (system: SystemName, start?: Start) =>
    seeds.map((seed) => runs.need(spec(cell, system, seed, quick, start)))
  const trees = {
    ...{ name: nameOf(cell), workload: cell.workload, clairvoyant: outcomes(CLAIRVOYANT) },
    ...{ warm: outcomes(LEARNED, 'warm'), cold: outcomes(LEARNED, 'cold') },
  }
  return { cell, best: best.system, best_ms: best.mean, clairvoyant, learned, trees }
}

export const LEARNED_FIGURE: Figure = {
  id: 'learned',
  title: 'Learned: near clairvoyant, and never worse',
  paper: null,
  setup:
    `${WORKLOADS.join(', ')} on a100-8b, 120 to 2,000 programs (quick: ${QUICK_PROGRAMS}) at ${LOADS.join(', ')} times about what an engine serves, with 128 seats, and at ` +
    `${SEATS[1]?.loads.join(' and ')} times with 64 and 256. “The best” is the least mean of ${OTHERS.map((name) => systemOf(name).label).join(', ')}, seed by seed. Warm: ` +
    `${HISTORY} programs of the workload ended before the run. Cold: none did. Tails are beside vLLM-opt, which is first come, first served.`,
  chains: (scope) =>
    cells(scope).map((cell) => ({ steps: [scope.seeds.flatMap((seed) => specs(cell, seed, scope.quick))] })),
  read: (runs, scope) => {
    const all = cells(scope).flatMap((cell) => ifPlayed(() => read(cell, runs, scope)) ?? [])
    if (all.length === 0) throw new MissingRun('no cell of learned')
    const trees = readTrees(all.map((one) => one.trees))
    const goals = [...goalsOf(all), ...(trees === null ? [] : [trees.goal])]
    return {
      panels: [
        ...Map.groupBy(
          all.filter(({ cell }) => cell.seats === 128),
          ({ cell }) => cell.workload,
        ),
      ].map(panel),
      shows: STARTS.map((start) => inWords(start, all)),
      losses: goals
        .filter(({ met }) => met === false)
        .map(({ goal, target, ours }) => `${goal}: ${ours}, the goal is ${target}.`),
      tables: [table(all), ...(trees === null ? [] : [trees.table])],
      goals,
    }
  },
}

function panel([workload, reads]: [WorkloadName, Read[]]): Panel {
  const line = (name: string, color: string, y: (one: Read) => Interval) => ({
    ...{ name, color },
    points: reads.map((one) => ({ x: one.cell.load, y: y(one) })),
  })
  return {
    name: workload,
    alt: `Mean program token latency over that of the best other order, by load, ${workload}.`,
    svg: lineChart({
      title: workload,
      ...{ x: 'load ÷ capacity', y: 'mean latency ÷ the best other', x_log: true },
      lines: [
        line('learned, warm', SYSTEM_COLORS.learned, ({ learned }) => learned.warm.mean),
        line('learned, cold', SYSTEM_COLORS.plas, ({ learned }) => learned.cold.mean),
        line('clairvoyant', SYSTEM_COLORS.wsrpt, ({ clairvoyant }) => clairvoyant),
      ],
      marks: [1],
    }),
  }
}

function inWords(start: Start, all: readonly Read[]): string {
  const ratios = all.map(({ learned }) => learned[start].mean.mean)
  const geometric = Math.exp(ratios.reduce((sum, ratio) => sum + Math.log(ratio), 0) / ratios.length)
  const worst = all.reduce((a, b) => (b.learned[start].mean.mean > a.learned[start].mean.mean ? b : a))
  return (
    `${start === 'warm' ? 'Warm' : 'Cold'}: ${figure(geometric)}× the best other on average (geometric), ${figure(worst.learned[start].mean.mean)}× at worst ` +
    `(${nameOf(worst.cell)}).`
  )
}

function nameOf({ workload, load, seats }: Cell): string {
  return `${workload}, load ${load}, ${seats} seats`
}

function goalsOf(all: readonly Read[]): Goal[] {
  const of = (goal: string, target: string, misses: readonly Read[], among: readonly Read[]): Goal => ({
    ...{ goal, target },
    ours:
      misses.length === 0
        ? `no miss in ${among.length} cells`
        : `${misses.length} of ${among.length} cells miss: ${misses
            .slice(0, 4)
            .map(({ cell }) => nameOf(cell))
            .join('; ')}${misses.length > 4 ? ' …' : ''}`,
    met: among.length === 0 ? null : misses.length === 0,
  })
  return STARTS.flatMap((start) => {
    const overloads = all.filter(({ cell, learned }) => cell.load >= GAP_LOAD_MIN && learned[start].closed !== null)
    return [
      of(
        `Learned, ${start}: mean ÷ the best other`,
        `≤ ${WORSE_MAX} everywhere`,
        all.filter(({ learned }) => learned[start].mean.mean > WORSE_MAX),
        all,
      ),
      of(
        `Learned, ${start}: makespan ÷ the best other`,
        `≤ ${WORSE_MAX} everywhere`,
        all.filter(({ learned }) => learned[start].makespan.mean > WORSE_MAX),
        all,
      ),
      of(
        `Learned, ${start}: share closed of the gap to clairvoyant, at loads of ${GAP_LOAD_MIN} and more where it is ${percent(GAP_MIN)}`,
        `≥ ${percent(CLOSED_MIN[start])}`,
        overloads.filter(({ learned }) => (learned[start].closed ?? 1) < CLOSED_MIN[start]),
        overloads,
      ),
      of(
        `Learned, ${start}: p99 ÷ that of vLLM-opt`,
        `≤ ${TAIL.up_to} up to a load of ${TAIL.load}, ≤ ${TAIL.above} above`,
        all.filter(({ cell, learned }) => learned[start].p99.mean > (cell.load <= TAIL.load ? TAIL.up_to : TAIL.above)),
        all,
      ),
    ]
  })
}

function table(all: readonly Read[]): Table {
  const closed = (share: number | null) => (share === null ? '' : percent(share))
  return {
    title:
      'Mean program token latency ÷ that of the best other order; the share of the gap to clairvoyant that is closed',
    columns: [
      ...['programs', 'best other', 'ms per token', 'clairvoyant', 'warm', 'closed', 'cold', 'closed'],
      ...['makespan, warm', 'p99 ÷ FCFS, warm', 'p99 ÷ FCFS, cold'],
    ],
    rows: all.map(({ cell, best, best_ms, clairvoyant, learned: { warm, cold } }) => [
      ...[nameOf(cell), systemOf(best).label, figure(best_ms), withInterval(clairvoyant)],
      ...[withInterval(warm.mean), closed(warm.closed), withInterval(cold.mean), closed(cold.closed)],
      ...[withInterval(warm.makespan), withInterval(warm.p99), withInterval(cold.p99)],
    ]),
  }
}
