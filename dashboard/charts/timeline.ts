/** A program's calls over time: a row for each thread. */
import type { CallGraph } from './call-graph.ts'
import { callSpans, type Span } from './call-spans.ts'
import { type Chart, chartIn, look, type Options, TOOLTIP } from './echarts.ts'

const LANE_PX = 26
const SPAN_SHARE = 0.6

export function timeline(element: HTMLElement): Chart<CallGraph> {
  const { chart, close } = chartIn(element)
  let first = true
  return {
    show: ({ calls, lanes }) => {
      const { text, quiet, line, font, kinds } = look(element)
      const spans = callSpans(
        calls.map(({ call }) => call),
        lanes,
        Date.now(),
      )
      const start_ms = spans.reduce((least, { from_ms }) => Math.min(least, from_ms), Number.POSITIVE_INFINITY)
      const end_ms = spans.reduce((most, { to_ms }) => Math.max(most, to_ms), start_ms)
      const data = spans.map((span) => [span.lane, span.from_ms - start_ms, span.to_ms - start_ms])
      chart.resize({ height: lanes.length * LANE_PX + 110 })
      chart.setOption({
        textStyle: { fontFamily: font, color: text },
        animation: false,
        grid: { left: 8, right: 16, top: 8, bottom: 76, containLabel: true },
        tooltip: { ...TOOLTIP, formatter: ({ dataIndex }: { dataIndex: number }) => spanText(spans[dataIndex]) },
        xAxis: {
          type: 'value',
          min: 0,
          max: Math.max(1, end_ms - start_ms),
          axisLabel: { color: quiet, formatter: (ms: number) => `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s` },
          splitLine: { lineStyle: { color: line } },
        },
        yAxis: {
          type: 'category',
          inverse: true,
          data: lanes.map((name) => (name.length > 18 ? `${name.slice(0, 17)}…` : name)),
          axisLabel: { color: quiet },
          axisLine: { lineStyle: { color: line } },
        },
        ...(first
          ? {
              dataZoom: [
                { type: 'slider', height: 22, bottom: 10, showDataShadow: false, labelFormatter: '' },
                { type: 'inside', zoomOnMouseWheel: 'ctrl', moveOnMouseMove: true },
              ],
            }
          : {}),
        series: [
          {
            type: 'custom',
            clip: true,
            encode: { x: [1, 2], y: 0 },
            data,
            renderItem: (
              { dataIndex }: { dataIndex: number },
              api: {
                value: (at: number) => number
                coord: (at: [number, number]) => [number, number]
                size: (of: [number, number]) => [number, number]
              },
            ) => {
              const span = spans[dataIndex]
              const [x, y] = api.coord([api.value(1), api.value(0)])
              const [end] = api.coord([api.value(2), api.value(0)])
              const height = api.size([0, 1])[1] * (span?.kind === 'tool' ? 0.2 : SPAN_SHARE)
              return {
                type: 'rect',
                shape: { x, y: y - height / 2, width: Math.max(1.5, end - x), height },
                style: { fill: kinds[span?.kind ?? 'open'], opacity: span?.kind === 'open' ? 0.5 : 1 },
              }
            },
          },
        ],
      } as Options)
      first = false
    },
    close,
  }
}

function spanText(span: Span | undefined): string {
  if (span === undefined) return ''
  const took = `${((span.to_ms - span.from_ms) / 1000).toFixed(3)} s`
  if (span.kind === 'tool') return `${span.text}: ${took}`
  return [span.call, `${span.kind}: ${took}`, span.text].filter((line) => line !== '').join('\n')
}
