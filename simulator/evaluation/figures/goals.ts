/**
 * The goals on Mixed: how many times the rate of each baseline ours serves within the headline SLO. Beside the paper's setting (128 seats,
 * a burst of 500 programs) stand vLLM's default of 256 seats and loads that last: arrivals for 240 s and for half an hour.
 */
import type { Figure, Goal, Scope, Table } from '../figure.ts'
import { ifPlayed, MissingRun, type Runs } from '../runs/run-chains.ts'
import { isBelow } from '../statistics/interval.ts'
import { throughputAt } from '../statistics/read-off.ts'
import { figure } from '../statistics/words.ts'
import { SYSTEMS, type SystemName } from '../systems.ts'
import { mainSweep } from './figure-12.ts'
import { HEADLINE_SLO_MS, ratesOf } from './scale.ts'
import { type Sweep, sweepChain, sweepCurves } from './sweep.ts'
import { type RatioAt, ratiosAt, ratioText } from './throughput.ts'

const OURS = 'plas' satisfies SystemName

/** Times the rate of the other system. */
const TARGETS = [
  { other: 'vllm', target: 15 },
  { other: 'vllm-opt', target: 4 },
  { other: 'mlfq', target: 4 },
] as const satisfies readonly { other: SystemName; target: number }[]

const SYSTEM_NAMES: readonly SystemName[] = [...TARGETS.map(({ other }) => other), OURS]

interface Setting {
  seats: number
  /** Null: the programs of figure 12, so that a higher rate is a shorter load. */
  arrivals_s: number | null
  /** Of the evaluation's seeds, the first so many: long loads take long to play. */
  seeds_max: number
}

const HALF_HOUR_S = 1800
const SETTINGS: readonly Setting[] = [
  { seats: 128, arrivals_s: null, seeds_max: 31 },
  { seats: 256, arrivals_s: null, seeds_max: 3 },
  { seats: 128, arrivals_s: 240, seeds_max: 3 },
  { seats: 256, arrivals_s: 240, seeds_max: 3 },
  { seats: 128, arrivals_s: HALF_HOUR_S, seeds_max: 2 },
  { seats: 256, arrivals_s: HALF_HOUR_S, seeds_max: 1 },
]
/** Fewer programs say little, so at low rates they arrive for longer. */
const PROGRAMS_MIN = 40

/** A quick evaluation leaves out the loads that last. */
const settings = ({ quick }: Scope) => SETTINGS.filter(({ arrivals_s }) => !quick || arrivals_s === null)

function nameOf({ seats, arrivals_s }: Setting): string {
  if (arrivals_s === null) return `${seats} seats, the programs of figure 12`
  return `${seats} seats, arrivals for ${arrivals_s === HALF_HOUR_S ? '30 min' : `${arrivals_s} s`}`
}

function sweep({ seats, arrivals_s }: Setting, system: SystemName, scope: Scope): Sweep {
  const main = mainSweep('mixed', system, scope)
  const change = seats === 128 ? {} : { max_seqs: seats }
  if (arrivals_s === null && seats === 128) return main
  const slos = { slos_ms: [HEADLINE_SLO_MS], exact_slos_ms: [HEADLINE_SLO_MS] }
  if (arrivals_s === null) return { ...main, ...slos, change }
  return {
    ...{ workload: 'mixed', system, rates: ratesOf('mixed', system, scope), change, ...slos },
    programs: (rate) => Math.max(PROGRAMS_MIN, Math.round(rate * arrivals_s)),
  }
}

function scopeOf({ seeds_max }: Setting, { seeds, quick }: Scope): Scope {
  return { seeds: seeds.slice(0, seeds_max), quick }
}

interface Read {
  setting: Setting
  name: string
  /** Mean over seeds of the rate within the SLO, by system. */
  rates: ReadonlyMap<SystemName, string>
  ratios: readonly { other: SystemName; target: number; ratio: RatioAt | null }[]
}

