/** What `learned` is worth by how much engines know of classes, on one engine and on several. One row for each. */
import type { Goal, Scope, Table } from '../../figure.ts'
import { ifPlayed, type Runs } from '../../runs/run-chains.ts'
import type { ClientRule, RunChange, RunSpec } from '../../runs/run-spec.ts'
import { type Interval, interval } from '../../statistics/interval.ts'
import { figure, percent, withInterval } from '../../statistics/words.ts'
import { type SystemName, systemOf } from '../../systems.ts'
import { CLOSED_MIN, GAP_MIN, HISTORY, OTHERS } from '../learned.ts'
import { type Load, loadOf, MEAN, type Metric, metricOf, onEngines, P99, SHORT_AND_LONG, specOf } from './load.ts'

const RECORD_MS = 40
const MINUTE_MS = 60_000
/** Of what is closed with all knowledge. */
const REALISTIC_SHARE = 0.6
const WORSE_MAX = 1.05
/** Of a goal's misses; the table has all. */
const MISSES_TOLD = 4

interface Setting {
  name: string
  /** What all orders are played with. */
  world?: RunChange
  /** What `learned` alone is played with besides. */
  knowledge: RunChange
}

const WARM: RunChange = { history: HISTORY }
const LATE: RunChange = { record_ms: RECORD_MS }

/** All of them; rows about labels need several classes. */
const EVERYWHERE: readonly Setting[] = [
  { name: 'as labelled, warm', knowledge: WARM },
  { name: 'as labelled, cold', knowledge: {} },
  { name: 'warm, told at once', knowledge: { ...WARM, told_ms: 0 } },
  { name: 'cold, told at once', knowledge: { told_ms: 0 } },
  { name: 'cold, told once a minute', knowledge: { told_ms: MINUTE_MS } },
  { name: `warm, records ${RECORD_MS} ms late`, world: LATE, knowledge: WARM },
]
const UNLABELLED: Setting = {
  name: 'no labels, all of one class, warm',
  knowledge: { ...WARM, clients: [{ client: { label: null } }] },
}
const MERGED: readonly Setting[] = (
  [
    ['sharegpt', 'bfcl'],
    ['bfcl', 'lats'],
    ['sharegpt', 'lats'],
  ] as const
).map((pair) => ({
  name: `${pair.join(' and ')} under one label, warm`,
  knowledge: {
    ...WARM,
    clients: pair.map((workload): ClientRule => ({ workload, client: { label: pair.join('-') } })),
  },
}))

/** A class of many kinds of programs, which its label does not tell apart. */
const ONE_LABEL: readonly Setting[] = [
  { name: 'all kinds under one label, warm', knowledge: { ...WARM, clients: [{ client: { label: 'all' } }] } },
  { name: 'all kinds under one label, cold', knowledge: { clients: [{ client: { label: 'all' } }] } },
]

interface Played {
  load: Load
  settings: readonly Setting[]
}

const BFCL = loadOf('bfcl', 2)

function several(load: Load): Setting[] {
  return [
    { name: '2 engines, warm', world: onEngines(load, 2), knowledge: WARM },
    { name: '4 engines, warm', world: onEngines(load, 4), knowledge: WARM },
    {
      name: `2 engines, warm, records ${RECORD_MS} ms late`,
      world: { ...onEngines(load, 2), ...LATE },
      knowledge: WARM,
    },
  ]
}

const PLAYED: readonly Played[] = [
  { load: loadOf('bfcl', 1.5), settings: EVERYWHERE },
  { load: BFCL, settings: [...EVERYWHERE, ...several(BFCL)] },
  { load: SHORT_AND_LONG, settings: [...EVERYWHERE, UNLABELLED, ...several(SHORT_AND_LONG)] },
  { load: loadOf('mixed', 2), settings: [...EVERYWHERE, UNLABELLED, ...MERGED] },
  { load: loadOf('lats', 1.5), settings: EVERYWHERE },
  { load: loadOf('infercept-single', 2), settings: [...EVERYWHERE, ...ONE_LABEL] },
]
/** Loads that a quick evaluation plays: chains. */
const QUICK_LOADS = 3

const CLAIRVOYANT: SystemName = 'wsrpt'

function playedOf({ quick }: Scope): readonly Played[] {
  return quick ? PLAYED.slice(0, QUICK_LOADS) : PLAYED
}

export function settingsSpecs(scope: Scope): RunSpec[] {
  const rows = playedOf(scope).flatMap(({ load, settings }) => settings.map((setting) => ({ load, setting })))
  return rows.flatMap(({ load, setting: { world, knowledge } }) =>
    scope.seeds.flatMap((seed) => [
      ...[...OTHERS, CLAIRVOYANT].map((system) => specOf(load, system, seed, scope, world)),
      specOf(load, 'learned', seed, scope, { ...world, ...knowledge }),
    ]),
  )
}

interface Row {
  load: string
  setting: Setting
  best: SystemName
  best_ms: number
  /** ÷ the best of the others, seed by seed. */
  clairvoyant: Interval
  mean: Interval
  /** Of the gap from the best to the clairvoyant order. Null: the gap is small. */
  closed: Interval | null
  p99: Interval
}

