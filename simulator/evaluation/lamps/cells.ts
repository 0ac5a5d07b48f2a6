/** The cells that LAMPS' text names (§6.2), and the same of ours. */
import type { PaperRow, Scope } from '../figure.ts'
import type { Runs } from '../runs/run-chains.ts'
import type { RunOutcome } from '../runs/run-outcome.ts'
import { whyLearned, whyMissed } from './missed-cells.ts'
import {
  changePercent,
  DATASETS,
  type Dataset,
  loadsOf,
  METRICS,
  type Metric,
  MODELS,
  type Model,
  outcomesOf,
  type Point,
  ROWS,
  type Row,
} from './setting.ts'

interface Cell {
  model: Model
  dataset: Dataset
  /** The paper's, requests per second; and where it lies here (setting.ts). */
  rate: number
  load: number
  against: 'infercept' | 'vllm'
  /** Percent. Undefined: the paper gives none. */
  ttft?: number
  latency?: number
}

export const CELLS: readonly Cell[] = [
  { model: 'gpt-j', dataset: 'single', rate: 3, load: 0.85, against: 'infercept', ttft: -4.61, latency: 0.78 },
  { model: 'gpt-j', dataset: 'single', rate: 5, load: 1.4, against: 'infercept', ttft: -91.27, latency: -65.51 },
  { model: 'gpt-j', dataset: 'multi', rate: 3, load: 1.4, against: 'infercept', ttft: -95.93, latency: -63.32 },
  { model: 'gpt-j', dataset: 'toolbench', rate: 3, load: 1.2, against: 'infercept', ttft: -87.04, latency: -27.24 },
  { model: 'vicuna', dataset: 'single', rate: 3, load: 0.85, against: 'infercept', ttft: -4.78, latency: -0.24 },
  { model: 'vicuna', dataset: 'single', rate: 4, load: 1.2, against: 'infercept', ttft: -98, latency: -82 },
  { model: 'vicuna', dataset: 'multi', rate: 4, load: 1.4, against: 'infercept', ttft: -89, latency: -78 },
  { model: 'vicuna', dataset: 'toolbench', rate: 3, load: 1.2, against: 'infercept', ttft: -75.46, latency: -62.61 },
  { model: 'gpt-j', dataset: 'single', rate: 3, load: 0.85, against: 'vllm', ttft: -22.86, latency: -14.48 },
  { model: 'gpt-j', dataset: 'single', rate: 5, load: 1.4, against: 'vllm', ttft: -95.71, latency: -90.44 },
  { model: 'gpt-j', dataset: 'toolbench', rate: 3, load: 1.2, against: 'vllm', ttft: -99.51, latency: -96.07 },
  { model: 'vicuna', dataset: 'single', rate: 3, load: 0.85, against: 'vllm', ttft: -18.65, latency: -15.73 },
  { model: 'vicuna', dataset: 'toolbench', rate: 3, load: 1.2, against: 'vllm', latency: -90.25 },
]

/** "Up to", over all rates. */
const THROUGHPUT: readonly { dataset: Dataset; against: 'infercept' | 'vllm'; percent: number | null }[] = [
  { dataset: 'single', against: 'infercept', percent: 46.81 },
  { dataset: 'multi', against: 'infercept', percent: 50.23 },
  { dataset: 'toolbench', against: 'infercept', percent: null },
  { dataset: 'single', against: 'vllm', percent: 71.34 },
  { dataset: 'multi', against: 'vllm', percent: 144 },
]

/** A claim of the paper beside ours; `why` says what keeps ours from it, where it is missed. */
export interface CellRow extends PaperRow {
  why: string | null
}

/** Those whose loads are played. */
export function paperRows(runs: Runs, scope: Scope): CellRow[] {
  const played = CELLS.filter(({ load }) => loadsOf(scope).includes(load))
  const cells = played.flatMap((cell) => [
    ...cellRow(cell, METRICS.ttft, cell.ttft, runs, scope),
    ...cellRow(cell, METRICS.latency, cell.latency, runs, scope),
  ])
  return [...cells, ...THROUGHPUT.map((one) => throughputRow(one, runs, scope))]
}

