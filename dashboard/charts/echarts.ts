/** The parts of ECharts that the page uses, and how its charts look. */
import { LineChart } from 'echarts/charts'
import { GridComponent, TooltipComponent } from 'echarts/components'
import { type EChartsType, init, use } from 'echarts/core'
import { CanvasRenderer } from 'echarts/renderers'

use([LineChart, GridComponent, TooltipComponent, CanvasRenderer])

/** Colours and font of the page, so that a chart follows dark and light. Only a property in use has its value worked out. */
export function look(element: HTMLElement) {
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
    /** Of lines, in this order. */
    lines: ['--accent', '--wait', '--tool', '--prefill', '--swapped', '--preempted'].map(of),
  }
}

/** A line of a chart, for the legend that is text of the page. */
export interface LegendItem {
  name: string
  color: string
  isDashed?: boolean
}

export interface Chart<T> {
  show: (data: T) => readonly LegendItem[]
  close: () => void
}

/** Rich text is drawn, never parsed as HTML: names come from clients. */
export const TOOLTIP = { trigger: 'item', renderMode: 'richText', confine: true } as const
export type Options = Parameters<EChartsType['setOption']>[0]

/** A chart in `element` that is as wide as it. */
export function chartIn(element: HTMLElement): { chart: EChartsType; close: () => void } {
  const chart = init(element)
  const observer = new ResizeObserver(() => chart.resize({ width: element.clientWidth }))
  observer.observe(element)
  const close = () => {
    observer.disconnect()
    chart.dispose()
  }
  return { chart, close }
}
