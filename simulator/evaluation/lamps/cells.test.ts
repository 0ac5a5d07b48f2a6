import { expect, test } from 'vitest'
import type { PaperRow } from '../figure.ts'
import { Runs } from '../runs/run-chains.ts'
import type { RunOutcome } from '../runs/run-outcome.ts'
import { goalOf, learnedLosses, paperRows, worstLearned } from './cells.ts'
import { LAMPS_FIGURES } from './index.ts'
import { DATASET_NAMES, lampsSpec, loadsOf, MODEL_NAMES, type Point, ROWS, rateAt } from './setting.ts'

const SCOPE = { seeds: [1, 2], quick: true }
const POINTS: Point[] = MODEL_NAMES.flatMap((model) =>
  DATASET_NAMES.flatMap((dataset) => loadsOf(SCOPE).map((load) => ({ model, dataset, load }))),
)

function outcome(latency_s: number, completed_per_s: number): RunOutcome {
  const summary = { mean: latency_s, p50: latency_s, p95: latency_s, p99: latency_s }
  // A quarter of the time is tools, a quarter is computed.
  const times = { programs: 100, service_s: 25 * latency_s, wait_s: 50 * latency_s }
  return { response_s: summary, ttft_s: summary, completed_per_s, ...times } as RunOutcome
}

/** Every run of the row ended like that. */
function played(outcomes: Readonly<Partial<Record<keyof typeof ROWS, RunOutcome>>>): Runs {
  const runs = new Runs()
  for (const [name, ended] of Object.entries(outcomes)) {
    for (const point of POINTS) {
      for (const seed of SCOPE.seeds) runs.add(lampsSpec(point, ROWS[name as keyof typeof ROWS], seed, SCOPE), ended)
    }
  }
  return runs
}

test('a change of latency reaches the paper from below, one of throughput from above', () => {
  const row = (claim: string, ours: number): PaperRow => ({
    ...{ claim, paper: claim.includes('throughput') ? 46.81 : -91.27, unit: '%' },
    ours: { mean: ours, half_width: null, samples: 1 },
  })
  expect(goalOf(row('mean TTFT', -91.27))).toBe(true)
  expect(goalOf(row('mean TTFT', -91.2))).toBe(false)
  expect(goalOf(row('throughput', 46.81))).toBe(true)
  expect(goalOf(row('throughput', 46.8))).toBe(false)
  expect(goalOf({ ...row('throughput', 1), paper: null })).toBe(true)
})

test('cells are changes in percent, of the loads that are played', () => {
  const runs = played({ lamps: outcome(5, 3), infercept: outcome(10, 2), vllm: outcome(20, 1) })
  const rows = paperRows(runs, SCOPE)
  const of = (text: string) => rows.filter(({ claim }) => claim.includes(text)).map(({ ours }) => ours?.mean)
  expect(new Set(of('mean latency of LAMPS against InferCept'))).toEqual(new Set([-50]))
  expect(new Set(of('mean TTFT of LAMPS against vLLM'))).toEqual(new Set([-75]))
  expect(new Set(of('throughput of LAMPS against InferCept'))).toEqual(new Set([50]))
})

test('a cell that is missed says what its baseline waits for, and one that is reached says nothing', () => {
  const rows = paperRows(played({ lamps: outcome(5, 0.4), infercept: outcome(10, 0.3), vllm: outcome(20, 0.2) }), SCOPE)
  for (const row of rows) expect(row.why === null).toBe(goalOf(row))
  const whyOf = (text: string) => rows.find(({ claim, why }) => claim.includes(text) && why !== null)?.why
  expect(whyOf('rate 5 (load 1.4): mean latency of LAMPS against InferCept')).toBe(
    'Of InferCept’s latency 25 % are tools, 25 % steps in which the program is computed and 50 % waiting, of which 50 % are taken away. Programs arrive for 4 minutes, and the queue of an overload grows for as long.',
  )
  expect(whyOf('rate 5 (load 1.4): mean TTFT of LAMPS against InferCept')).toMatch(
    /^InferCept’s TTFT is 10.0 s and 5.0 s are left of it \(medians 10.0 and 5.0 s\)/,
  )
  expect(whyOf('throughput of LAMPS against InferCept')).toMatch(/72 % of the programs .* under InferCept, and 96 %/)
  const idle = paperRows(played({ lamps: outcome(0.5, 1), infercept: outcome(0.5, 1), vllm: outcome(0.5, 1) }), SCOPE)
  expect(idle.find(({ claim }) => claim.includes('mean TTFT'))?.why).toMatch(/a program waits for 0.50 s here/)
})

test('learned forecasts are worse where a metric is more than 2 % worse', () => {
  const better = played({ 'lamps-learned': outcome(5, 3), infercept: outcome(10, 2) })
  expect(worstLearned(better, POINTS, SCOPE, ROWS['lamps-learned'])).toMatchObject({ beyond: 0, of: 5 * POINTS.length })
  const slower = played({ 'lamps-learned': outcome(10.3, 2), infercept: outcome(10, 2) })
  const worst = worstLearned(slower, POINTS, SCOPE, ROWS['lamps-learned'])
  expect(worst.percent).toBeCloseTo(3)
  expect(worst.beyond).toBe(4 * POINTS.length)
})

test('where learned forecasts are worse, what they cost is said from the runs', () => {
  const infercept = { ...outcome(10, 2), ...memory(0.8, 100, 100) }
  const slower = played({ 'lamps-learned': { ...outcome(12, 2), ...memory(0.4, 200, 100) }, infercept })
  const losses = learnedLosses(slower, POINTS, SCOPE, ROWS['lamps-learned'])
  expect(losses).toHaveLength(POINTS.length)
  expect(losses[0]).toMatch(
    /worse than InferCept by mean latency 20 %, .* It keeps 200 contexts, of which 100 are returned to \(InferCept: 100 and 100\)\. 40 % of its prompts are cached, and 80 % of InferCept’s\./,
  )
  const alike = played({ 'lamps-learned': infercept, infercept })
  expect(learnedLosses(alike, POINTS, SCOPE, ROWS['lamps-learned'])).toEqual([])
})

/** Half of the contexts are pinned, the others moved out. */
function memory(cached_share: number, decided: number, returned: number) {
  const counts = { decided: decided / 2, returned: returned / 2, context_tokens: 0, cached_tokens: 0 }
  const none = { decided: 0, returned: 0, context_tokens: 0, cached_tokens: 0 }
  return {
    ...{ prompt_tokens: 1_000, cached_tokens: 1_000 * cached_share },
    tools: { preserve: counts, swap: counts, discard: none } as RunOutcome['tools'],
  }
}

test('rates follow from loads, and figures have names of their own', () => {
  expect(rateAt({ model: 'gpt-j', dataset: 'multi', load: 1 })).toBeGreaterThan(
    rateAt({ model: 'vicuna', dataset: 'multi', load: 1 }),
  )
  expect(new Set(LAMPS_FIGURES.map(({ id }) => id)).size).toBe(LAMPS_FIGURES.length)
})
