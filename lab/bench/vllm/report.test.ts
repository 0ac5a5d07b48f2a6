import { describe, expect, test } from 'vitest'
import { comparisonReport } from '../comparison.ts'
import { decisionGoal, faultOf, VLLM_COMPARISON } from './report.ts'
import type { VllmRun } from './runs.ts'
import { nameOf, type SchedulerName } from './schedulers.ts'

type Given = SchedulerName & Partial<VllmRun> & { mean: number }

function run({ mean, ...given }: Given): VllmRun {
  const latency = { mean, p50: mean, p95: 2 * mean, p99: 3 * mean }
  const ours = given.scheduler === 'switchyard'
  return {
    ...{ workload: 'chats', name: nameOf(given), seed: 1, makespan_s: 50, preemptions: 9, cached_prompt_share: 0.5 },
    ...{ program_token_latency_ms: latency, program_latency_s: latency, ttft_ms: 70, tpot_ms: 8 },
    program_token_latency_ms_by_kind: { short_chat: mean, long_chat: mean, tree: mean },
    ...{ decision_ms_per_step: ours ? 0.5 : null, steps: ours ? 1000 : null },
    ...{ swapped_out_tokens: null, swapped_in_tokens: null, recomputed_tokens: null, handled: null },
    ...given,
  }
}

const RUNS = [
  run({ scheduler: 'stock-fcfs', policy: 'fcfs', mean: 100 }),
  run({ scheduler: 'stock-priority', policy: 'plas', mean: 80 }),
  run({ scheduler: 'switchyard', policy: 'plas', mean: 40 }),
  run({ scheduler: 'switchyard', policy: 'fcfs-program', mean: 50 }),
]

test('the report compares with stock vLLM, with the gateway and with the queue of programs', () => {
  const text = comparisonReport(RUNS, VLLM_COMPARISON, { chats: 'Of chats', react: '', trees: '' })
  expect(text).toContain('decision ms/step')
  for (const base of ['stock-fcfs', 'stock-priority', 'fcfs-program']) expect(text).toContain(`mean ÷ ${base}`)
  expect(text).toMatch(/chats +plas +mean ÷ stock-priority +0\.75 +0\.500 +met/)
})

test('decisions are a share of a step, and unknown where nothing has a plug-in', () => {
  expect(decisionGoal(RUNS)).toBe('Decisions, share of a step: 0.010, goal at most 0.02: met')
  expect(decisionGoal(RUNS.slice(0, 2))).toBeNull()
})

test('runs of chats in which plas preempts no call are worth nothing; where KV is scarce they may be', () => {
  expect(faultOf(RUNS)).toBeNull()
  const idle = run({ scheduler: 'switchyard', policy: 'plas', seed: 3, mean: 1, preemptions: 0 })
  expect(faultOf([...RUNS, idle])).toContain('seed 3')
  expect(faultOf([...RUNS, { ...idle, workload: 'react' }])).toBeNull()
})

describe('the swap beside recompute', () => {
  const writers = { workload: 'writers', swapped_in_tokens: 900 } as const
  const RECOMPUTE = run({ ...writers, scheduler: 'switchyard', policy: 'plas', mean: 40 })
  const SWAP = run({ ...writers, scheduler: 'switchyard-swap', policy: 'plas', mean: 30, makespan_s: 51 })

  test('is reported with the tokens that it brought back, and must be no slower in mean and makespan', () => {
    const text = comparisonReport([RECOMPUTE, SWAP], VLLM_COMPARISON, {})
    expect(text).toMatch(/plas-swap .* 900$/m)
    expect(text).toMatch(/writers +plas-swap +mean ÷ plas +1\.00 +0\.750 +met/)
    expect(text).toMatch(/writers +plas-swap +makespan ÷ plas +1\.00 +1\.020 +missed/)
  })

  test('is worth nothing if it swapped nothing', () => {
    expect(faultOf([RECOMPUTE, SWAP])).toBeNull()
    expect(faultOf([RECOMPUTE, { ...SWAP, swapped_in_tokens: 0 }])).toContain('swapped nothing')
    expect(faultOf([RECOMPUTE, { ...SWAP, workload: 'chats', swapped_in_tokens: 0, preemptions: 3 }])).toBeNull()
  })
})