function cellRow(cell: Cell, metric: Metric, paper: number | undefined, runs: Runs, scope: Scope): CellRow[] {
  if (paper === undefined) return []
  const { model, dataset, rate, load, against } = cell
  const base = ROWS[against]
  const point = { model, dataset, load }
  const row: PaperRow = {
    claim: `${MODELS[model].label}, ${DATASETS[dataset].label}, rate ${rate} (load ${load}): ${metric.label} of LAMPS against ${base.label}`,
    paper,
    ours: changePercent(runs, point, [ROWS.lamps, base], metric, scope),
    unit: '%',
  }
  return [explained(row, runs, point, base, metric, scope)]
}

function explained(row: PaperRow, runs: Runs, point: Point, base: Row, metric: Metric, scope: Scope): CellRow {
  return { ...row, why: goalOf(row) ? null : whyMissed(runs, point, [ROWS.lamps, base], metric, scope) }
}

function throughputRow({ dataset, against, percent }: (typeof THROUGHPUT)[number], runs: Runs, scope: Scope): CellRow {
  const points = loadsOf(scope).map((load): Point => ({ model: 'vicuna', dataset, load }))
  const changes = points.map((point) => ({
    point,
    change: changePercent(runs, point, [ROWS.lamps, ROWS[against]], METRICS.throughput, scope),
  }))
  const most = changes.reduce((best, one) => (one.change.mean > best.change.mean ? one : best))
  const row: PaperRow = {
    claim: `Vicuna 13B, ${DATASETS[dataset].label}: throughput of LAMPS against ${ROWS[against].label}, up to`,
    ...{ paper: percent, ours: most.change, unit: '%' },
    ...(percent === null ? { note: 'The paper: slightly worse' } : {}),
  }
  return explained(row, runs, most.point, ROWS[against], METRICS.throughput, scope)
}

/** At or beyond the paper's. A change of latency should be as low, one of throughput as high. */
export function goalOf({ claim, paper, ours }: PaperRow): boolean {
  if (paper === null || ours === null) return true
  return claim.includes('throughput') ? ours.mean >= paper : ours.mean <= paper
}

export interface Worst {
  percent: number
  where: string
  /** Cells that are more than 2 % worse. */
  beyond: number
  of: number
}

const TOLERATED_PERCENT = 2

/** A row with learned forecasts against InferCept with the truth, in every metric at every load. */
export function worstLearned(runs: Runs, points: readonly Point[], scope: Scope, row: Row): Worst {
  const worst: Worst = { percent: Number.NEGATIVE_INFINITY, where: '', beyond: 0, of: 0 }
  for (const point of points) {
    for (const { metric, percent } of lossesAt(runs, point, scope, row)) {
      worst.of += 1
      if (percent > TOLERATED_PERCENT) worst.beyond += 1
      if (percent <= worst.percent) continue
      worst.percent = percent
      worst.where = `${metric.label}, ${placeOf(point)}`
    }
  }
  return worst
}

/** Of each place and load at which a row with learned forecasts is more than 2 % worse than InferCept: in what, and why. */
export function learnedLosses(runs: Runs, points: readonly Point[], scope: Scope, row: Row): string[] {
  return points.flatMap((point) => {
    const losses = lossesAt(runs, point, scope, row).filter(({ percent }) => percent > TOLERATED_PERCENT)
    if (losses.length === 0) return []
    const worse = losses.map(({ metric, percent }) => `${metric.label} ${percent.toFixed(percent < 10 ? 1 : 0)} %`)
    return `${placeOf(point)}: ${row.label} is worse than InferCept by ${worse.join(', ')}. ${whyLearned(runs, point, [row, ROWS.infercept], scope)}`
  })
}

function lossesAt(runs: Runs, point: Point, scope: Scope, row: Row): { metric: Metric; percent: number }[] {
  const own = outcomesOf(runs, point, row, scope)
  const other = outcomesOf(runs, point, ROWS.infercept, scope)
  return Object.values(METRICS).map((metric) => ({ metric, percent: lossPercent(metric, own, other) }))
}

function placeOf({ model, dataset, load }: Point): string {
  return `${MODELS[model].label}, ${DATASETS[dataset].label}, load ${load}`
}

/** Above 0: worse. */
function lossPercent(metric: Metric, own: readonly RunOutcome[], other: readonly RunOutcome[]): number {
  const sum = (outcomes: readonly RunOutcome[]) => outcomes.reduce((total, one) => total + metric.of(one), 0)
  const more = 100 * (sum(own) / sum(other) - 1)
  return metric === METRICS.throughput ? -more : more
}
