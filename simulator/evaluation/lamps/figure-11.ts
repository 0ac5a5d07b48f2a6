/** Figure 11: forecasts with errors, and the data sets that differ from the paper’s. */
import type { Figure, Scope } from '../figure.ts'
import { seriesColor } from '../plots/colors.ts'
import { lineChart } from '../plots/line-chart.ts'
import type { RunChange } from '../runs/run-spec.ts'
import { withInterval } from '../statistics/words.ts'
import { METRICS, type Metric, type Point, ROWS, rateAt } from './setting.ts'
import { type Variant, variantChains, variantMetric, variantTable } from './variants.ts'

const ERRORS = [0, 0.05, 0.1, 0.3, 0.5] as const
const LOADS = [0.85, 1.2, 1.4] as const
const QUICK_LOADS = [1.2] as const
const MEDIAN: Metric = { name: 'median', label: 'median latency', unit: 's', of: ({ response_s }) => response_s.p50 }
const SHOWN = [MEDIAN, METRICS.latency, METRICS.throughput] as const

const pointsOf = ({ quick }: Scope): Point[] =>
  (quick ? QUICK_LOADS : LOADS).map((load) => ({ model: 'gpt-j', dataset: 'multi', load }))

const VARIANTS: readonly Variant[] = ERRORS.map((error) => ({
  ...{ label: `${100 * error} %`, row: ROWS.lamps },
  change: { forecast: { kind: 'oracle', error } } satisfies RunChange,
}))

export const FIGURE_11: Figure = {
  id: '11',
  title: 'Errors of forecasts',
  paper: 'Median latency rises and throughput falls with the error, at high rates and only for large errors.',
  setup:
    'Several tools on GPT-J. A normal error with a standard deviation of so many percent of the true value is added to the output and to the tool’s time; values below 0 count as 0.',
  chains: (scope) => variantChains(VARIANTS, pointsOf(scope), scope),
  read: (runs, scope) => {
    const points = pointsOf(scope)
    return {
      panels: SHOWN.map((metric) => ({
        name: metric.name,
        alt: `${metric.label} by rate, for each error.`,
        svg: lineChart({
          ...{ title: metric.label, x: 'programs per second', y: `${metric.label} (${metric.unit})` },
          lines: VARIANTS.map((variant, at) => ({
            ...{ name: variant.label, color: seriesColor(at) },
            points: points.map((point) => ({
              x: rateAt(point),
              y: variantMetric(runs, variant, point, metric, scope),
            })),
          })),
        }),
      })),
      shows: points.map((point) => {
        const [none, most] = [VARIANTS[0], VARIANTS.at(-1)].map((variant) =>
          variantMetric(runs, variant as Variant, point, METRICS.latency, scope),
        )
        return `Load ${point.load}: mean latency ${none === undefined ? '' : withInterval(none)} s without error, ${most === undefined ? '' : withInterval(most)} s with 50 %.`
      }),
      losses: [],
      tables: points.map((point) =>
        variantTable(`Load ${point.load}`, VARIANTS, point, runs, scope, [...SHOWN, METRICS.ttft]),
      ),
    }
  },
}

const SET_ROWS = [
  ROWS.vllm,
  ROWS.infercept,
  ROWS.lamps,
  ROWS['lamps-learned'],
  ROWS.ours,
  ROWS['ours-learned'],
] as const
const SETS: readonly { label: string; point: Point; change: RunChange }[] = [
  { label: 'several tools, as released', point: { model: 'gpt-j', dataset: 'multi', load: 1.2 }, change: {} },
  {
    label: 'several tools, with the numbers of tools of Table 2',
    point: { model: 'gpt-j', dataset: 'multi', load: 1.2 },
    // Its programs have 1.5 times the calls of those released.
    change: { workload: 'infercept-table-2' },
  },
  {
    label: 'ToolBench, prompts three times as long',
    point: { model: 'gpt-j', dataset: 'toolbench', load: 0.4 },
    change: { prompt_scale: 3 },
  },
]

export const DATA_SETS: Figure = {
  id: 'data-sets',
  title: 'Data sets nearer to the paper’s',
  paper:
    'Table 2 has other numbers of tools than the released requests, and the paper explains its loss of throughput on ToolBench by requests beyond 2,048 tokens, of which ours has few.',
  setup:
    'GPT-J. The released requests drawn so that the mean number of tools is Table 2’s, and ToolBench with prompts three times as long, at rates that saturate the engine with them.',
  chains: (scope) =>
    SETS.flatMap(({ point, change }) =>
      variantChains(
        SET_ROWS.map((row) => ({ label: row.label, row, change })),
        [point],
        scope,
      ),
    ),
  read: (runs, scope) => ({
    panels: [],
    shows: [],
    losses: [],
    tables: SETS.map(({ label, point, change }) =>
      variantTable(
        `${label} (${rateAt(point)} programs/s)`,
        SET_ROWS.map((row) => ({ label: row.label, row, change })),
        point,
        runs,
        scope,
      ),
    ),
  }),
}
