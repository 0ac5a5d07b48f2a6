/**
 * What LAMPS' evaluation (§6.1) is played with here: data sets, models, systems, and loads.
 *
 * The emulated engines saturate at other rates than the paper's machine, so rates are chosen by load: 1 is the rate from which on
 * InferCept's queue grows. The paper does not say at which load its rates lie. They are placed by what it
 * reports: at a rate of 3 single-tool requests per second InferCept and LAMPS hardly differ, so that is just below saturation,
 * and the others are scaled from there. Multi-tool and ToolBench at 3 are far beyond it.
 */
import type { Scope } from '../figure.ts'
import type { Chain, Runs } from '../runs/run-chains.ts'
import type { RunOutcome } from '../runs/run-outcome.ts'
import { type RunChange, type RunSpec, runSpec } from '../runs/run-spec.ts'
import { type Interval, interval } from '../statistics/interval.ts'
import type { SystemName } from '../systems.ts'

export const DATASETS = {
  single: { label: 'single tool', workload: 'infercept-one-tool' },
  multi: { label: 'several tools', workload: 'infercept-released' },
  toolbench: { label: 'ToolBench', workload: 'lamps-toolbench' },
} as const
export type Dataset = keyof typeof DATASETS
export const DATASET_NAMES = Object.keys(DATASETS) as Dataset[]

export const MODELS = {
  'gpt-j': { label: 'GPT-J 6B', profile: 'gpt-j-6b-40gb' },
  vicuna: { label: 'Vicuna 13B', profile: 'vicuna-13b-40gb' },
} as const
export type Model = keyof typeof MODELS
export const MODEL_NAMES = Object.keys(MODELS) as Model[]

/** Programs per second up to which InferCept's mean TTFT stays within about a second while programs arrive for ten minutes. */
export const CAPACITY: Readonly<Record<Model, Readonly<Record<Dataset, number>>>> = {
  'gpt-j': { single: 8.2, multi: 3.7, toolbench: 4.7 },
  vicuna: { single: 3.1, multi: 1.25, toolbench: 1.5 },
}

/** Of the capacity. */
export const LOADS = [0.6, 0.85, 1, 1.2, 1.4] as const
const QUICK_LOADS = [0.85, 1.4] as const

const ORACLE = { forecast: { kind: 'oracle', error: 0 } } as const
const LEARNED = { forecast: { kind: 'learned' } } as const
/** Programs that ended before: of another seed. */
export const HISTORY = 500

export interface Row {
  label: string
  system: SystemName
  change: RunChange
  /** The system's colour, or its own. */
  dashed?: true
}

/** Each policy with the truth, and with what it has learned. InferCept decides at the tool, whose name it knows then: it gets the truth. */
export const ROWS = {
  vllm: { label: 'vLLM', system: 'vllm-discard', change: ORACLE },
  preserve: { label: 'vLLM, preserve', system: 'vllm-preserve', change: ORACLE },
  infercept: { label: 'InferCept', system: 'infercept', change: ORACLE },
  lamps: { label: 'LAMPS, oracle', system: 'lamps', change: ORACLE },
  'lamps-learned': { label: 'LAMPS, learned', system: 'lamps', change: { ...LEARNED, history: HISTORY }, dashed: true },
  ours: { label: 'ours, oracle', system: 'learned-memory', change: { ...ORACLE, history: HISTORY } },
  'ours-learned': {
    ...{ label: 'ours, learned', system: 'learned-memory', change: { ...LEARNED, history: HISTORY } },
    dashed: true,
  },
} as const satisfies Record<string, Row>
export const SYSTEM_ROWS = ['vllm', 'infercept', 'lamps', 'lamps-learned', 'ours', 'ours-learned'] as const

const ARRIVALS_S = 600
const QUICK_ARRIVALS_S = 240

/** Programs arrive for so long. */
export function arrivalsS({ quick }: Pick<Scope, 'quick'>): number {
  return quick ? QUICK_ARRIVALS_S : ARRIVALS_S
}

/** vLLM's default. */
const SEATS = 256

export interface Point {
  model: Model
  dataset: Dataset
  load: number
}

export function loadsOf({ quick }: Pick<Scope, 'quick'>): readonly number[] {
  return quick ? QUICK_LOADS : LOADS
}

export function rateAt({ model, dataset, load }: Point): number {
  return Number((CAPACITY[model][dataset] * load).toPrecision(3))
}

export function lampsSpec(
  point: Point,
  row: Pick<Row, 'system' | 'change'>,
  seed: number,
  scope: Pick<Scope, 'quick'>,
  change: RunChange = {},
): RunSpec {
  const rate = rateAt(point)
  return runSpec({
    ...{ workload: DATASETS[point.dataset].workload, seed, rate, system: row.system },
    programs: Math.round(rate * arrivalsS(scope)),
    ...{ profile: MODELS[point.model].profile, max_seqs: SEATS, ...row.change, ...change },
  })
}

export function chainOf(points: readonly Point[], row: Row, scope: Scope, change: RunChange = {}): Chain {
  return { steps: points.map((point) => scope.seeds.map((seed) => lampsSpec(point, row, seed, scope, change))) }
}

/** Of each seed. Throws MissingRun. */
export function outcomesOf(runs: Runs, point: Point, row: Row, scope: Scope, change: RunChange = {}): RunOutcome[] {
  return scope.seeds.map((seed) => runs.need(lampsSpec(point, row, seed, scope, change)))
}

export interface Metric {
  name: string
  label: string
  unit: string
  of: (outcome: RunOutcome) => number
}

export const METRICS = {
  latency: { name: 'latency', label: 'mean latency', unit: 's', of: ({ response_s }) => response_s.mean },
  latency_p99: { name: 'latency-p99', label: 'P99 of latency', unit: 's', of: ({ response_s }) => response_s.p99 },
  ttft: { name: 'ttft', label: 'mean TTFT', unit: 's', of: ({ ttft_s }) => ttft_s.mean },
  ttft_p99: { name: 'ttft-p99', label: 'P99 of TTFT', unit: 's', of: ({ ttft_s }) => ttft_s.p99 },
  throughput: {
    ...{ name: 'throughput', label: 'throughput', unit: 'programs/s' },
    of: ({ completed_per_s }) => completed_per_s,
  },
} as const satisfies Record<string, Metric>

export function metricOf(
  runs: Runs,
  point: Point,
  row: Row,
  metric: Metric,
  scope: Scope,
  change: RunChange = {},
): Interval {
  return interval(outcomesOf(runs, point, row, scope, change).map(metric.of))
}

/** By how much `row` differs from `base`, in percent, seed by seed. */
export function changePercent(
  runs: Runs,
  point: Point,
  [row, base]: readonly [Row, Row],
  metric: Metric,
  scope: Scope,
): Interval {
  const own = outcomesOf(runs, point, row, scope)
  const other = outcomesOf(runs, point, base, scope)
  return interval(own.map((outcome, at) => 100 * (metric.of(outcome) / metric.of(other[at] as RunOutcome) - 1)))
}
