/** The parts of ECharts that the page uses, in a bundle of their own that is loaded with the first chart. */
import { CustomChart, LineChart } from 'echarts/charts'
import { DataZoomComponent, GridComponent, LegendComponent, TooltipComponent } from 'echarts/components'
import { type EChartsType, init, use } from 'echarts/core'
import { CanvasRenderer } from 'echarts/renderers'
import type { Measure, PlanResult } from '../planning/messages.ts'
import type { CallGraph } from './call-graph.ts'
import { callSpans, type Span, type SpanKind } from './call-spans.ts'

use([CustomChart, LineChart, DataZoomComponent, GridComponent, LegendComponent, TooltipComponent, CanvasRenderer])

export interface CurvePoint {
  output_tokens: number
  index: number
  expected_remaining_tokens: number
}

/** Colours and font of the page, so that a chart follows dark and light. Only a property in use has its value worked out. */
function look(element: HTMLElement) {
  const probe = document.createElement('span')
  element.append(probe)
  const style = getComputedStyle(probe)
  const of = (name: string) => {
    probe.style.color = `var(${name})`
    return style.color
  }
  const found = colours(of, style.fontFamily)
  probe.remove()
  return found
}

function colours(of: (name: string) => string, font: string) {
  return {
    text: of('--text'),
    quiet: of('--quiet'),
    line: of('--line'),
    font,
    kinds: {
      wait: of('--wait'),
      prefill: of('--prefill'),
      decode: of('--accent'),
      open: of('--accent'),
      tool: of('--tool'),
    } satisfies Record<SpanKind, string>,
  }
}

export interface Chart<T> {
  show: (data: T) => void
  close: () => void
}

/** Rich text is drawn, never parsed as HTML: names come from clients. */
const TOOLTIP = { trigger: 'item', renderMode: 'richText', confine: true } as const
const LANE_PX = 26
const SPAN_SHARE = 0.6

export function timeline(element: HTMLElement): Chart<CallGraph> {
  const chart = init(element)
  const stop = followSize(chart, element)
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
      } as Parameters<EChartsType['setOption']>[0])
      first = false
    },
    close: () => {
      stop()
      chart.dispose()
    },
  }
}

function spanText(span: Span | undefined): string {
  if (span === undefined) return ''
  const took = `${((span.to_ms - span.from_ms) / 1000).toFixed(3)} s`
  return span.kind === 'tool' ? `${span.text}: ${took}` : `${span.call}\n${span.kind}: ${took}`
}

export function curve(element: HTMLElement): Chart<readonly CurvePoint[]> {
  const chart = init(element)
  const stop = followSize(chart, element)
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
      } as Parameters<EChartsType['setOption']>[0])
    },
    close: () => {
      stop()
      chart.dispose()
    },
  }
}

export interface FleetsShown {
  result: PlanResult
  measure: Measure
  at_most: number
}

/** The 95th percentile by number of engines, a line for each fleet, with the target. */
export function fleets(element: HTMLElement): Chart<FleetsShown> {
  const chart = init(element)
  const stop = followSize(chart, element)
  return {
    show: ({ result, measure, at_most }) => {
      const { text, quiet, line, font, kinds } = look(element)
      const colors = [kinds.decode, kinds.wait, kinds.tool, kinds.prefill, text]
      const sizes = [...new Set(result.fleets.flatMap(({ played }) => played.map(({ engines }) => engines)))]
      sizes.sort((a, b) => a - b)
      chart.setOption({
        textStyle: { fontFamily: font, color: text },
        animation: false,
        legend: { type: 'scroll', textStyle: { color: text }, pageTextStyle: { color: quiet }, top: 0 },
        grid: { left: 8, right: 16, top: 52, bottom: 32, containLabel: true },
        tooltip: { ...TOOLTIP, trigger: 'axis' },
        xAxis: {
          ...{ type: 'category', name: 'engines', nameLocation: 'middle', nameGap: 26, data: sizes.map(String) },
          ...{ axisLabel: { color: quiet }, splitLine: { show: false } },
        },
        yAxis: {
          type: 'log',
          name: measure === 'program_s' ? 'p95 of programs, s (log)' : 'p95 of programs, ms a token (log)',
          nameTextStyle: { align: 'left', color: quiet },
          ...{ axisLabel: { color: quiet }, splitLine: { lineStyle: { color: line } } },
        },
        series: [
          ...result.fleets.map(({ policy, balancer, played }, at) => ({
            ...{ name: `${policy}, ${balancer}`, type: 'line' as const, color: colors[at % colors.length] },
            data: played.map(({ engines, p95 }) => [String(engines), Number(p95.toPrecision(4))]),
          })),
          {
            ...{ name: 'target', type: 'line' as const, color: quiet, showSymbol: false },
            lineStyle: { type: 'dashed' },
            data: sizes.map((engines) => [String(engines), at_most]),
          },
        ],
      } as Parameters<EChartsType['setOption']>[0])
    },
    close: () => {
      stop()
      chart.dispose()
    },
  }
}

function followSize(chart: EChartsType, element: HTMLElement): () => void {
  const observer = new ResizeObserver(() => chart.resize({ width: element.clientWidth }))
  observer.observe(element)
  return () => observer.disconnect()
}
