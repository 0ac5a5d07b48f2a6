/**
 * Clients that say what is not so. Half of the work are short programs of honest clients, the other half long programs that
 * lie: within one tenant, and as another tenant's.
 */
import type { Goal, Scope, Table } from '../../figure.ts'
import { ifPlayed, type Runs } from '../../runs/run-chains.ts'
import type { ClientRule, RunChange, RunSpec } from '../../runs/run-spec.ts'
import { type Interval, interval, isAbove, isBelow } from '../../statistics/interval.ts'
import { withInterval } from '../../statistics/words.ts'
import { HISTORY } from '../learned.ts'
import { LONG, type Metric, metricOf, SHORT, SHORT_AND_LONG, specOf } from './load.ts'

interface Lie {
  name: string
  client: ClientRule['client']
  in_run?: true
}

const LIES: readonly Lie[] = [
  { name: `labelled ${SHORT} from the start of the run`, client: { label: SHORT }, in_run: true },
  { name: `labelled ${SHORT} since long before`, client: { label: SHORT } },
  { name: 'a label of its own for each program', client: { fresh: true } },
  { name: 'ends never told', client: { tells_end: false } },
]

/** Beyond it a mean has changed. */
const NOISE = 1.02
const HONEST = 'honest'
const OTHER = 'other'
const TENANTS = [HONEST, OTHER].map((name) => ({ name, weight: 1, share: 1 }))

const WARM: RunChange = { history: HISTORY }

function alone(lie: Lie | null): RunChange {
  return lie === null ? WARM : { ...WARM, clients: [rule(lie, {})] }
}

/** Every other program of each kind is the honest tenant's. */
function beside(lie: Lie | null): RunChange {
  const own = ([SHORT, LONG] as const).map(
    (workload): ClientRule => ({ workload, share: { of: 2, take: 1 }, client: { tenant: HONEST } }),
  )
  const others: ClientRule[] = lie === null ? [] : [rule(lie, { tenant: OTHER })]
  return { ...WARM, tenants: TENANTS, clients: [...own, ...others, { client: { tenant: OTHER } }] }
}

function rule({ client, in_run }: Lie, of: { tenant?: string }): ClientRule {
  return { workload: LONG, client: { ...client, ...of }, ...(in_run === undefined ? {} : { in_run }) }
}

const ALL = [null, ...LIES]

export function adversarySpecs(scope: Scope): RunSpec[] {
  return scope.seeds.flatMap((seed) => [
    specOf(SHORT_AND_LONG, 'plas', seed, scope),
    ...ALL.flatMap((lie) => [alone(lie), beside(lie)]).map((change) =>
      specOf(SHORT_AND_LONG, 'learned', seed, scope, change),
    ),
  ])
}

const meanOf =
  (workload: string): Metric =>
  ({ by_workload }) =>
    by_workload[workload]?.token_latency_ms.mean ?? Number.NaN
const meanOfTenant =
  (tenant: string): Metric =>
  ({ by_tenant }) =>
    by_tenant[tenant]?.token_latency_ms.mean ?? Number.NaN

interface Read {
  lie: Lie
  honest: Record<'to_truth' | 'to_plas', Interval>
  liar: Record<'to_truth' | 'to_plas', Interval>
  /** The honest tenant, ÷ its mean beside a truthful one. */
  tenant: Interval
}

export function readAdversaries(runs: Runs, scope: Scope): { table: Table; shows: string[]; goals: Goal[] } {
  const learned = (change: RunChange) =>
    scope.seeds.map((seed) => specOf(SHORT_AND_LONG, 'learned', seed, scope, change))
  const plas = scope.seeds.map((seed) => specOf(SHORT_AND_LONG, 'plas', seed, scope))
  const ratio = (metric: Metric, specs: readonly RunSpec[], base: readonly RunSpec[]) => {
    const under = metricOf(runs, metric, base)
    return interval(metricOf(runs, metric, specs).map((value, at) => value / (under[at] as number)))
  }
  const of = (workload: string, lie: Lie) => ({
    to_truth: ratio(meanOf(workload), learned(alone(lie)), learned(alone(null))),
    to_plas: ratio(meanOf(workload), learned(alone(lie)), plas),
  })
  const read = (lie: Lie): Read => ({
    ...{ lie, honest: of(SHORT, lie), liar: of(LONG, lie) },
    tenant: ratio(meanOfTenant(HONEST), learned(beside(lie)), learned(beside(null))),
  })
  const all = LIES.flatMap((lie) => ifPlayed(() => read(lie)) ?? [])
  return { table: table(all), shows: all.map(inWords), goals: all.length === 0 ? [] : goalsOf(all) }
}

function table(all: readonly Read[]): Table {
  return {
    title: `${SHORT_AND_LONG.name}: mean program token latency when the ${LONG} programs lie`,
    columns: [
      ...['the lie', 'honest ÷ without the lie', 'honest ÷ PLAS', 'liar ÷ without the lie', 'liar ÷ PLAS'],
      ...['honest tenant beside a lying one ÷ beside an honest one'],
    ],
    rows: all.map(({ lie, honest, liar, tenant }) => {
      const values = [honest.to_truth, honest.to_plas, liar.to_truth, liar.to_plas, tenant]
      return [lie.name, ...values.map(withInterval)]
    }),
  }
}

function inWords({ lie, honest, liar, tenant }: Read): string {
  return (
    `Long programs, ${lie.name}: the liar has ${withInterval(liar.to_truth)}× its latency without the lie and ${withInterval(liar.to_plas)}× that under PLAS, ` +
    `honest programs of its tenant ${withInterval(honest.to_truth)}× and ${withInterval(honest.to_plas)}×, another tenant ${withInterval(tenant)}×.`
  )
}

function goalsOf(all: readonly Read[]): Goal[] {
  const of = (goal: string, target: string, read: (one: Read) => Interval, missed: (value: Interval) => boolean) => {
    const misses = all.filter((one) => missed(read(one)))
    return {
      ...{ goal, target, met: misses.length === 0 },
      ours:
        misses.length === 0
          ? `no miss in ${all.length} lies`
          : misses.map((one) => `${withInterval(read(one))}× (${one.lie.name})`).join('; '),
    }
  }
  return [
    of(
      'Learned: an honest tenant beside a lying one',
      'its mean does not rise beyond noise',
      ({ tenant }) => tenant,
      (value) => isAbove(value, NOISE),
    ),
    of(
      'Learned: honest programs beside a liar of their own tenant, ÷ PLAS',
      'not above 1 beyond noise',
      ({ honest }) => honest.to_plas,
      (value) => isAbove(value, NOISE),
    ),
    of(
      'Learned: what a liar has ÷ what it has under PLAS',
      'not below 1 beyond noise',
      ({ liar }) => liar.to_plas,
      (value) => isBelow(value, 1 / NOISE),
    ),
  ]
}
