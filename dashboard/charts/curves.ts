/** Lines: how `learned` orders a class, and how long its programs took day by day. */
import type { Trend } from '../api-types.ts'
import { type Chart, chartIn, look, type Options, TOOLTIP } from './echarts.ts'

const INDEX = 'index (lower runs first)'
const EXPECTED = 'output still expected, tokens'
const P95 = 'response p95, s'
const P50 = 'response p50, s'

export interface CurvePoint {
  output_tokens: number
  index: number
  expected_remaining_tokens: number
}

export function curve(element: HTMLElement): Chart<readonly CurvePoint[]> {
  const { chart, close } = chartIn(element)
  return {
    show: (points) => {
      const { text, quiet, line, font, lines } = look(element)
      const [first = text, second = text] = lines
      const series = (name: string, of: (point: CurvePoint) => number, color: string, yAxisIndex: number) => ({
        ...{ name, yAxisIndex, type: 'line' as const, step: 'end' as const, showSymbol: false, color },
        data: points.map((point) => [point.output_tokens, of(point)]),
      })
      chart.setOption({
        textStyle: { fontFamily: font, color: text },
        animation: false,
        grid: { left: 8, right: 16, top: 16, bottom: 32, containLabel: true },
        tooltip: { ...TOOLTIP, trigger: 'axis' },
        xAxis: {
          type: 'value',
          name: 'output tokens so far',
          nameLocation: 'middle',
          nameGap: 26,
          axisLabel: { color: quiet },
          splitLine: { lineStyle: { color: line } },
        },
        // They have different units.
        yAxis: [first, second].map((color, at) => ({
          ...{ type: 'value', axisLabel: { color }, splitLine: { show: at === 0, lineStyle: { color: line } } },
        })),
        series: [
          series(INDEX, ({ index }) => index, first, 0),
          series(EXPECTED, (point) => point.expected_remaining_tokens, second, 1),
        ],
      } as Options)
      return [
        { name: INDEX, color: first },
        { name: EXPECTED, color: second },
      ]
    },
    close,
  }
}

/** Response times by day, p50 and p95. */
export function trend(element: HTMLElement): Chart<readonly Trend[]> {
  const { chart, close } = chartIn(element)
  return {
    show: (rows) => {
      const { text, quiet, line, font, lines } = look(element)
      const [first = text, second = text] = lines
      const days = rows.toSorted((a, b) => (a.day < b.day ? -1 : 1))
      const series = (name: string, of: (row: Trend) => number, color: string) => ({
        ...{ name, type: 'line' as const, color, symbolSize: 7 },
        data: days.map((row) => of(row)),
      })
      chart.setOption({
        textStyle: { fontFamily: font, color: text },
        animation: false,
        grid: { left: 8, right: 16, top: 16, bottom: 12, containLabel: true },
        tooltip: { ...TOOLTIP, trigger: 'axis' },
        xAxis: {
          type: 'category',
          data: days.map(({ day }) => day),
          axisLabel: { color: quiet },
          axisLine: { lineStyle: { color: line } },
        },
        yAxis: {
          type: 'value',
          min: 0,
          axisLabel: { color: quiet, formatter: (s: number) => `${s} s` },
          splitLine: { lineStyle: { color: line } },
        },
        series: [
          series(P95, ({ response_s }) => response_s.p95, second),
          series(P50, ({ response_s }) => response_s.p50, first),
        ],
      } as Options)
      return [
        { name: P95, color: second },
        { name: P50, color: first },
      ]
    },
    close,
  }
}
