import { expect, test } from 'vitest'
import { type ComparedRun, comparisonReport, goalsOf, namesOf, ratios } from './comparison.ts'
import { policiesPlot } from './policies-plot.ts'

type Given = Pick<ComparedRun, 'name' | 'seed'> &
  Partial<Pick<ComparedRun, 'workload' | 'makespan_s'>> & { mean: number; long?: number }

function run({ mean, long = mean, workload = 'react', makespan_s = 50, ...given }: Given): ComparedRun {
  return {
    ...{ ...given, workload, makespan_s, preemptions: 9, cached_prompt_share: 0.5, ttft_ms: 70, tpot_ms: 8 },
    program_token_latency_ms: { mean, p50: mean, p95: 2 * mean, p99: 3 * mean },
    program_token_latency_ms_by_kind: { short_react: mean, long_react: long },
  }
}

const RUNS = [
  run({ name: 'stock-fcfs', seed: 1, mean: 100 }),
  run({ name: 'plas', seed: 1, mean: 40, long: 100 }),
  run({ name: 'plas', seed: 2, mean: 60, long: 240, makespan_s: 54 }),
  run({ name: 'stock-fcfs', seed: 2, mean: 200 }),
  run({ name: 'stock-priority', seed: 2, mean: 50 }),
  run({ name: 'plas', seed: 1, mean: 10, workload: 'trees' }),
]
const COMPARISON = { base: 'stock-fcfs', gateway: 'stock-priority', extra: [] }
const HEADINGS = { chats: 'Of chats', react: 'Of react', trees: 'Of trees' }

test('ratios are of the same workload and seed, and of seeds that both played', () => {
  expect(ratios(RUNS, 'plas', 'stock-fcfs', (one) => one.program_token_latency_ms.mean)).toEqual([0.4, 0.3])
  expect(ratios(RUNS, 'plas', 'stock-priority', (one) => one.program_token_latency_ms.mean)).toEqual([1.2])
  expect(ratios(RUNS, 'atlas', 'stock-fcfs', (one) => one.makespan_s)).toEqual([])
  expect(namesOf(RUNS)).toEqual(['stock-fcfs', 'plas', 'stock-priority'])
})

test('goals of the plas family say what was met and missed, seed by seed, and name the worst kind', () => {
  const goals = goalsOf(RUNS, COMPARISON).map(({ what, bound, by_seed, met }) => ({ what, bound, by_seed, met }))
  expect(goals).toEqual([
    { what: 'mean ÷ stock-fcfs', bound: 0.4, by_seed: [0.4, 0.3], met: true },
    { what: 'mean ÷ stock-priority', bound: 0.75, by_seed: [1.2], met: false },
    { what: 'worst kind, long_react ÷ stock-fcfs', bound: 1.1, by_seed: [1, 1.2], met: true },
    { what: 'makespan ÷ stock-fcfs', bound: 1.05, by_seed: [1, 1.08], met: true },
  ])
})

test('a goal that is exceeded in the mean is missed', () => {
  const slow = [run({ name: 'stock-fcfs', seed: 1, mean: 100 }), run({ name: 'atlas', seed: 1, mean: 41, long: 111 })]
  expect(goalsOf(slow, COMPARISON).map(({ name, met }) => [name, met])).toEqual([
    ['atlas', false],
    ['atlas', false],
    ['atlas', true],
  ])
})

test('a policy outside the plas family, or without a base, has no goals', () => {
  const others = [run({ name: 'stock-fcfs', seed: 1, mean: 9 }), run({ name: 'fcfs-program', seed: 1, mean: 3 })]
  expect(goalsOf(others, COMPARISON)).toEqual([])
  expect(goalsOf([run({ name: 'plas', seed: 1, mean: 9 })], COMPARISON)).toEqual([])
})

test('the report has a part for each workload that was played, ratios by kind and seed, and the goals', () => {
  const text = comparisonReport(RUNS, COMPARISON, HEADINGS)
  expect(text).not.toContain('Of chats')
  expect(text.indexOf('Of react')).toBeLessThan(text.indexOf('Of trees'))
  expect(text).toContain('Mean by kind ÷ stock-fcfs (by seed):')
  expect(text).toContain('1.10 (1.00 1.20)')
  expect(text).toMatch(/react +plas +mean ÷ stock-fcfs +0\.40 +0\.350 \(0\.400 0\.300\) +met/)
  expect(text).toMatch(/react +plas +mean ÷ stock-priority +0\.75 +1\.200 +missed/)
})

test('columns of one benchmark stay empty where a run has no such figure', () => {
  const extra = [{ title: 'steps', digits: 0, figure: (one: ComparedRun) => (one.name === 'plas' ? 77 : null) }]
  const text = comparisonReport(RUNS, { ...COMPARISON, extra }, HEADINGS)
  expect(text).toMatch(/cached % +steps/)
  expect(text.match(/\b77\b/g)).toHaveLength(2)
})

test('the plot has a panel for each workload', () => {
  const svg = policiesPlot(RUNS)
  expect(svg).toContain('<title>Program token latency by policy')
  expect(svg).toContain('react, ms per token')
  expect(svg).toContain('trees, ms per token')
  expect(svg).not.toContain('chats, ms per token')
})
