/**
 * Everywhere that another order beats ours by more than 5 % in mean latency or makespan: on every workload, below and beyond what an engine
 * serves, with few and many seats, offline batches included. Beside its own runs it takes those of figures 12 and 16.
 */
import { mean } from '../../statistics.ts'
import type { WorkloadName } from '../../workloads/index.ts'
import type { Figure, Goal, Scope, Table } from '../figure.ts'
import type { Runs } from '../runs/run-chains.ts'
import type { RunOutcome } from '../runs/run-outcome.ts'
import { type RunSpec, runSpec } from '../runs/run-spec.ts'
import { type Interval, interval } from '../statistics/interval.ts'
import { figure, withInterval } from '../statistics/words.ts'
import { type SystemName, systemOf } from '../systems.ts'
import { mainSweeps } from './figure-12.ts'
import { batchSizes, batchSpec } from './figure-16.ts'
import { reasonOf } from './reason.ts'
import { OURS } from './scale.ts'
import { sweepSpec } from './sweep.ts'

const OTHERS = ['vllm', 'vllm-opt', 'mlfq', 'rr'] as const satisfies readonly SystemName[]
type Other = (typeof OTHERS)[number]

/** Ours ÷ the other's; above it is a miss. */
const TOLERANCE = 1.05

/** Programs per second around what one engine of a100-8b serves with a prefix cache. */
export const CAPACITY: Readonly<Partial<Record<WorkloadName, number>>> = {
  sharegpt: 1.6,
  bfcl: 0.8,
  lats: 0.8,
  mixed: 0.8,
  'bfcl-whole': 2,
  'lats-long': 0.8,
  'mixed-whole': 1,
  infercept: 4,
  toolbench: 6,
}
const WORKLOADS = Object.keys(CAPACITY) as WorkloadName[]
const LOADS = [0.75, 1.5] as const
const SEATS = [32, 256] as const
const PROGRAMS = 120
const QUICK_PROGRAMS = 24
const QUICK_WORKLOADS: readonly WorkloadName[] = ['mixed']

/** One comparison: the same programs under ours and under another order, by seed. */
interface Cell {
  name: string
  other: Other
  ours: readonly RunSpec[]
  others: readonly RunSpec[]
}

/** For the first seed: the cells are many. */
function ownCells({ seeds: [seed = 1], quick }: Scope): Cell[] {
  return (quick ? QUICK_WORKLOADS : WORKLOADS).flatMap((workload) =>
    SEATS.flatMap((max_seqs) =>
      [...LOADS, null].flatMap((load) => {
        const rate = load === null ? null : Number((load * (CAPACITY[workload] ?? 1)).toPrecision(3))
        const spec = (system: SystemName) =>
          runSpec({ workload, programs: quick ? QUICK_PROGRAMS : PROGRAMS, seed, rate, system, max_seqs })
        const name = `${workload}, ${rate === null ? 'all at the start' : `${figure(rate)}/s`}, ${max_seqs} seats`
        return OTHERS.map((other) => ({ name, other, ours: [spec(OURS)], others: [spec(other)] }))
      }),
    ),
  )
}

/** The rates of figure 12 that both systems have played, and the batches of figure 16. */
function sharedCells(scope: Scope): Cell[] {
  const rates = mainSweeps(scope).flatMap(({ workload, sweeps }) => {
    const mine = sweeps.find(({ system }) => system === OURS)
    if (mine === undefined) return []
    return OTHERS.flatMap((other) => {
      const theirs = sweeps.find(({ system }) => system === other)
      if (theirs === undefined) return []
      return theirs.rates
        .filter((rate) => mine.rates.includes(rate))
        .map((rate) => ({
          ...{ name: `${workload}, ${figure(rate)}/s, 128 seats`, other },
          ours: scope.seeds.map((seed) => sweepSpec(mine, rate, seed)),
          others: scope.seeds.map((seed) => sweepSpec(theirs, rate, seed)),
        }))
    })
  })
  const batches = batchSizes(scope).flatMap((programs) =>
    OTHERS.map((other) => ({
      ...{ name: `sharegpt, a batch of ${programs}, 128 seats`, other },
      ours: scope.seeds.map((seed) => batchSpec('plas', programs, seed)),
      others: scope.seeds.map((seed) => batchSpec(other, programs, seed)),
    })),
  )
  return [...rates, ...batches]
}

