import { expect, it } from 'vitest'
import { ganttChart } from './gantt.ts'

const EMPTY = { title: '<b>', rows: ['node'], nodes: ['node'], bars: [], end_s: 0 }

it('draws a chart in which nothing has happened yet', () => {
  const svg = ganttChart(EMPTY)
  expect(svg).toContain('&lt;b&gt;')
  expect(svg).not.toMatch(/NaN|Infinity/)
})

it('draws bars with their pale part, and ticks in whole steps', () => {
  const svg = ganttChart({ ...EMPTY, end_s: 10, bars: [{ row: 0, node: 0, start_s: 0, end_s: 10, pale_s: 4 }] })
  expect(svg.match(/fill-opacity="(0\.35|1)"/g)).toEqual(['fill-opacity="0.35"', 'fill-opacity="1"'])
  expect([...svg.matchAll(/>(\d+)<\/text>/g)].map(([, tick]) => tick)).toEqual(['1', '0', '2', '4', '6', '8', '10'])
})
