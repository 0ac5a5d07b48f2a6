/** Bars by category, beside each other or stacked, with 95 % confidence bars where bars are not stacked. */
import type { Interval } from '../statistics/interval.ts'
import { axis, drawPanel, FONT, INK } from './chart.ts'
import { short } from './line-chart.ts'

export interface Bars {
  name: string
  color: string
  /** One for each category; null: none. */
  values: readonly (Interval | null)[]
}

export interface BarChart {
  title: string
  y: string
  y_log?: boolean
  x?: string
  stacked?: boolean
  categories: readonly string[]
  bars: readonly Bars[]
}

export function barChart(chart: BarChart): string {
  const { bars, categories } = chart
  return drawPanel(
    { title: chart.title, legend: bars.length > 1 ? bars.map(({ name }) => name) : [] },
    {
      xAxis: axis(chart.x ?? '', 'category', {
        ...{ data: categories, nameLocation: 'middle', nameGap: 24 },
        axisLabel: { ...FONT, interval: 0, width: 340 / categories.length, overflow: 'break' },
      }),
      yAxis: axis(chart.y, chart.y_log ? 'log' : 'value', {
        ...{ nameGap: 8, nameTextStyle: { ...FONT, align: 'left', padding: [0, 0, 0, -44] } },
        axisLabel: { ...FONT, formatter: short },
      }),
      series: [
        ...bars.map(({ name, color, values }) => ({
          ...{ name, type: 'bar', itemStyle: { color }, barGap: '8%', barCategoryGap: '28%' },
          ...(chart.stacked ? { stack: 'all' } : {}),
          data: values.map((value) => value?.mean ?? '-'),
        })),
        ...(chart.stacked ? [] : bars.map((one, at) => whiskers(one, at, bars.length))),
      ],
    },
  )
}

function whiskers({ name, values }: Bars, at: number, of: number): object {
  const data = values.flatMap((value, category) =>
    value === null || value.half_width === null
      ? []
      : [[category, Math.max(0, value.mean - value.half_width), value.mean + value.half_width]],
  )
  return {
    ...{ name: `${name}, 95 %`, type: 'custom', silent: true, data, z: 3, encode: { x: 0, y: [1, 2] } },
    renderItem: (
      _: unknown,
      api: { value: (at: number) => number; coord: (point: number[]) => number[]; size: (of: number[]) => number[] },
    ) => {
      const [middle = 0, low = 0] = api.coord([api.value(0), api.value(1)])
      const [, high = 0] = api.coord([api.value(0), api.value(2)])
      const band = (api.size([1, 0])[0] ?? 0) * 0.72
      const x = middle + band * ((at + 0.5) / of - 0.5)
      return { type: 'line', shape: { x1: x, y1: low, x2: x, y2: high }, style: { stroke: INK, lineWidth: 1.2 } }
    },
  }
}
