/** What a capacity plan played: response times by the number of engines. */
import type { Measure, PlanResult } from '../planning/messages.ts'
import { type Chart, chartIn, look, type Options, TOOLTIP } from './echarts.ts'

const TARGET = 'target'

export interface FleetsShown {
  result: PlanResult
  measure: Measure
  at_most: number
}

/** The 95th percentile by number of engines, a line for each fleet, with the target. */
export function fleets(element: HTMLElement): Chart<FleetsShown> {
  const { chart, close } = chartIn(element)
  return {
    show: ({ result, measure, at_most }) => {
      const { text, quiet, line, font, lines } = look(element)
      const sizes = [...new Set(result.fleets.flatMap(({ played }) => played.map(({ engines }) => engines)))]
      sizes.sort((a, b) => a - b)
      const named = result.fleets.map(({ policy, balancer, played }, at) => ({
        ...{ name: `${policy}, ${balancer}`, color: lines[at % lines.length] ?? text, played },
      }))
      chart.setOption({
        textStyle: { fontFamily: font, color: text },
        animation: false,
        grid: { left: 8, right: 16, top: 36, bottom: 32, containLabel: true },
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
          ...named.map(({ name, color, played }) => ({
            ...{ name, type: 'line' as const, color },
            data: played.map(({ engines, p95 }) => [String(engines), Number(p95.toPrecision(4))]),
          })),
          {
            ...{ name: TARGET, type: 'line' as const, color: quiet, showSymbol: false },
            lineStyle: { type: 'dashed' },
            data: sizes.map((engines) => [String(engines), at_most]),
          },
        ],
      } as Options)
      return [...named, { name: TARGET, color: quiet, isDashed: true }]
    },
    close,
  }
}
