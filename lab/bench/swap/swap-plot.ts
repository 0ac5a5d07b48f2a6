/** How long the forward pass waits and when the copy is complete, by tokens and method: an SVG for docs/kv-swap.md. */
import * as echarts from 'echarts'
import { labelled } from '../../../simulator/evaluation/plots/chart.ts'
import type { SwapCase, SwapReport } from './report.ts'

const WIDTH = 760
const HEIGHT = 460
const TITLE_HEIGHT = 60
const PANELS = [
  { title: 'the next forward pass waits, ms (log)', left: 60, of: (one: SwapCase) => one.compute_stream_ms },
  { title: 'on the host, ms (log)', left: 440, of: (one: SwapCase) => one.done_ms },
] as const
const PANEL_WIDTH = 300
const METHODS = [
  { name: 'staged-triton', shown: 'one gather, one copy (ours)', color: '#2563eb' },
  { name: 'batch-copy', shown: 'batch copy', color: '#f59e0b' },
  { name: 'copy-per-block-and-layer', shown: 'a copy per block and layer', color: '#dc2626' },
  { name: 'triton-to-host', shown: 'kernel to the host', color: '#7c3aed' },
] as const
const LIMIT = 'limit of the link'

/** Of the first case's shape and layout: one call that leaves. */
export function swapPlot(report: SwapReport): string {
  const [first] = report.cases
  const cases = report.cases.filter(
    (one) =>
      one.shape === first?.shape &&
      one.layout === first.layout &&
      one.block_tokens === first.block_tokens &&
      one.calls === 1 &&
      one.direction === 'out',
  )
  const tokens = [...new Set(cases.map((one) => one.tokens))].sort((a, b) => a - b)
  const chart = echarts.init(null, null, { renderer: 'svg', ssr: true, width: WIDTH, height: HEIGHT })
  const axis = { type: 'category' as const, data: tokens.map((one) => one.toLocaleString('en')), name: 'tokens' }
  chart.setOption({
    backgroundColor: '#ffffff',
    animation: false,
    title: {
      text: 'A call leaves the GPU',
      subtext: `${first?.shape}, blocks of ${first?.block_tokens} tokens, layout ${first?.layout}; ${report.device.name}, ${report.measured_at.slice(0, 10)}`,
      left: 'center',
    },
    legend: { bottom: 0, width: 520, itemGap: 16, data: [...METHODS.map(({ shown }) => shown), LIMIT] },
    grid: PANELS.map(({ left }) => ({ left, top: TITLE_HEIGHT + 40, width: PANEL_WIDTH, bottom: 125 })),
    xAxis: PANELS.map((_, gridIndex) => ({ ...axis, gridIndex, nameLocation: 'middle' as const, nameGap: 28 })),
    yAxis: PANELS.map(({ title }, gridIndex) => ({
      ...{ type: 'log' as const, name: title, gridIndex },
      nameTextStyle: { align: 'left' as const },
    })),
    series: PANELS.flatMap(({ of }, panel) => [
      ...METHODS.map(({ name, shown, color }) => ({
        ...line(shown, color, panel),
        data: tokens.map((count) => figureOf(cases, name, count, of)),
      })),
      ...(panel === 1
        ? [{ ...line(LIMIT, '#6b7280', panel), lineStyle: { type: 'dashed' as const }, data: limits() }]
        : []),
    ]),
  })
  const svg = labelled(chart.renderToSVGString(), 'How fast KV leaves a GPU and returns, by method and tokens')
  chart.dispose()
  return svg

  function limits(): (number | null)[] {
    return tokens.map((count) => {
      const bytes = cases.find((one) => one.tokens === count)?.bytes
      return bytes === undefined ? null : bytes / report.link.out_gb_per_s / 1e6
    })
  }
}

function line(name: string, color: string, panel: number) {
  return { name, color, type: 'line' as const, xAxisIndex: panel, yAxisIndex: panel, symbolSize: 6 }
}

function figureOf(
  cases: readonly SwapCase[],
  method: string,
  tokens: number,
  of: (one: SwapCase) => number,
): number | null {
  const found = cases.find((one) => one.method === method && one.tokens === tokens)
  return found === undefined ? null : of(found)
}
