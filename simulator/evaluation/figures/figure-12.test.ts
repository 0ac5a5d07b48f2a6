/** Sentences follow the data: read from outcomes that are made up, they change with them. */
import { expect, test } from 'vitest'
import type { Scope } from '../figure.ts'
import { Runs } from '../runs/run-chains.ts'
import type { RunOutcome } from '../runs/run-outcome.ts'
import { FIGURE_12, mainSweeps } from './figure-12.ts'
import { sweepSpec } from './sweep.ts'

const SCOPE: Scope = { seeds: [1, 2], quick: true }

/** Latency grows with the rate, by a factor of its own for each system. */
function runsWith(slope: (system: string) => number): Runs {
  const runs = new Runs()
  for (const { sweeps } of mainSweeps(SCOPE)) {
    for (const sweep of sweeps) {
      for (const rate of sweep.rates) {
        const mean = 10 + slope(sweep.system) * rate
        const outcome = {
          token_latency_ms: { mean, p50: mean, p95: mean, p99: mean },
          cached_tokens: 1,
          prompt_tokens: 4,
        } as RunOutcome
        for (const seed of SCOPE.seeds) runs.add(sweepSpec(sweep, rate, seed), outcome)
      }
    }
  }
  return runs
}

const SLOPES: Record<string, number> = { vllm: 400, 'vllm-opt': 200, mlfq: 150, rr: 300, plas: 50, atlas: 50 }

test('ratios are those of the curves', () => {
  const { paper } = FIGURE_12.read(
    runsWith((system) => SLOPES[system] ?? 0),
    SCOPE,
  )
  const row = paper?.find(({ claim }) => claim === 'Mixed (equal shares): throughput over vLLM-opt')
  expect(row?.paper).toBe(4)
  expect(row?.ours?.mean).toBeCloseTo(4, 5)
  expect(row?.ours?.half_width).toBeCloseTo(0, 5)
})

test('where another order serves more, it is said; where none does, it is not', () => {
  const winning = FIGURE_12.read(
    runsWith((system) => SLOPES[system] ?? 0),
    SCOPE,
  )
  expect(winning.losses.filter((text) => text.includes('serves more'))).toEqual([])
  const losing = FIGURE_12.read(
    runsWith((system) => (system === 'mlfq' ? 25 : (SLOPES[system] ?? 0))),
    SCOPE,
  )
  const behind = losing.losses.filter((text) => text.includes('MLFQ serves more than PLAS'))
  expect(behind.length).toBeGreaterThan(0)
  expect(behind.every((text) => text.includes('2×'))).toBe(true)
})

test('a claim of the paper that is missed is a loss, with both figures', () => {
  const { losses } = FIGURE_12.read(
    runsWith((system) => (system === 'vllm-opt' ? 75 : (SLOPES[system] ?? 0))),
    SCOPE,
  )
  expect(losses).toContain("Mixed (equal shares): throughput over vLLM-opt: the paper's 4× is not reached (1.5×).")
})