interface Compared {
  cell: Cell
  mean: Interval
  makespan: Interval
  reason: string
}

/** Over the seeds that both have played; null: there is none. */
function compared(cell: Cell, runs: Runs): Compared | null {
  const pairs = cell.ours.flatMap((spec, at) => {
    const [ours, other] = [runs.of(spec), runs.of(cell.others[at] as RunSpec)]
    return ours === undefined || other === undefined ? [] : [{ ours, other }]
  })
  const [worst] = pairs.toSorted((a, b) => excess(b) - excess(a))
  if (worst === undefined) return null
  const ratios = (of: (outcome: RunOutcome) => number) => interval(pairs.map(({ ours, other }) => of(ours) / of(other)))
  return {
    ...{ cell, mean: ratios(MEAN), makespan: ratios(MAKESPAN) },
    reason: reasonOf(worst.ours, worst.other, cell.other),
  }
}

const MEAN = ({ token_latency_ms }: RunOutcome) => token_latency_ms.mean
const MAKESPAN = ({ makespan_s }: RunOutcome) => makespan_s

function excess({ ours, other }: { ours: RunOutcome; other: RunOutcome }): number {
  return Math.max(MEAN(ours) / MEAN(other), MAKESPAN(ours) / MAKESPAN(other))
}

const isMiss = ({ mean: latency, makespan }: Compared) => latency.mean > TOLERANCE || makespan.mean > TOLERANCE

export const MISSES: Figure = {
  id: 'misses',
  title: 'Every miss of more than 5 %',
  every_seed: true,
  paper: null,
  setup:
    `The goal: never more than 5 % worse than vLLM, vLLM-opt, MLFQ or RR in mean program token latency or makespan. Played for it: ${WORKLOADS.join(', ')} on a100-8b with ` +
    `${SEATS.join(' and ')} seats, at ${LOADS.join(' and ')} times about what one engine serves and all at the start, ${PROGRAMS} programs. Added are the rates of figure 12 and the ` +
    'batches of figure 16, over the seeds that both systems have played. The reason compares the two runs of the seed with the largest difference.',
  chains: (scope) => [{ steps: [ownCells(scope).flatMap(({ ours, others }) => [...ours, ...others])] }],
  read: (runs, scope) => {
    const all = [...ownCells(scope), ...sharedCells(scope)].flatMap((cell) => compared(cell, runs) ?? [])
    const misses = all.filter(isMiss).toSorted((a, b) => largest(b) - largest(a))
    return {
      panels: [],
      shows: OTHERS.map((other) => against(other, all)),
      losses:
        misses.length === 0
          ? []
          : [`${misses.length} of ${all.length} comparisons miss it; the table has each with its reason.`],
      tables: misses.length === 0 ? [] : [table(misses)],
      goals: [goalOf(misses, all)],
    }
  },
}

function largest({ mean: latency, makespan }: Compared): number {
  return Math.max(latency.mean, makespan.mean)
}

function against(other: Other, all: readonly Compared[]): string {
  const own = all.filter(({ cell }) => cell.other === other)
  const misses = own.filter(isMiss).length
  const average = mean(own.map((one) => one.mean.mean))
  return `Against ${systemOf(other).label}: ${misses} of ${own.length} comparisons miss; the mean latency of ours is ${figure(average)}× on average.`
}

function table(misses: readonly Compared[]): Table {
  return {
    title: 'Ours ÷ the other, where either is above 1.05',
    columns: ['programs', 'other', 'mean latency', 'makespan', 'reason'],
    rows: misses.map(({ cell, mean: latency, makespan, reason }) => [
      ...[cell.name, systemOf(cell.other).label, `${withInterval(latency)}×`, `${withInterval(makespan)}×`, reason],
    ]),
  }
}

function goalOf(misses: readonly Compared[], all: readonly Compared[]): Goal {
  return {
    goal: 'Never more than 5 % worse in mean or makespan than vLLM, vLLM-opt, MLFQ, RR: any workload, rate, seats, batches included',
    target: 'no miss',
    ours: `${misses.length} misses in ${all.length} comparisons`,
    met: misses.length === 0,
  }
}
