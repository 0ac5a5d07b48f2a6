/** Figure 9: the starvation threshold, in both readings of how long a starving request stays at the head of the queue. */
import type { Figure, Scope } from '../figure.ts'
import { seriesColor } from '../plots/colors.ts'
import { lineChart } from '../plots/line-chart.ts'
import type { RunChange } from '../runs/run-spec.ts'
import { figure, withInterval } from '../statistics/words.ts'
import { METRICS, type Point, ROWS } from './setting.ts'
import { type Variant, variantChains, variantMetric, variantTable } from './variants.ts'

const POINT: Point = { model: 'gpt-j', dataset: 'multi', load: 1.2 }
const THRESHOLDS = [10, 30, 100, 300, 1_000, 10_000] as const
const QUICK_THRESHOLDS = [10, 100, 10_000] as const
const READINGS = [
  { name: 'until_completion', label: 'until completion (§4.4)' },
  { name: 'at_promotion', label: 'until it has run (Algorithm 1)' },
] as const

const thresholdsOf = ({ quick }: Scope): readonly number[] => (quick ? QUICK_THRESHOLDS : THRESHOLDS)

type Reading = (typeof READINGS)[number]['name']

function variantOf(starvation: Reading, starvation_iterations: number): Variant {
  const change: RunChange = { lamps: { starvation, starvation_iterations } }
  return { label: `${starvation_iterations}`, row: ROWS.lamps, change }
}

/** At the paper's threshold. */
function learnedOf(starvation: Reading): Variant {
  return { ...variantOf(starvation, 100), label: '100, learned', row: ROWS['lamps-learned'] }
}

const SHOWN = [METRICS.latency, METRICS.latency_p99, METRICS.throughput] as const

export const FIGURE_9: Figure = {
  id: '9',
  title: 'The starvation threshold',
  paper: 'A threshold reduces tail latency and raises throughput; 100 is a good balance.',
  setup: `Several tools on GPT-J at a load of ${POINT.load}. A call that has waited for so many iterations goes to the head of the queue. It stays there until its program is complete, or until it has run for an iteration.`,
  chains: (scope) =>
    READINGS.flatMap(({ name }) =>
      variantChains(
        [...thresholdsOf(scope).map((threshold) => variantOf(name, threshold)), learnedOf(name)],
        [POINT],
        scope,
      ),
    ),
  read: (runs, scope) => {
    const thresholds = thresholdsOf(scope)
    const valueAt = (reading: Reading, threshold: number, metric: (typeof SHOWN)[number]) =>
      variantMetric(runs, variantOf(reading, threshold), POINT, metric, scope)
    const best = READINGS.map(({ name, label }) => {
      const values = thresholds.map((threshold) => ({
        threshold,
        mean: valueAt(name, threshold, METRICS.latency).mean,
      }))
      return { label, ...values.reduce((least, one) => (one.mean < least.mean ? one : least)) }
    })
    return {
      panels: SHOWN.map((metric) => ({
        name: metric.name,
        alt: `${metric.label} by starvation threshold.`,
        svg: lineChart({
          ...{
            title: metric.label,
            x: 'threshold, iterations',
            y: `${metric.label} (${metric.unit})`,
            x_log: true,
          },
          lines: READINGS.map(({ name, label }, at) => ({
            ...{ name: label, color: seriesColor(at) },
            points: thresholds.map((threshold) => ({ x: threshold, y: valueAt(name, threshold, metric) })),
          })),
        }),
      })),
      shows: [
        ...best.map(({ label, threshold, mean }) => `${label}: least mean latency at ${threshold}, ${figure(mean)} s.`),
        ...READINGS.map(
          ({ name, label }) =>
            `${label}, at 100: mean ${withInterval(valueAt(name, 100, METRICS.latency))} s, P99 ${withInterval(valueAt(name, 100, METRICS.latency_p99))} s.`,
        ),
      ],
      losses: [],
      tables: READINGS.map(({ name, label }) =>
        variantTable(
          label,
          [...thresholds.map((threshold) => variantOf(name, threshold)), learnedOf(name)],
          POINT,
          runs,
          scope,
        ),
      ),
    }
  },
}
