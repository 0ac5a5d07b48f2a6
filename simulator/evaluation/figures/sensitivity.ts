/** What the ratios on Mixed depend on: KV memory, the swap store, few seats, what prefixes are cached, chunks. Goals have loads that last. */
import type { Figure, Scope, Table } from '../figure.ts'
import { ifPlayed, MissingRun, type Runs } from '../runs/run-chains.ts'
import type { RunChange } from '../runs/run-spec.ts'
import { figure } from '../statistics/words.ts'
import { SYSTEMS, type SystemName } from '../systems.ts'
import { programsOfSweep, ratesOf, SLOS_MS } from './scale.ts'
import { type Sweep, sweepChain, sweepCurves } from './sweep.ts'
import { largest, type RatioAt, ratiosAt, ratioText } from './throughput.ts'

const BASELINES = ['vllm', 'vllm-opt', 'mlfq'] as const satisfies readonly SystemName[]

interface Variant {
  name: string
  change: RunChange
  /** The lowest rates are played by every system, not by vLLM only. */
  slow?: true
  /** Default: mixed. */
  workload?: 'mixed' | 'mixed-whole'
}

const VARIANTS: readonly Variant[] = [
  { name: 'as figure 12', change: {} },
  { name: 'a quarter of the KV memory', change: { kv_share: 0.25 } },
  { name: 'four times the KV memory', change: { kv_share: 4 } },
  { name: 'a swap store without bound', change: { swap_store: 'unbounded' } },
  { name: 'BFCL by whole prompts, LATS with prompts up to 8k tokens', change: {}, workload: 'mixed-whole' },
  { name: '32 seats', change: { max_seqs: 32 }, slow: true },
  { name: 'no shared system prompts', change: { app_prefix: false } },
  { name: 'no prefix cache in any system', change: { prefix_cache: false }, slow: true },
  { name: 'no chunked prefill in any system', change: { chunked_prefill: false } },
]

/** A quick evaluation plays the first two. */
const variants = ({ quick }: Scope) => (quick ? VARIANTS.slice(0, 2) : VARIANTS)

function sweep({ change, slow, workload = 'mixed' }: Variant, system: SystemName, scope: Scope): Sweep {
  const rates = ratesOf('mixed', slow ? 'vllm' : system, scope)
  return {
    ...{ workload, system, change },
    // Every second rate: the table has the largest ratio, and cliffs are bisected.
    rates: scope.quick ? rates : rates.filter((_, at) => at % 2 === 0),
    programs: () => programsOfSweep('mixed', scope),
  }
}

type Ratios = readonly { other: (typeof BASELINES)[number]; most: RatioAt | null }[]

function ratiosOf(variant: Variant, runs: Runs, scope: Scope): Ratios {
  const curves = (system: SystemName) => sweepCurves(sweep(variant, system, scope), runs, scope)
  const ours = curves('plas')
  return BASELINES.map((other) => ({ other, most: largest(ratiosAt(ours, curves(other), SLOS_MS)) }))
}

/** Null: a variant that an unfinished evaluation has not come to. */
function ratiosIfPlayed(variant: Variant, runs: Runs, scope: Scope): Ratios | null {
  return ifPlayed(() => ratiosOf(variant, runs, scope))
}

export const SENSITIVITY: Figure = {
  id: 'sensitivity',
  title: 'What the ratios on Mixed depend on',
  paper: null,
  first_seed: true,
  setup:
    'The Mixed panel of figure 12 with one thing changed at a time, one seed; largest ratio of PLAS over SLOs. An order adds no capacity: engines with ' +
    'the same cache serve about as many programs for ever under each. Over vLLM-opt and MLFQ, ours serves more at an SLO by meeting it for most programs while ' +
    'the engine is overloaded, so that the ratio grows with how long the overload lasts, until so many programs are open that their KV no longer fits and ' +
    'every order computes prompts again.',
  chains: (scope) =>
    variants(scope).flatMap((variant) =>
      [...BASELINES, 'plas' as const].map((system) => sweepChain(sweep(variant, system, scope), scope)),
    ),
  read: (runs, scope) => {
    const read = variants(scope).flatMap((variant) => {
      const ratios = ratiosIfPlayed(variant, runs, scope)
      return ratios === null ? [] : [{ variant, ratios }]
    })
    if (read.length === 0) throw new MissingRun('no variant of Mixed')
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
