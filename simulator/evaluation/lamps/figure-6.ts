/** Figures 6, 7 and 8: latency, time to the first token and throughput against load, for each data set and model. */
import type { Figure, FigureContent, Goal, Panel, PaperRow, Scope, Table } from '../figure.ts'
import { barChart } from '../plots/bar-chart.ts'
import { SYSTEM_COLORS } from '../plots/colors.ts'
import { lineChart } from '../plots/line-chart.ts'
import type { Runs } from '../runs/run-chains.ts'
import { withInterval } from '../statistics/words.ts'
import { goalOf, learnedLosses, paperRows, worstLearned } from './cells.ts'
import {
  CAPACITY,
  chainOf,
  DATASET_NAMES,
  DATASETS,
  type Dataset,
  loadsOf,
  METRICS,
  type Metric,
  MODEL_NAMES,
  MODELS,
  type Model,
  metricOf,
  type Point,
  ROWS,
  type Row,
  rateAt,
  SYSTEM_ROWS,
} from './setting.ts'

const FIGURE_6_METRICS = [METRICS.latency, METRICS.latency_p99, METRICS.ttft, METRICS.ttft_p99] as const
const PLACES = MODEL_NAMES.flatMap((model) => DATASET_NAMES.map((dataset) => ({ model, dataset })))
const PLAYED: readonly Row[] = SYSTEM_ROWS.map((name) => ROWS[name])
/** Where the paper's rate of 5 lies (setting.ts). */
const FIGURE_7_LOAD = 1.4

const pointsOf = (model: Model, dataset: Dataset, scope: Scope): Point[] =>
  loadsOf(scope).map((load) => ({ model, dataset, load }))

const chains = (scope: Scope) =>
  PLACES.flatMap(({ model, dataset }) => PLAYED.map((row) => chainOf(pointsOf(model, dataset, scope), row, scope)))

const SETUP =
  'InferCept’s released requests up to their first tool (single tool) and whole (several tools), and chains of ToolBench with the tools of LAMPS’ Table 2. ' +
  'Rates are given as loads: 1 is the rate from which on InferCept’s queue grows here ' +
  `(${MODEL_NAMES.map((model) => `${MODELS[model].label}: ${DATASET_NAMES.map((dataset) => `${DATASETS[dataset].label} ${CAPACITY[model][dataset]}/s`).join(', ')}`).join('; ')}). ` +
  'Programs arrive for 10 minutes (quick: 4). All systems compute prompts in chunks and decide at each iteration.'

function panel(runs: Runs, place: { model: Model; dataset: Dataset }, metric: Metric, scope: Scope): Panel {
  const { model, dataset } = place
  const title = `${MODELS[model].label}, ${DATASETS[dataset].label}`
  return {
    name: `${model}-${dataset}-${metric.name}`,
    alt: `${metric.label} by rate: ${title}.`,
    svg: lineChart({
      ...{
        title,
        x: 'programs per second',
        y: `${metric.label} (${metric.unit})`,
        y_log: metric !== METRICS.throughput,
      },
      lines: PLAYED.map((row) => ({
        name: row.label,
        color: SYSTEM_COLORS[row.system],
        ...(row.dashed ? { dashed: true } : {}),
        points: pointsOf(model, dataset, scope).map((point) => ({
          x: rateAt(point),
          y: metricOf(runs, point, row, metric, scope),
        })),
      })),
    }),
  }
}

/** One row for each load, one column for each system. */
function table(runs: Runs, place: { model: Model; dataset: Dataset }, metric: Metric, scope: Scope): Table {
  const { model, dataset } = place
  return {
    title: `${MODELS[model].label}, ${DATASETS[dataset].label}: ${metric.label} (${metric.unit})`,
    columns: ['load', 'programs/s', ...PLAYED.map(({ label }) => label)],
    rows: pointsOf(model, dataset, scope).map((point) => [
      `${point.load}`,
      `${rateAt(point)}`,
      ...PLAYED.map((row) => withInterval(metricOf(runs, point, row, metric, scope))),
    ]),
  }
}

function allPoints(scope: Scope): Point[] {
  return PLACES.flatMap(({ model, dataset }) => pointsOf(model, dataset, scope))
}

function goals(rows: readonly PaperRow[], runs: Runs, scope: Scope): Goal[] {
  const missed = rows.filter((row) => !goalOf(row))
  const worst = [ROWS['lamps-learned'], ROWS['ours-learned']].map((row) => ({
    ...worstLearned(runs, allPoints(scope), scope, row),
    label: row.label,
  }))
  const ours = PLACES.flatMap(({ model, dataset }) =>
    pointsOf(model, dataset, scope).map((point) => {
      const mean = (row: Row) => metricOf(runs, point, row, METRICS.latency, scope).mean
      return { point, ratio: mean(ROWS['ours-learned']) / mean(ROWS['lamps-learned']) }
    }),
  )
  const better = ours.filter(({ ratio }) => ratio < 1).length
  const mean_ratio = Math.exp(ours.reduce((sum, { ratio }) => sum + Math.log(ratio), 0) / ours.length)
  return [
    {
      goal: 'Each of the paper’s cells with the oracle',
      target: 'at or beyond the paper’s',
      ours: `${rows.length - missed.length} of ${rows.length}`,
      met: missed.length === 0,
    },
    {
      goal: 'Learned forecasts against InferCept: mean and P99 of latency and TTFT, throughput',
      target: 'nowhere more than 2 % worse',
      ours: worst
        .map(
          ({ label, percent, where, beyond, of }) =>
            `${label}: at most ${percent.toFixed(1)} % worse (${where}); ${beyond} of ${of} cells are more than 2 % worse`,
        )
        .join('. '),
      met: worst.every(({ beyond }) => beyond === 0),
    },
    {
      goal: 'learned-memory against LAMPS, both learned: mean latency',
      target: 'below LAMPS’',
      ours: `${mean_ratio.toFixed(3)} times LAMPS’, geometric mean; below it in ${better} of ${ours.length} cells`,
      met: mean_ratio < 1,
    },
  ]
}