function readSetting(setting: Setting, runs: Runs, scope: Scope): Read {
  const own = scopeOf(setting, scope)
  const curves = new Map(SYSTEM_NAMES.map((system) => [system, sweepCurves(sweep(setting, system, scope), runs, own)]))
  const of = (system: SystemName) => curves.get(system) ?? []
  return {
    ...{ setting, name: nameOf(setting) },
    rates: new Map(SYSTEM_NAMES.map((system) => [system, rateText(of(system))])),
    ratios: TARGETS.map(({ other, target }) => ({
      ...{ other, target },
      ratio: ratiosAt(of(OURS), of(other), [HEADLINE_SLO_MS])[0] ?? null,
    })),
  }
}

function rateText(curves: readonly Parameters<typeof throughputAt>[0][]): string {
  const rates = curves.map((curve) => throughputAt(curve, HEADLINE_SLO_MS))
  const bound = rates.some(({ kind }) => kind === 'at_least')
    ? '≥ '
    : rates.some(({ kind }) => kind === 'below')
      ? '< '
      : ''
  return `${bound}${figure(rates.reduce((sum, { rate }) => sum + rate, 0) / rates.length)}/s`
}

/** Null: an unfinished evaluation has not come to it. */
function readIfPlayed(setting: Setting, runs: Runs, scope: Scope): Read | null {
  return ifPlayed(() => readSetting(setting, runs, scope))
}

export const GOALS: Figure = {
  id: 'goals',
  every_seed: true,
  title: 'The goals on Mixed',
  paper: null,
  setup:
    `Mixed on a100-8b: the highest rate at which the mean is within ${HEADLINE_SLO_MS} ms per token, of PLAS over each baseline, seed by seed. 128 seats are the paper's ` +
    "setting and 256 vLLM's default. The programs of figure 12 are 500 at every rate: above what the engine serves they are a burst, and the ratio says how " +
    'the burst is ordered. With arrivals that last, every order is held to what the engine can serve for that long.',
  chains: (scope) =>
    settings(scope).flatMap((setting) =>
      SYSTEM_NAMES.map((system) => sweepChain(sweep(setting, system, scope), scopeOf(setting, scope))),
    ),
  read: (runs, scope) => {
    const read = settings(scope).flatMap((setting) => readIfPlayed(setting, runs, scope) ?? [])
    const [headline] = read
    if (headline === undefined) throw new MissingRun('no setting of the goals')
    return {
      panels: [],
      shows: read.map(
        ({ name, rates }) =>
          `${name}: ${SYSTEM_NAMES.map((system) => `${SYSTEMS[system].label} ${rates.get(system)}`).join(', ')}.`,
      ),
      losses: goalsOf(headline)
        .filter(({ met }) => met !== true)
        .map(({ goal, target, ours }) => `${goal}: ${ours}, the goal is ${target}.`),
      tables: [table(read)],
      goals: goalsOf(headline),
    }
  },
}

function goalsOf({ name, ratios }: Read): Goal[] {
  return ratios.map(({ other, target, ratio }) => ({
    goal: `Mixed: rate within ${HEADLINE_SLO_MS} ms per token over ${SYSTEMS[other].label} (${name})`,
    target: `≥ ${target}×`,
    ours: ratio === null ? '–' : ratioText(ratio),
    met: ratio === null ? null : !isBelow(ratio.ratio, target) && ratio.ratio.mean >= target,
  }))
}

function table(read: readonly Read[]): Table {
  return {
    title: `Rate of PLAS ÷ rate of the other within ${HEADLINE_SLO_MS} ms per token`,
    columns: ['', ...TARGETS.map(({ other, target }) => `${SYSTEMS[other].label} (goal ${target}×)`), 'seeds'],
    rows: read.map(({ name, ratios }) => [
      name,
      ...ratios.map(({ ratio }) => (ratio === null ? '–' : ratioText(ratio))),
      `${ratios[0]?.ratio?.ratio.samples ?? '–'}`,
    ]),
  }
}
