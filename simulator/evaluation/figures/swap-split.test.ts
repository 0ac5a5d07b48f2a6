/** Read from outcomes that are made up: the kernel's effect and that of N come apart, and a full link is said. */
import { expect, test } from 'vitest'
import type { Scope } from '../figure.ts'
import { Runs } from '../runs/run-chains.ts'
import type { RunOutcome } from '../runs/run-outcome.ts'
import type { RunSpec } from '../runs/run-spec.ts'
import { FIGURE_19 } from './figure-19.ts'

const SCOPE: Scope = { seeds: [1], quick: true }
const CALLS = 1000

function read(given: (spec: RunSpec) => { swaps?: number; makespan_s?: number; swap_s?: number }) {
  const runs = new Runs()
  for (const spec of FIGURE_19.chains(SCOPE).flatMap(({ steps }) => steps.flat())) {
    const { swaps = 100, makespan_s = 100, swap_s = 10 } = given(spec)
    const tokens = { output_tokens: 10_000, swapped_out_tokens: 1000 * swaps, swapped_in_tokens: 1000 * swaps }
    const outcome = { ...tokens, calls: CALLS, swaps, makespan_s, swap_s, busy_s: 100, recomputed_tokens: 0 }
    runs.add(spec, { ...outcome, token_latency_ms: { mean: makespan_s } } as RunOutcome)
  }
  return FIGURE_19.read(runs, SCOPE)
}

const isGather = ({ swap_kernel }: RunSpec) => swap_kernel === 'gather'

test('what the kernel gains is told apart from what N gains', () => {
  const { shows, paper } = read((spec) => ({
    makespan_s: 100 / ((isGather(spec) ? 2 : 1) * (spec.steps_per_decision === 10 ? 1.5 : 1)),
    swaps: spec.steps_per_decision === 10 ? 10 : 90,
    swap_s: isGather(spec) ? 1 : 20,
  }))
  const gains = '1.5× and 0.667× with N steps, 2× and 0.5× with kernel and 3× and 0.333× with both'
  expect(shows.filter((text) => text.includes(gains))).toHaveLength(3)
  const claims = new Map(paper?.map(({ claim, ours }) => [claim, ours?.mean]))
  expect(claims.get('RR: fewer swaps by deciding once in 10 steps')).toBe(9)
  expect(claims.get('RR: how much less time steps lose to a swap by the kernel')).toBe(20)
  expect(claims.get('RR: throughput by both')).toBeCloseTo(3)
})

test('a gain below the paper’s is a loss, and one above is none', () => {
  const losses = (gain: number) =>
    read((spec) => ({ makespan_s: isGather(spec) ? 100 / gain : 100 })).losses.filter((text) => text.includes('both'))
  expect(losses(1.2)).toHaveLength(3)
  expect(losses(1.4)).toEqual([])
})

test('a run whose copies do not fit through the link is named', () => {
  const overfull = (swaps: number) =>
    read((spec) => ({ swaps: spec.system === 'rr' && isGather(spec) ? swaps : 100 })).losses.filter((text) =>
      text.includes('fill the link'),
    )
  // 1,000 tokens a swap at 2.6 us each, in 100 s.
  expect(overfull(30_000)).toEqual([])
  expect(overfull(50_000)).toEqual([
    expect.stringMatching(/^RR, N = 1, one gather: .* 12\d % of the makespan/),
    expect.stringContaining('RR, N = 10'),
  ])
})
