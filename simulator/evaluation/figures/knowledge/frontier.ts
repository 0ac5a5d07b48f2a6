/** Mean against p99: what ageing and β give up of the one for the other, beside the other orders. */
import {
  LEARNED as LEARNED_DEFAULTS,
  type LearnedConfig,
} from '../../../../gpu-agent/engine/order/policies/learned/learned.ts'
import type { Goal, Panel, Scope, Table } from '../../figure.ts'
import { SYSTEM_COLORS, seriesColor } from '../../plots/colors.ts'
import { lineChart } from '../../plots/line-chart.ts'
import { ifPlayed, type Runs } from '../../runs/run-chains.ts'
import type { RunSpec } from '../../runs/run-spec.ts'
import { type Interval, interval } from '../../statistics/interval.ts'
import { figure, withInterval } from '../../statistics/words.ts'
import { type SystemName, systemOf } from '../../systems.ts'
import { HISTORY, OTHERS } from '../learned.ts'
import { type Load, loadOf, MEAN, type Metric, metricOf, P99, specOf } from './load.ts'

const LOADS: readonly Load[] = [loadOf('bfcl', 2), loadOf('toolbench', 2)]
const OCTAVES = [1, 2, 3] as const
const SCALES = [1, 8, 64] as const
/** The last is practically never. */
const BETAS = [8, 80, 1e6] as const
const SYSTEMS = [...OTHERS, 'wsrpt'] as const satisfies readonly SystemName[]
/** p99 ÷ that of vLLM-opt, above its capacity. */
const TAIL_MAX = 1.5

interface Setting {
  /** Settings of one line share it. */
  line: string
  name: string
  change: Partial<LearnedConfig>
}

const DEFAULT: Setting = { line: 'β', name: 'as it is', change: {} }
const SETTINGS: readonly Setting[] = [
  DEFAULT,
  ...BETAS.map((beta) => ({ line: 'β', name: `β ${figure(beta)}`, change: { promotion_ratio: beta } })),
  ...OCTAVES.flatMap((age_octaves) =>
    SCALES.map((age_scale) => ({
      line: `age_octaves ${age_octaves}`,
      name: `age_octaves ${age_octaves}, age_scale ${age_scale}`,
      change: { age_octaves, age_scale },
    })),
  ),
]

function learnedSpec(load: Load, { change }: Setting, seed: number, scope: Scope): RunSpec {
  const tuned = Object.keys(change).length === 0 ? {} : { learned: change }
  return specOf(load, 'learned', seed, scope, { history: HISTORY, ...tuned })
}

export function frontierSpecs(scope: Scope): RunSpec[] {
  return LOADS.flatMap((load) =>
    scope.seeds.flatMap((seed) => [
      ...SYSTEMS.map((system) => specOf(load, system, seed, scope)),
      ...SETTINGS.map((setting) => learnedSpec(load, setting, seed, scope)),
    ]),
  )
}

interface Point {
  line: string
  name: string
  color: string
  mean: Interval
  p99: Interval
  /** ÷ that of vLLM-opt, seed by seed. */
  tail: Interval
}

function points(load: Load, runs: Runs, scope: Scope): { learned: Point[]; others: Point[] } {
  const { seeds } = scope
  const stock = seeds.map((seed) => specOf(load, 'vllm-opt', seed, scope))
  const point = (line: string, name: string, color: string, specs: readonly RunSpec[]): Point => {
    const of = (metric: Metric) => metricOf(runs, metric, specs)
    const stock_p99 = metricOf(runs, P99, stock)
    return {
      ...{ line, name, color, mean: interval(of(MEAN)), p99: interval(of(P99)) },
      tail: interval(of(P99).map((one, at) => one / (stock_p99[at] as number))),
    }
  }
  const lines = [...new Set(SETTINGS.map(({ line }) => line))]
  return {
    learned: SETTINGS.map((setting) =>
      point(
        setting.line,
        setting.name,
        seriesColor(lines.indexOf(setting.line)),
        seeds.map((seed) => learnedSpec(load, setting, seed, scope)),
      ),
    ),
    others: SYSTEMS.map((system) => {
      const { label } = systemOf(system)
      return point(
        label,
        label,
        SYSTEM_COLORS[system],
        seeds.map((seed) => specOf(load, system, seed, scope)),
      )
    }),
  }
}

export function readFrontier(
  runs: Runs,
  scope: Scope,
): { panels: Panel[]; tables: Table[]; shows: string[]; goals: Goal[] } {
  const all = LOADS.flatMap((load) => ifPlayed(() => ({ load, ...points(load, runs, scope) })) ?? [])
  return {
    panels: all.map(({ load, learned, others }) => panel(load, [...learned, ...others])),
    tables: all.map(({ load, learned, others }) => table(load, [...learned, ...others])),
    shows: all.map(({ load, learned }) => inWords(load, learned)),
    goals: all.map(({ load, learned }) => goal(load, learned)),
  }
}

function panel({ name }: Load, all: readonly Point[]): Panel {
  return {
    name: `frontier-${name.replaceAll(/[^a-z0-9]+/g, '-')}`,
    alt: `p99 of program token latency against its mean, for settings of learned and for other orders, ${name}.`,
    svg: lineChart({
      ...{ title: name, x: 'ms per token, mean', y: 'ms per token, p99', x_log: true, y_log: true },
      lines: [...Map.groupBy(all, ({ line }) => line)].map(([line, own]) => ({
        ...{ name: line === DEFAULT.line ? `learned, ${line}` : line, color: own[0]?.color ?? '' },
        points: own.map(({ mean, p99 }) => ({ x: mean.mean, y: p99 })).sort((a, b) => a.x - b.x),
      })),
    }),
  }
}

function table({ name }: Load, all: readonly Point[]): Table {
  return {
    title: `Mean against p99: ${name}`,
    columns: ['order', 'ms per token, mean', 'p99', 'p99 ÷ vLLM-opt'],
    rows: all.map((one) => [one.name, withInterval(one.mean), withInterval(one.p99), withInterval(one.tail)]),
  }
}

function inWords({ name }: Load, learned: readonly Point[]): string {
  const [first] = learned as [Point, ...Point[]]
  const least = (of: (point: Point) => number) => learned.reduce((a, b) => (of(b) < of(a) ? b : a))
  const mean = least((point) => point.mean.mean)
  const tail = least((point) => point.p99.mean)
  const told = ({ name: setting, mean: of_mean, p99 }: Point) =>
    `${withInterval(of_mean)} ms per token and a p99 of ${withInterval(p99)} (${setting})`
  return `${name}: by default (β = ${LEARNED_DEFAULTS.modelled.promotion_ratio}, no ageing) ${told(first)}; the least mean is ${told(mean)}, the least p99 ${told(tail)}.`
}

function goal({ name }: Load, learned: readonly Point[]): Goal {
  const { tail } = learned[0] as Point
  return {
    goal: `Learned: p99 ÷ that of vLLM-opt (${name})`,
    target: `≤ ${TAIL_MAX}`,
    ours: withInterval(tail),
    met: tail.mean <= TAIL_MAX,
  }
}