function read({ load, setting }: { load: Load; setting: Setting }, runs: Runs, scope: Scope): Row {
  const { seeds } = scope
  const of = (metric: Metric, system: SystemName, change?: RunChange) =>
    metricOf(
      runs,
      metric,
      seeds.map((seed) => specOf(load, system, seed, scope, change)),
    )
  const { world, knowledge } = setting
  const others = OTHERS.map((system) => ({ system, means: of(MEAN, system, world) }))
  const best_ms = seeds.map((_, at) => Math.min(...others.map(({ means }) => means[at] as number)))
  const ratio = (values: readonly number[], base: readonly number[]) =>
    values.map((value, at) => value / (base[at] as number))
  const clairvoyant = ratio(of(MEAN, CLAIRVOYANT, world), best_ms)
  const mean = ratio(of(MEAN, 'learned', { ...world, ...knowledge }), best_ms)
  const best = others.reduce((a, b) => (interval(b.means).mean < interval(a.means).mean ? b : a))
  const gap = 1 - interval(clairvoyant).mean
  return {
    ...{ load: load.name, setting, best: best.system, best_ms: interval(best.means).mean },
    ...{ clairvoyant: interval(clairvoyant), mean: interval(mean) },
    closed: gap < GAP_MIN ? null : interval(mean.map((one) => (1 - one) / gap)),
    p99: interval(ratio(of(P99, 'learned', { ...world, ...knowledge }), of(P99, 'vllm-opt', world))),
  }
}

export function readSettings(runs: Runs, scope: Scope): { table: Table; shows: string[]; goals: Goal[] } {
  const rows = playedOf(scope).flatMap(({ load, settings }) =>
    settings.flatMap((setting) => ifPlayed(() => read({ load, setting }, runs, scope)) ?? []),
  )
  return { table: table(rows), shows: inWords(rows), goals: goalsOf(rows) }
}

function table(rows: readonly Row[]): Table {
  return {
    title: 'By what engines know: mean program token latency ÷ that of the best other order',
    columns: [
      ...['load', 'engines know', 'best other', 'ms per token', 'clairvoyant', 'learned'],
      ...['closed of the gap', 'p99 ÷ vLLM-opt'],
    ],
    rows: rows.map(({ load, setting, best, best_ms, clairvoyant, mean, closed, p99 }) => [
      ...[load, setting.name, systemOf(best).label, figure(best_ms), withInterval(clairvoyant), withInterval(mean)],
      ...[closed === null ? '' : percentInterval(closed), withInterval(p99)],
    ]),
  }
}

function percentInterval({ mean, half_width, samples }: Interval): string {
  const points = { mean: mean * 100, half_width: half_width === null ? null : half_width * 100, samples }
  return `${withInterval(points)} %`
}

function inWords(rows: readonly Row[]): string[] {
  const by_setting = Map.groupBy(
    rows.filter(({ closed }) => closed !== null),
    ({ setting }) => setting.name,
  )
  return [...by_setting].map(
    ([name, own]) =>
      `Closed of the gap to clairvoyant (${name}): ${own.map(({ load, closed }) => `${percent(closed?.mean ?? 0)} (${load})`).join(', ')}.`,
  )
}

function leastClosed({ setting }: Row): number {
  return REALISTIC_SHARE * CLOSED_MIN[setting.knowledge.history === undefined ? 'cold' : 'warm']
}

function goalsOf(rows: readonly Row[]): Goal[] {
  const gaps = rows.filter(({ closed }) => closed !== null)
  const target = `≥ ${percent(REALISTIC_SHARE * CLOSED_MIN.warm)} warm, ≥ ${percent(REALISTIC_SHARE * CLOSED_MIN.cold)} cold`
  return [
    goal(`Learned with less knowledge: share closed of a gap of ${percent(GAP_MIN)} and more`, target, gaps, (row) =>
      (row.closed?.mean ?? 1) < leastClosed(row) ? percent(row.closed?.mean ?? 0) : null,
    ),
    goal('Learned with less knowledge: mean ÷ the best other', `≤ ${WORSE_MAX}`, rows, ({ mean }) =>
      mean.mean > WORSE_MAX ? `${figure(mean.mean)}×` : null,
    ),
  ]
}

/** `missOf`: by how much a row misses; null: it does not. */
function goal(name: string, target: string, rows: readonly Row[], missOf: (row: Row) => string | null): Goal {
  const misses = rows.flatMap((row) => {
    const miss = missOf(row)
    return miss === null ? [] : [`${row.load}, ${row.setting.name} (${miss})`]
  })
  return {
    ...{ goal: name, target },
    ours:
      misses.length === 0
        ? `no miss in ${rows.length} rows`
        : `${misses.length} of ${rows.length} rows miss: ${misses.slice(0, MISSES_TOLD).join('; ')}${misses.length > MISSES_TOLD ? ' …' : ''}`,
    met: rows.length === 0 ? null : misses.length === 0,
  }
}
