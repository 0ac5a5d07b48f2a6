import { expect, it } from 'vitest'
import type { ApplicationPlan } from '../../gpu-agent/planner/plan.ts'
import { ganttChart } from '../../src/core/plot/gantt.ts'
import { idleGpuSeconds, planGantt } from './plan-gantt.ts'

const one = { dp: 1, tp: 1 }
const plan: ApplicationPlan = {
  total_s: 20,
  stages: [
    {
      start_s: 0,
      end_s: 10,
      nodes: [
        { node: 0, plan: one, loading_s: 4, gpus: [[0]], finishes: false, busy_gpu_s: 6 },
        { node: 1, plan: { dp: 1, tp: 2 }, loading_s: 3, gpus: [[2, 3]], finishes: true, busy_gpu_s: 14 },
      ],
    },
    {
      start_s: 10,
      end_s: 20,
      nodes: [{ node: 0, plan: one, loading_s: null, gpus: [[0]], finishes: true, busy_gpu_s: 9 }],
    },
  ],
}

it('draws a node that goes on as one bar, and every GPU of a replica', () => {
  const { bars } = planGantt(plan, { title: 'a < b', nodes: ['first', 'second'], gpus: 4 })
  expect(bars).toEqual([
    { row: 0, node: 0, start_s: 0, end_s: 20, pale_s: 4 },
    { row: 2, node: 1, start_s: 0, end_s: 10, pale_s: 3 },
    { row: 3, node: 1, start_s: 0, end_s: 10, pale_s: 3 },
  ])
})

it('counts as idle what neither computes nor loads', () => {
  expect(idleGpuSeconds(plan, 4)).toBe(80 - (6 + 4) - (14 + 6) - 9)
})

it('is an SVG with escaped text and a bar for loading and one for computing', () => {
  const svg = ganttChart(planGantt(plan, { title: 'a < b', nodes: ['first', 'second'], gpus: 4 }))
  expect(svg).toContain('a &lt; b')
  expect(svg.match(/fill-opacity="0.35"/g)).toHaveLength(3)
  expect(svg.match(/fill-opacity="1"/g)).toHaveLength(3)
  expect(svg).toContain('2 second')
})
