/** Mean program token latency against the rate, a line for each policy and balancer, mean over seeds: an SVG. */
import * as echarts from 'echarts'
import { mean } from '../../scripts/bench/statistics.ts'
import type { RunResult } from './run-result.ts'

const WIDTH = 760
const HEIGHT = 420

export function runPlot(runs: readonly RunResult[]): string {
  const balancers = new Set(runs.map(({ balancer }) => balancer))
  const nameOf = ({ policy, balancer }: RunResult) => (balancers.size > 1 ? `${policy}, ${balancer}` : policy)
  const names = [...new Set(runs.map(nameOf))]
  const chart = echarts.init(null, null, { renderer: 'svg', ssr: true, width: WIDTH, height: HEIGHT })
  chart.setOption({
    backgroundColor: '#ffffff',
    animation: false,
    title: { text: 'Program token latency (lower is better)', subtext: 'mean over programs and seeds', left: 'center' },
    legend: { bottom: 0, data: names },
    grid: { left: 80, right: 30, top: 80, bottom: 70 },
    xAxis: {
      type: 'value',
      name: 'programs per second',
      nameLocation: 'middle',
      nameGap: 28,
      min: 'dataMin',
      max: 'dataMax',
    },
    yAxis: { type: 'log', name: 'ms per token (log)', nameGap: 14 },
    series: names.map((name) => ({
      name,
      type: 'line',
      symbolSize: 7,
      data: lineOf(runs.filter((run) => nameOf(run) === name)),
    })),
  })
  const svg = chart.renderToSVGString()
  chart.dispose()
  return svg
}

function lineOf(runs: readonly RunResult[]): [number, number][] {
  const rates = [...new Set(runs.map(({ rate }) => rate))].sort((a, b) => a - b)
  return rates.map((rate) => {
    const own = runs.filter((run) => run.rate === rate)
    return [rate, mean(own.map((run) => run.program_token_latency_ms.mean))]
  })
}
