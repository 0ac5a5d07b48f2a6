/** Figure 10: what each part of LAMPS gains; and what each part of the InferCept baseline does, so that it is not weak. */
import type { Figure } from '../figure.ts'
import { withInterval } from '../statistics/words.ts'
import { changePercent, METRICS, type Point, ROWS } from './setting.ts'
import { ALL_METRICS, type Variant, variantBars, variantChains, variantMetric, variantTable } from './variants.ts'

const LOADS = [0.85, 1.2, 1.4] as const
const QUICK_LOADS = [1.4] as const
const at = (load: number): Point => ({ model: 'vicuna', dataset: 'multi', load })
const loadsOf = (quick: boolean): readonly number[] => (quick ? QUICK_LOADS : LOADS)

const WITHOUT_ORDER: Variant = {
  ...{ label: 'LAMPS without its order', row: ROWS.lamps },
  change: { lamps: { order: 'first_come' } },
}
const INFERCEPT: Variant = { label: 'InferCept', row: ROWS.infercept }
const VARIANTS: readonly Variant[] = [
  { label: 'vLLM', row: ROWS.vllm },
  INFERCEPT,
  WITHOUT_ORDER,
  { label: 'LAMPS', row: ROWS.lamps },
  { ...WITHOUT_ORDER, label: 'LAMPS without its order, learned', row: ROWS['lamps-learned'] },
  { label: 'LAMPS, learned', row: ROWS['lamps-learned'] },
]

export const FIGURE_10: Figure = {
  id: '10',
  title: 'The parts of LAMPS',
  paper:
    'Handling decided before the call, first come first served, is close to InferCept and slightly worse. The order brings the main gains.',
  setup: `Several tools on Vicuna 13B, loads ${LOADS.join(', ')}. Forecasts are true but in the rows that say learned.`,
  chains: ({ quick, ...scope }) => variantChains(VARIANTS, loadsOf(quick).map(at), { quick, ...scope }),
  read: (runs, scope) => {
    const points = loadsOf(scope.quick).map(at)
    const percentOf = (point: Point) => {
      const mean = (variant: Variant) => variantMetric(runs, variant, point, METRICS.latency, scope).mean
      return 100 * (mean(WITHOUT_ORDER) / mean(INFERCEPT) - 1)
    }
    const slower = points.filter((point) => percentOf(point) > 0)
    return {
      panels: ALL_METRICS.map((metric) => variantBars(VARIANTS, points, metric, runs, scope)),
      shows: points.map(
        (point) =>
          `Load ${point.load}: without its order LAMPS’ mean latency differs from InferCept’s by ${percentOf(point).toFixed(1)} %, with it by ${withInterval(changePercent(runs, point, [ROWS.lamps, ROWS.infercept], METRICS.latency, scope))} %.`,
      ),
      losses: [],
      tables: points.map((point) => variantTable(`Load ${point.load}`, VARIANTS, point, runs, scope)),
      goals: [
        {
          goal: 'LAMPS without its order against InferCept: mean latency',
          target: 'slightly above InferCept’s, as in the paper',
          ours: `above it at ${slower.length} of ${points.length} loads: ${points.map((point) => `${percentOf(point).toFixed(1)} %`).join(', ')}`,
          met: slower.length === points.length,
        },
      ],
    }
  },
}

const PARTS: readonly Variant[] = [
  INFERCEPT,
  { label: 'without swap', row: ROWS.infercept, change: { handling: { allowed: ['preserve', 'discard'] } } },
  { label: 'without preserve', row: ROWS.infercept, change: { handling: { allowed: ['discard', 'swap'] } } },
  { label: 'without the swap budget', row: ROWS.infercept, change: { handling: { hidden_swaps: false } } },
  { label: 'without revision', row: ROWS.infercept, change: { handling: { revises: false } } },
  { label: 'without chunked prompts', row: ROWS.infercept, change: { chunked_prefill: false } },
  { label: 'pins that calls wait for', row: ROWS.infercept, change: { handling: { pins: 'firm' } } },
  { label: 'vLLM, preserve', row: ROWS.preserve },
  { label: 'vLLM, discard', row: ROWS.vllm },
]
const PARTS_POINTS: readonly Point[] = [
  { model: 'gpt-j', dataset: 'multi', load: 0.85 },
  { model: 'gpt-j', dataset: 'multi', load: 1.2 },
]

export const INFERCEPT_PARTS: Figure = {
  id: 'infercept',
  title: 'The parts of the InferCept baseline',
  paper: null,
  setup: `Several tools on GPT-J, loads ${PARTS_POINTS.map(({ load }) => load).join(' and ')}: each part of InferCept is taken away by itself. First come, first served throughout.`,
  chains: (scope) => variantChains(PARTS, PARTS_POINTS, scope),
  read: (runs, scope) => ({
    panels: [variantBars(PARTS, PARTS_POINTS, METRICS.latency, runs, scope)],
    shows: [],
    losses: PARTS_POINTS.flatMap((point) =>
      PARTS.slice(1).flatMap((variant) => {
        const [own, base] = [variant, INFERCEPT].map(
          (one) => variantMetric(runs, one, point, METRICS.latency, scope).mean,
        ) as [number, number]
        const better = 100 * (1 - own / base)
        return better > 2
          ? [`Load ${point.load}, ${variant.label}: mean latency is ${better.toFixed(1)} % lower than with all parts.`]
          : []
      }),
    ),
    tables: PARTS_POINTS.map((point) => variantTable(`Load ${point.load}`, PARTS, point, runs, scope)),
  }),
}
