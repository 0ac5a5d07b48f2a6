/** What the ratios on Mixed depend on: KV memory, seats, shared system prompts, the length of the load, the kernel of MLFQ. */
import type { Figure, Scope, Table } from '../figure.ts'
import type { Runs } from '../runs/run-chains.ts'
import type { RunChange } from '../runs/run-spec.ts'
import { figure } from '../statistics/words.ts'
import { SYSTEMS, type SystemName } from '../systems.ts'
import { arrivalsS, ratesOf, SLOS_MS } from './scale.ts'
import { type Sweep, sweepChain, sweepCurves } from './sweep.ts'
import { largest, type RatioAt, ratiosAt, ratioText } from './throughput.ts'

const BASELINES = ['vllm', 'vllm-opt', 'mlfq'] as const satisfies readonly SystemName[]
/** Shorter than figure 12's load, for all but the variant that says what length does. */
const LENGTH_SHARE = 0.5
const LONG_SHARE = 2.5

interface Variant {
  name: string
  change: RunChange
  /** Of figure 12's time of arrivals. */
  length: number
}

const VARIANTS: readonly Variant[] = [
  { name: 'as figure 12, half as long', change: {}, length: LENGTH_SHARE },
  { name: 'a quarter of the KV memory', change: { kv_share: 0.25 }, length: LENGTH_SHARE },
  { name: '32 seats', change: { max_seqs: 32 }, length: LENGTH_SHARE },
  { name: 'five times as long', change: {}, length: LONG_SHARE },
  { name: 'no shared system prompts', change: { app_prefix: false }, length: LENGTH_SHARE },
  { name: 'swaps at 5 times the cost', change: { swap_cost_factor: 5 }, length: LENGTH_SHARE },
]

/** A quick evaluation plays the first two. */
const variants = ({ quick }: Scope) => (quick ? VARIANTS.slice(0, 2) : VARIANTS)

function sweep({ change, length }: Variant, system: SystemName, scope: Scope): Sweep {
  const arrivals_s = arrivalsS('mixed', scope) * length
  return {
    ...{ workload: 'mixed', system, change, rates: ratesOf('mixed', system, scope) },
    programs: (rate) => Math.max(scope.quick ? 12 : 40, Math.round(rate * arrivals_s)),
  }
}

type Ratios = readonly { other: (typeof BASELINES)[number]; most: RatioAt | null }[]

function ratiosOf(variant: Variant, runs: Runs, scope: Scope): Ratios {
  const curves = (system: SystemName) => sweepCurves(sweep(variant, system, scope), runs, scope)
  const ours = curves('plas')
  return BASELINES.map((other) => ({ other, most: largest(ratiosAt(ours, curves(other), SLOS_MS)) }))
}

export const SENSITIVITY: Figure = {
  id: 'sensitivity',
  title: 'What the ratios on Mixed depend on',
  paper: null,
  setup: `The Mixed panel of figure 12 with one thing changed at a time, programs arriving for half as long where nothing else is said. Largest ratio of PLAS over SLOs.`,
  chains: (scope) =>
    variants(scope).flatMap((variant) =>
      [...BASELINES, 'plas' as const].map((system) => sweepChain(sweep(variant, system, scope), scope)),
    ),
  read: (runs, scope) => {
    const read = variants(scope).map((variant) => ({ variant, ratios: ratiosOf(variant, runs, scope) }))
    return {
      panels: [],
      shows: BASELINES.flatMap((other) => extremes(other, read)),
      losses: read.flatMap(({ variant, ratios }) =>
        ratios
          .filter(({ most }) => most !== null && most.bound === 'exact' && most.ratio.mean < 1)
          .map(
            ({ other, most }) =>
              `${variant.name}: at no SLO more than ${SYSTEMS[other].label} (${figure(most?.ratio.mean ?? 0)}×).`,
          ),
      ),
      tables: [table(read)],
    }
  },
}

type Read = readonly { variant: Variant; ratios: Ratios }[]

function extremes(other: (typeof BASELINES)[number], read: Read): string[] {
  const known = read.flatMap(({ variant, ratios }) => {
    const most = ratios.find((one) => one.other === other)?.most ?? null
    return most === null ? [] : [{ variant, ratio: most.ratio.mean }]
  })
  const sorted = known.toSorted((a, b) => b.ratio - a.ratio)
  const [high, low] = [sorted[0], sorted.at(-1)]
  if (high === undefined || low === undefined || high === low) return []
  return [
    `Over ${SYSTEMS[other].label}: from ${figure(low.ratio)}× (${low.variant.name}) to ${figure(high.ratio)}× (${high.variant.name}).`,
  ]
}

function table(read: Read): Table {
  return {
    title: 'Largest ratio of PLAS over SLOs',
    columns: ['', ...BASELINES.map((other) => SYSTEMS[other].label)],
    rows: read.map(({ variant, ratios }) => [
      variant.name,
      ...ratios.map(({ most }) => (most === null ? '–' : `${ratioText(most)} at ${most.slo_ms} ms`)),
    ]),
  }
}
