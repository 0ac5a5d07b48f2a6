import { describe, expect, it } from 'vitest'
import type { CallForecast } from '../../../../../src/core/call/forecast.ts'
import { chargeCall, chargeOf, policyCall } from '../../../testing/policy-calls.ts'
import { policyContract } from '../../policy.contract.ts'
import { type EngineMemory, REFERENCE_MEMORY } from '../../policy.ts'
import { LAMPS, Lamps, type LampsConfig, type LampsPlace, OUTPUT_TOKENS_DEFAULT } from './lamps.ts'
import { memoryOverTime } from './memory-over-time.ts'

const STEP_US = 10_000
const MEMORY: EngineMemory = {
  costs: {
    forward: { base_us: STEP_US, free_tokens: 0, per_token_us: 100, per_pair_us: 0 },
    swap: { base_us: 0, free_tokens: 0, per_token_us: 20, per_pair_us: 0 },
    kv_bytes_per_token: 1_000,
  },
  step_us: STEP_US,
  other_tokens: 9_000,
}

function create(given: Partial<LampsConfig> = {}): Lamps {
  return new Lamps({ ...LAMPS, ...given }, MEMORY)
}

function forecast(output_tokens: number, tool_us: number | null): CallForecast {
  const times = tool_us === null ? null : { duration_us: tool_us, duration_p90_us: tool_us, answer_tokens: 0 }
  const tool = times === null ? null : { name: 'tool', probability: 1, ...times }
  return { output_tokens, ends: tool === null ? 1 : 0, tool, confidence: 1 }
}

policyContract('lamps', () => new Lamps(LAMPS, REFERENCE_MEMORY))
policyContract('lamps, by algorithm 1', () => new Lamps({ ...LAMPS, starvation: 'at_promotion' }, REFERENCE_MEMORY))

describe('memory over time', () => {
  const segment = { prompt_tokens: 100, missing_tokens: 0, output_tokens: 0, output_tokens_left: 10 }

  it('is the area under a context that grows by a token a step', () => {
    const area = (100 * 10 + 55) * (STEP_US / 1e6)
    expect(memoryOverTime(segment, null, MEMORY)).toBeCloseTo(area)
    const written = { ...segment, output_tokens: 4, output_tokens_left: 6 }
    expect(memoryOverTime(written, null, MEMORY)).toBeCloseTo((104 * 6 + 21) * (STEP_US / 1e6))
  })

  it('adds the prompt for as long as it is computed, and what the handling wastes', () => {
    const decoded = memoryOverTime(segment, null, MEMORY)
    expect(memoryOverTime({ ...segment, missing_tokens: 100 }, null, MEMORY) - decoded).toBeCloseTo(0.02 * 100)
    const tool = { handling: 'swap' as const, waste: { preserve: 9_000, discard: 8_000, swap: 7_000 } }
    expect(memoryOverTime(segment, tool, MEMORY) - decoded).toBeCloseTo(7)
  })
})

