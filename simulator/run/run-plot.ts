/** Mean program token latency against the rate, a line for each policy, balancer and number of engines, mean over seeds: an SVG. */
import * as echarts from 'echarts'
import { labelled } from '../evaluation/plots/chart.ts'
import { mean } from '../statistics.ts'
import type { RunResult } from './run-result.ts'

/** Narrow, so that text can still be read where a phone shows it at 390 pixels. */
const WIDTH = 560
const PLOT_HEIGHT = 300
const TOP = 76
const AXIS_HEIGHT = 56
const LEGEND_COLUMNS = 3
const LEGEND_ROW_HEIGHT = 24
const DASHES = ['solid', 'dashed', 'dotted', [8, 3, 2, 3], [2, 5]] as const
/** Latencies that differ by more are told apart on a log scale only. */
const LINEAR_RATIO_MAX = 10

/** A colour for each policy, a dash for each balancer, number of engines and place of the order. */
export function runPlot(runs: readonly RunResult[]): string {
  const policies = [...new Set(runs.map(({ policy }) => policy))]
  const balancers = new Set(runs.map(({ balancer }) => balancer))
  const sizes = new Set(runs.map(({ engines }) => engines))
  const fronts = new Set(runs.map(({ front }) => front))
  const systems = [...balancers].flatMap((balancer) =>
    [...sizes].flatMap((engines) => [...fronts].map((front) => ({ balancer, engines, front }))),
  )
  const lines = systems.flatMap(({ balancer, engines, front }, dash) =>
    policies.map((policy, colour) => ({
      name: [
        ...[policy, ...(balancers.size > 1 ? [balancer] : []), ...(sizes.size > 1 ? [`${engines} engines`] : [])],
        ...(fronts.size > 1 ? [front === 'queue' ? 'in the queue' : 'in the engine'] : []),
      ].join(', '),
      ...{ colour, dash: DASHES[dash % DASHES.length] as (typeof DASHES)[number] },
      points: lineOf(
        runs.filter(
          (run) => run.policy === policy && run.balancer === balancer && run.engines === engines && run.front === front,
        ),
      ),
    })),
  )
  const legend_height = Math.ceil(lines.length / LEGEND_COLUMNS) * LEGEND_ROW_HEIGHT
  const height = TOP + PLOT_HEIGHT + AXIS_HEIGHT + legend_height
  const chart = echarts.init(null, null, { renderer: 'svg', ssr: true, width: WIDTH, height })
  chart.setOption({
    backgroundColor: '#ffffff',
    animation: false,
    title: { text: 'Program token latency (lower is better)', subtext: 'mean over programs and seeds', left: 'center' },
    legend: { top: TOP + PLOT_HEIGHT + AXIS_HEIGHT, left: 'center', data: lines.map(({ name }) => name) },
    grid: { left: 56, right: 24, top: TOP, height: PLOT_HEIGHT },
    xAxis: {
      ...{ type: 'value', name: 'programs per second', nameLocation: 'middle', nameGap: 28 },
      ...{ min: 'dataMin', max: 'dataMax' },
    },
    yAxis: latencyAxis(lines.flatMap(({ points }) => points.map(([, latency_ms]) => latency_ms))),
    series: lines.map(({ name, colour, dash, points }) => ({
      ...{ name, type: 'line', symbolSize: 7, data: points },
      itemStyle: { color: COLOURS[colour % COLOURS.length] },
      lineStyle: { type: dash, width: 2 },
    })),
  })
  const svg = labelled(chart.renderToSVGString(), 'Mean program token latency against the rate of programs')
  chart.dispose()
  return svg
}

/** Okabe and Ito's, which colour-blind people tell apart. */
const COLOURS = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9', '#000000']

function latencyAxis(latencies_ms: readonly number[]): object {
  const log = Math.max(...latencies_ms) > LINEAR_RATIO_MAX * Math.min(...latencies_ms)
  return {
    type: log ? 'log' : 'value',
    name: `ms per token${log ? ' (log)' : ''}`,
    nameGap: 14,
    min: log ? undefined : 0,
  }
}

function lineOf(runs: readonly RunResult[]): [number, number][] {
  const rates = [...new Set(runs.map(({ rate }) => rate))].sort((a, b) => a - b)
  return rates.map((rate) => {
    const own = runs.filter((run) => run.rate === rate)
    return [rate, mean(own.map((run) => run.program_token_latency_ms.mean))]
  })
}