export const FIGURE_6: Figure = {
  id: '6',
  title: 'Latency and time to the first token against rate',
  paper:
    'LAMPS is below InferCept and vLLM in mean latency and TTFT, the more the higher the rate. At low rates all are alike, and in P99 LAMPS grows faster.',
  setup: `${SETUP} Latency is from a program’s arrival to its last answer, tools included. TTFT is from its arrival to its first token; a call that comes back from a tool queues as its policy has it, in all systems alike.`,
  every_seed: true,
  chains,
  read: (runs, scope): FigureContent => {
    const paper = paperRows(runs, scope)
    const missed = paper.filter((row) => !goalOf(row))
    return {
      panels: PLACES.flatMap((place) => FIGURE_6_METRICS.map((metric) => panel(runs, place, metric, scope))),
      shows: [`${paper.length - missed.length} of the paper’s ${paper.length} cells are reached with the oracle.`],
      losses: [
        ...missed.map(({ claim, paper: theirs, ours, why }) =>
          `${claim}: the paper has ${theirs} %, ours is ${ours === null ? 'not known' : `${withInterval(ours)} %`}. ${why ?? ''}`.trimEnd(),
        ),
        ...learnedLosses(runs, allPoints(scope), scope, ROWS['lamps-learned']),
      ],
      tables: PLACES.flatMap((place) => FIGURE_6_METRICS.map((metric) => table(runs, place, metric, scope))),
      paper,
      goals: goals(paper, runs, scope),
    }
  },
}

export const FIGURE_7: Figure = {
  id: '7',
  title: 'Latency and time to the first token at one rate',
  paper: 'At a rate of five, LAMPS has the lowest latency and TTFT on all data sets.',
  setup: `As figure 6, at a load of ${FIGURE_7_LOAD}.`,
  every_seed: true,
  chains: (scope) =>
    PLACES.flatMap(({ model, dataset }) =>
      PLAYED.map((row) => chainOf([{ model, dataset, load: FIGURE_7_LOAD }], row, scope)),
    ),
  read: (runs, scope) => ({
    panels: MODEL_NAMES.flatMap((model) =>
      FIGURE_6_METRICS.map((metric) => ({
        name: `${model}-${metric.name}`,
        alt: `${metric.label} at a load of ${FIGURE_7_LOAD}: ${MODELS[model].label}.`,
        svg: barChart({
          ...{ title: MODELS[model].label, y: `${metric.label} (${metric.unit})`, y_log: true },
          categories: DATASET_NAMES.map((dataset) => DATASETS[dataset].label),
          bars: PLAYED.map((row) => ({
            name: row.label,
            color: row.dashed ? `${SYSTEM_COLORS[row.system]}80` : SYSTEM_COLORS[row.system],
            values: DATASET_NAMES.map((dataset) =>
              metricOf(runs, { model, dataset, load: FIGURE_7_LOAD }, row, metric, scope),
            ),
          })),
        }),
      })),
    ),
    shows: PLACES.map(({ model, dataset }) => {
      const point = { model, dataset, load: FIGURE_7_LOAD }
      const least = PLAYED.map((row) => ({ row, value: metricOf(runs, point, row, METRICS.latency, scope) })).reduce(
        (best, one) => (one.value.mean < best.value.mean ? one : best),
      )
      return `${MODELS[model].label}, ${DATASETS[dataset].label}: ${least.row.label} has the lowest mean latency, ${withInterval(least.value)} s.`
    }),
    losses: [],
  }),
}

export const FIGURE_8: Figure = {
  id: '8',
  title: 'Throughput against rate',
  paper:
    'Requests completed in 30 minutes, Vicuna 13B: LAMPS completes up to 46.81 % (single tool) and 50.23 % (several) more than InferCept, and slightly fewer on ToolBench.',
  setup: `${SETUP} Throughput counts the programs that end before the last one arrives.`,
  every_seed: true,
  chains: (scope) =>
    DATASET_NAMES.flatMap((dataset) => PLAYED.map((row) => chainOf(pointsOf('vicuna', dataset, scope), row, scope))),
  read: (runs, scope) => ({
    panels: DATASET_NAMES.map((dataset) => panel(runs, { model: 'vicuna', dataset }, METRICS.throughput, scope)),
    shows: [],
    losses: [],
    tables: DATASET_NAMES.map((dataset) => table(runs, { model: 'vicuna', dataset }, METRICS.throughput, scope)),
  }),
}