describe('lamps', () => {
  const arrive = (policy: Lamps, given: Parameters<typeof policyCall>[0], now_us = 0) =>
    policy.arrive(policyCall({ prompt_tokens: 1_000, resident_tokens: 1_000, ...given }), now_us)

  it('decides before a call runs, by what the batch usually has', () => {
    const handlings = [90, 420_000, 20e6].map((tool_us) => {
      const policy = create()
      return policy.handlingOf(arrive(policy, { forecast: forecast(10, tool_us) }))?.handling
    })
    expect(handlings).toEqual(['preserve', 'swap', 'swap'])
    const policy = create()
    expect(policy.handlingOf(arrive(policy, { forecast: forecast(10, null) }))).toBeNull()
    expect(policy.handlingOf(arrive(policy, {}))).toBeNull()
  })

  it('ranks by memory over time: output, context, and what the tool makes of it', () => {
    const rankOf = (given: Parameters<typeof policyCall>[0]) => arrive(create(), given).rank
    expect(rankOf({ forecast: forecast(20, null) })).toBeGreaterThan(rankOf({ forecast: forecast(10, null) }))
    expect(rankOf({ prompt_tokens: 2_000, resident_tokens: 2_000, forecast: forecast(10, null) })).toBeGreaterThan(
      rankOf({ forecast: forecast(10, null) }),
    )
    expect(rankOf({ forecast: forecast(10, 20e6) })).toBeGreaterThan(rankOf({ forecast: forecast(10, 90) }))
    expect(rankOf({})).toBe(rankOf({ forecast: forecast(OUTPUT_TOKENS_DEFAULT, null) }))
  })

  it('scores a call that runs again once in so many tokens, and keeps its score in between', () => {
    const policy = create({ refresh_tokens: 10 })
    const call = policyCall({ forecast: forecast(100, null), prompt_tokens: 10, resident_tokens: 10 })
    const place = policy.arrive(call, 0)
    const first = place.rank
    for (let token = 1; token < 10; token++) {
      expect(chargeCall(policy, call, place, chargeOf(1, 1, 1), token * STEP_US)).toBe(false)
      expect(place.rank).toBe(first)
    }
    expect(chargeCall(policy, call, place, chargeOf(1, 1, 1), 10 * STEP_US)).toBe(true)
    expect(place.rank).toBeLessThan(first)
  })

  describe('a call that waits', () => {
    const starved = 5
    /** `running` takes a step; the others wait. Returns those that were promoted, at the earliest time at which they ask. */
    function step(
      policy: Lamps,
      running: ReturnType<typeof policyCall>,
      at: LampsPlace,
      waiting: LampsPlace,
      now_us: number,
    ) {
      chargeCall(policy, running, at, chargeOf(1, 1, 1), now_us)
      return policy.dueUs(waiting) <= now_us && policy.due(waiting, now_us)
    }

    function promotedAfter(given: Partial<LampsConfig>, steps: number, step_us = STEP_US) {
      const policy = create({ starvation_iterations: starved, ...given })
      const running = policyCall({ lease: 'running', forecast: forecast(100, null) })
      const at = policy.arrive(running, 0)
      const waits = policyCall({ lease: 'waits', prompt_tokens: 4_000, forecast: forecast(400, null) })
      const waiting = policy.arrive(waits, 0)
      let promoted = false
      for (let done = 1; done <= steps; done++)
        promoted = step(policy, running, at, waiting, done * step_us) || promoted
      return { policy, promoted, waiting, at, waits }
    }

    it('goes to the head of the queue after so many iterations, not before', () => {
      expect(promotedAfter({}, starved - 1).promoted).toBe(false)
      const { promoted, waiting, at } = promotedAfter({}, starved)
      expect(promoted).toBe(true)
      expect(waiting.rank).toBeLessThan(at.rank)
    })

    it('counts iterations, however long they last', () => {
      expect(promotedAfter({}, starved - 1, 7 * STEP_US).promoted).toBe(false)
      expect(promotedAfter({}, starved, 7 * STEP_US).promoted).toBe(true)
    })

    it('begins to count again when it runs', () => {
      const policy = create({ starvation_iterations: starved })
      const running = policyCall({ lease: 'running', forecast: forecast(100, null) })
      const at = policy.arrive(running, 0)
      const waits = policyCall({ lease: 'waits', prompt_tokens: 4_000, forecast: forecast(400, null) })
      const waiting = policy.arrive(waits, 0)
      for (let done = 1; done < starved; done++) step(policy, running, at, waiting, done * STEP_US)
      chargeCall(policy, waits, waiting, chargeOf(1, 1, 1), starved * STEP_US)
      for (let done = 1; done < starved; done++) {
        expect(step(policy, running, at, waiting, (starved + done) * STEP_US)).toBe(false)
      }
      expect(step(policy, running, at, waiting, 2 * starved * STEP_US)).toBe(true)
    })

    it('stays there until its program is complete', () => {
      const { policy, waiting, waits, at } = promotedAfter({ starvation: 'until_completion' }, starved)
      chargeCall(policy, waits, waiting, chargeOf(1, 1, 1), 100 * STEP_US)
      expect(waiting.rank).toBeLessThan(at.rank)
      const next = policy.arrive(policyCall({ lease: 'next', prompt_tokens: 9_000 }, waits.program), 200 * STEP_US)
      expect(next.rank).toBeLessThan(at.rank)
    })

    it('or until it has run for an iteration, as in algorithm 1', () => {
      const { policy, waiting, waits, at } = promotedAfter({ starvation: 'at_promotion' }, starved)
      expect(waiting.rank).toBeLessThan(at.rank)
      expect(chargeCall(policy, waits, waiting, chargeOf(1, 1, 1), 100 * STEP_US)).toBe(true)
      expect(waiting.rank).toBeGreaterThan(at.rank)
      const next = policy.arrive(policyCall({ lease: 'next', prompt_tokens: 9_000 }, waits.program), 200 * STEP_US)
      expect(next.rank).toBeGreaterThan(at.rank)
    })
  })

  it('refuses settings that count nothing', () => {
    expect(() => create({ refresh_tokens: 0 })).toThrow('refresh_tokens')
    expect(() => create({ starvation_iterations: 0.5 })).toThrow('starvation_iterations')
  })
})
