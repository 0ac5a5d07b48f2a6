/** Bars of mean program token latency by workload and policy, with the seeds as dots: an SVG for docs/benchmarks.md. */
import * as echarts from 'echarts'
import { labelled } from '../../simulator/evaluation/plots/chart.ts'
import { mean } from '../../simulator/statistics.ts'
import { type ComparedRun, namesOf, workloadsOf } from './comparison.ts'
import type { WorkloadName } from './workload.ts'

const WIDTH = 760
const TITLE_HEIGHT = 60
const PANEL_HEIGHT = 320
/** Under a panel's bars: the names of the policies; over them: that of the axis. */
const PANEL_MARGIN = { top: 40, bottom: 40 }
const LEGEND_HEIGHT = 30
const SERIES = [
  { name: 'mean', color: '#2563eb', ink: '#ffffff', of: (run: ComparedRun) => run.program_token_latency_ms.mean },
  { name: 'p95', color: '#f59e0b', ink: '#111827', of: (run: ComparedRun) => run.program_token_latency_ms.p95 },
] as const

/** A panel for each workload, one above the other: their latencies differ too much for one axis. */
export function policiesPlot(runs: readonly ComparedRun[]): string {
  const workloads = workloadsOf(runs)
  const height = TITLE_HEIGHT + workloads.length * PANEL_HEIGHT + LEGEND_HEIGHT
  const chart = echarts.init(null, null, { renderer: 'svg', ssr: true, width: WIDTH, height })
  const panels = workloads.map((workload, index) => panelOf(workload, index, runs))
  chart.setOption({
    backgroundColor: '#ffffff',
    animation: false,
    title: {
      text: 'Program token latency by policy (lower is better)',
      subtext: 'bars: mean over seeds; dots: each seed',
      left: 'center',
    },
    legend: { bottom: 0, data: SERIES.map(({ name }) => name) },
    grid: panels.map(({ grid }) => grid),
    xAxis: panels.map(({ xAxis }) => xAxis),
    yAxis: panels.map(({ yAxis }) => yAxis),
    series: panels.flatMap(({ series }) => series),
  })
  const svg = labelled(chart.renderToSVGString(), 'Program token latency by policy: mean and p95 of each workload')
  chart.dispose()
  return svg
}

function panelOf(workload: WorkloadName, index: number, all: readonly ComparedRun[]) {
  const runs = all.filter((run) => run.workload === workload)
  const names = namesOf(runs)
  const top = TITLE_HEIGHT + index * PANEL_HEIGHT + PANEL_MARGIN.top
  const axes = { xAxisIndex: index, yAxisIndex: index }
  return {
    grid: { left: 70, right: 20, top, height: PANEL_HEIGHT - PANEL_MARGIN.top - PANEL_MARGIN.bottom },
    xAxis: { type: 'category' as const, data: names, gridIndex: index },
    yAxis: { type: 'value' as const, name: `${workload}, ms per token`, nameGap: 14, gridIndex: index },
    series: SERIES.flatMap(({ name, color, ink, of }, place) => [
      {
        ...{ name, color, ...axes },
        type: 'bar' as const,
        data: names.map((one) => Math.round(mean(runs.filter((run) => run.name === one).map(of)))),
        // At the foot of the bar: the seeds' dots are about its head.
        label: { show: true, position: 'insideBottom' as const, color: ink },
      },
      {
        ...{ name: `${name}, each seed`, ...axes },
        type: 'scatter' as const,
        symbolSize: 6,
        symbolOffset: [place === 0 ? -34 : 34, 0],
        itemStyle: { color: '#111827' },
        data: runs.map((run) => [run.name, of(run)]),
      },
    ]),
  }
}
