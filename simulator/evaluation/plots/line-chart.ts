/** Lines with 95 % confidence bars, on linear or logarithmic axes. */
import type { Interval } from '../statistics/interval.ts'
import { axis, drawPanel, FONT, INK, logTicks } from './chart.ts'

export interface LinePoint {
  x: number
  y: Interval
}

export interface Line {
  name: string
  color: string
  dashed?: boolean
  points: readonly LinePoint[]
}

export interface LineChart {
  title: string
  x: string
  y: string
  x_log?: boolean
  y_log?: boolean
  /** Values beyond are cut off, as in the paper's plots. */
  y_max?: number
  lines: readonly Line[]
  /** Horizontal marks, such as an SLO. */
  marks?: readonly number[]
}

const Y_NAME = { nameGap: 8, nameTextStyle: { ...FONT, align: 'left', padding: [0, 0, 0, -44] } }

export function lineChart(chart: LineChart): string {
  const { title, lines, marks = [] } = chart
  const legend = lines.map(({ name }) => name)
  const series = [...lines.map(lineSeries), ...lines.map(barSeries), ...marks.map(markSeries)]
  return drawPanel({ title, legend }, { xAxis: xAxis(chart), yAxis: yAxis(chart), series })
}

function xAxis({ x, x_log, lines }: LineChart): object {
  const xs = lines.flatMap(({ points }) => points.map((point) => point.x))
  const [from, to] = [x_log ? Math.min(...xs) : 0, Math.max(...xs)]
  return axis(x, x_log ? 'log' : 'value', {
    ...{ nameLocation: 'middle', nameGap: 24, min: from, max: to },
    ...ticks(x_log ? logTicks(from, to) : null),
  })
}

function yAxis({ y, y_log, y_max, lines }: LineChart): object {
  if (!y_log)
    return axis(y, 'value', { ...Y_NAME, min: 0, ...(y_max === undefined ? {} : { max: y_max }), ...ticks(null) })
  const ys = lines.flatMap(({ points }) => points.map((point) => point.y.mean)).filter((value) => value > 0)
  const [from, to] = [roundDown(Math.min(...ys)), Math.min(y_max ?? Number.POSITIVE_INFINITY, roundUp(Math.max(...ys)))]
  return axis(y, 'log', { ...Y_NAME, min: from, max: to, ...ticks(logTicks(from, to)) })
}

function ticks(at: readonly number[] | null): object {
  const custom = at === null ? {} : { customValues: at }
  return {
    axisLabel: { ...FONT, hideOverlap: true, formatter: short, ...custom },
    axisTick: { lineStyle: { color: INK, opacity: 0.5 }, ...custom },
  }
}

function lineSeries({ name, color, dashed, points }: Line): object {
  return {
    ...{ name, type: 'line', symbol: 'circle', symbolSize: 5, clip: true },
    ...{ lineStyle: { color, width: 2, type: dashed ? 'dashed' : 'solid' }, itemStyle: { color } },
    data: points.map(({ x, y }) => [x, y.mean]),
  }
}

/** Confidence bars, named apart from the line so that the legend does not show them. */
function barSeries({ name, color, points }: Line): object {
  const bars = points.filter(({ y }) => y.half_width !== null && y.half_width > 0)
  return {
    ...{ name: `${name}, 95 %`, type: 'custom', clip: true, silent: true },
    data: bars.map(({ x, y }) => [
      x,
      Math.max(y.mean - (y.half_width ?? 0), y.mean / 100),
      y.mean + (y.half_width ?? 0),
    ]),
    encode: { x: 0, y: [1, 2] },
    renderItem: (_: unknown, api: { value: (at: number) => number; coord: (point: number[]) => number[] }) => {
      const [x = 0, low = 0] = api.coord([api.value(0), api.value(1)])
      const [, high = 0] = api.coord([api.value(0), api.value(2)])
      return {
        type: 'line',
        shape: { x1: x, y1: low, x2: x, y2: high },
        style: { stroke: color, lineWidth: 1.2, opacity: 0.6 },
      }
    },
  }
}

function markSeries(y: number): object {
  return {
    ...{ name: `mark ${y}`, type: 'line', data: [], silent: true },
    markLine: {
      ...{ symbol: 'none', silent: true, data: [{ yAxis: y }] },
      lineStyle: { color: INK, opacity: 0.5, type: 'dotted' },
      label: { show: false },
    },
  }
}

/** 1200 → 1.2k; three digits at most. */
export function short(value: number): string {
  if (value >= 1e6) return `${trim(value / 1e6)}M`
  if (value >= 1e3) return `${trim(value / 1e3)}k`
  return trim(value)
}

function trim(value: number): string {
  return `${Number(value.toPrecision(3))}`
}

function roundDown(value: number): number {
  const unit = 10 ** Math.floor(Math.log10(value))
  return Math.floor(value / unit) * unit
}

function roundUp(value: number): number {
  const unit = 10 ** Math.floor(Math.log10(value))
  return Math.ceil(value / unit) * unit
}
