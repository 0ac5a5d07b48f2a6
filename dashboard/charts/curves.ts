/** Lines: how `learned` orders a class, and how long its programs took day by day. */
import type { Trend } from '../api-types.ts'
import { type Chart, chartIn, look, type Options, TOOLTIP } from './echarts.ts'

export interface CurvePoint {
  output_tokens: number
  index: number
  expected_remaining_tokens: number
}

export function curve(element: HTMLElement): Chart<readonly CurvePoint[]> {
  const { chart, close } = chartIn(element)
  return {
    show: (points) => {
      const { text, quiet, line, font, kinds } = look(element)
      const series = (name: string, of: (point: CurvePoint) => number, color: string, yAxisIndex: number) => ({
        ...{ name, yAxisIndex, type: 'line' as const, step: 'end' as const, showSymbol: false, color },
        data: points.map((point) => [point.output_tokens, of(point)]),
      })
      chart.setOption({
        textStyle: { fontFamily: font, color: text },
        animation: false,
        legend: { textStyle: { color: text }, top: 0 },
        grid: { left: 8, right: 16, top: 36, bottom: 32, containLabel: true },
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
        yAxis: [kinds.decode, kinds.wait].map((color, at) => ({
          ...{ type: 'value', axisLabel: { color }, splitLine: { show: at === 0, lineStyle: { color: line } } },
        })),
        series: [
          series('index (lower runs first)', ({ index }) => index, kinds.decode, 0),
          series('output still expected, tokens', (point) => point.expected_remaining_tokens, kinds.wait, 1),
        ],
      } as Options)
    },
    close,
  }
}

/** Response times by day, p50 and p95. */
export function trend(element: HTMLElement): Chart<readonly Trend[]> {
  const { chart, close } = chartIn(element)
  return {
    show: (rows) => {
      const { text, quiet, line, font, kinds } = look(element)
      const days = rows.toSorted((a, b) => (a.day < b.day ? -1 : 1))
      const series = (name: string, of: (row: Trend) => number, color: string) => ({
        ...{ name, type: 'line' as const, color, symbolSize: 7 },
        data: days.map((row) => of(row)),
      })
      chart.setOption({
        textStyle: { fontFamily: font, color: text },
        animation: false,
        legend: { textStyle: { color: text }, top: 0 },
        grid: { left: 8, right: 16, top: 36, bottom: 12, containLabel: true },
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
          series('response p95, s', ({ response_s }) => response_s.p95, kinds.wait),
          series('response p50, s', ({ response_s }) => response_s.p50, kinds.decode),
        ],
      } as Options)
    },
    close,
  }
}
