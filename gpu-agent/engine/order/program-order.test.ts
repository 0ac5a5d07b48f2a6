import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { DEFAULT_SERVICE_RATES } from '../../../src/core/call/service.ts'
import { TenantShares } from '../../../src/core/pool/tenant-shares.ts'
import { engineCall } from '../testing/calls.ts'
import type { EngineCall } from '../types.ts'
import type { CallState } from './call-state.ts'
import { createPolicy, POLICY_NAMES, type PolicyConfig } from './policies/index.ts'
import { type OrderConfig, ProgramOrder } from './program-order.ts'

function orderConfig(policy: PolicyConfig, given: Partial<OrderConfig> = {}): OrderConfig {
  return {
    policy: createPolicy(policy),
    shares: new TenantShares(),
    seats: 1,
    shares_interval_us: 100_000,
    steps_per_decision: 1,
    standby: 'in_order',
    preemptions_per_decision_max: 8,
    ordering: 'modelled',
    rates: DEFAULT_SERVICE_RATES,
    ...given,
  }
}

class Played {
  readonly order: ProgramOrder<null>
  readonly config: OrderConfig
  now_us = 0

  constructor(config: OrderConfig) {
    this.config = config
    this.order = new ProgramOrder<null>(config)
  }

  arrive(given: Partial<EngineCall> & { lease: string }, prompt_tokens = 0, resident_tokens = 0): CallState<null> {
    return this.order.arrive(engineCall(given), { prompt_tokens, resident_tokens }, null, this.now_us++)
  }

  decide(): string[] {
    return this.order.decide(this.now_us++).map(({ call }) => call.lease)
  }

  /** A step in which each call gives so many tokens of 500 us. */
  step(calls: readonly CallState<null>[], output_tokens: number): void {
    const tokens = { uncached_prompt_tokens: 0, cached_prompt_tokens: 0, output_tokens }
    this.now_us += 100
    for (const call of calls) this.order.charge(call, tokens, 100, this.now_us)
    this.order.settle(calls, this.now_us)
  }
}

const LEVELS = { levels: 4, first_quantum_us: 1000, quantum_ratio: 2, promotion_ratio: 1e6 }
const PROGRAM_LEVELS = { ...LEVELS, prefill_us_per_token: 125 }

describe('the order of programs', () => {
  it('has as many seats as it was last told, from the next decision on, and shares them between tenants again', () => {
    const played = new Played(orderConfig({ name: 'fcfs' }, { seats: 1 }))
    for (const tenant of ['a', 'b']) {
      for (const nth of [1, 2, 3]) played.arrive({ lease: `${tenant}${nth}`, tenant })
    }
    expect(played.decide()).toEqual(['a1'])
    played.order.resize(4)
    expect(played.decide()).toEqual(['a1', 'b1', 'a2', 'b2'])
    played.order.resize(2)
    expect(played.decide()).toEqual(['a1', 'b1'])
    expect(() => played.order.resize(0)).toThrow('at least one seat')
  })

  it('serves the calls of an earlier program first, although they came later', () => {
    for (const name of ['fcfs-program', 'plas', 'atlas'] as const) {
      const played = new Played(orderConfig({ name }, { seats: 3 }))
      played.arrive({ lease: 'late', program: 'b', sequence: [2, 0] })
      played.arrive({ lease: 'early', program: 'a', sequence: [1, 9] })
      played.arrive({ lease: 'early too', program: 'a', sequence: [1, 9] })
      expect(played.decide(), name).toEqual(['early', 'early too', 'late'])
    }
  })

  it('under fcfs serves calls in order of arrival, across programs', () => {
    const played = new Played(orderConfig({ name: 'fcfs' }, { seats: 2 }))
    played.arrive({ lease: 'first', program: 'b', sequence: [2, 0] })
    played.arrive({ lease: 'second', program: 'a', sequence: [1, 0] })
    expect(played.decide()).toEqual(['first', 'second'])
  })

  it('tells programs that opened in the same millisecond apart by their tie', () => {
    const played = new Played(orderConfig({ name: 'fcfs-program' }, { seats: 2 }))
    played.arrive({ lease: 'high', program: 'b', sequence: [1, 4_000_000_000] })
    played.arrive({ lease: 'low', program: 'a', sequence: [1, 5] })
    expect(played.decide()).toEqual(['low', 'high'])
  })

  it('does not take a seat for a call of the same level', () => {
    const played = new Played(orderConfig({ name: 'plas', ...PROGRAM_LEVELS }))
    played.arrive({ lease: 'late', program: 'b', sequence: [2, 0] })
    expect(played.decide()).toEqual(['late'])
    played.arrive({ lease: 'early', program: 'a', sequence: [1, 0] })
    expect(played.decide()).toEqual(['late'])
  })

  it('moves the waiting siblings of a call that is charged', () => {
    const played = new Played(orderConfig({ name: 'plas', ...PROGRAM_LEVELS }))
    const runs = played.arrive({ lease: 'a1', program: 'a', sequence: [1, 0] })
    const waits = played.arrive({ lease: 'a2', program: 'a', sequence: [1, 0] })
    played.arrive({ lease: 'b', program: 'b', sequence: [2, 0] })
    played.decide()
    played.step([runs], 4)
    expect([runs.place.rank, waits.place.rank]).toEqual([1, 1])
    expect(played.decide()).toEqual(['b'])
  })

  it('ranks a waiting call anew when its context leaves memory', () => {
    const played = new Played(orderConfig({ name: 'plas', ...PROGRAM_LEVELS }))
    const call = played.arrive({ lease: 'a', program: 'a' }, 100, 100)
    expect(call.place.rank).toBe(0)
    played.order.resident(call, 0, played.now_us)
    // ⅜ · 100 · 125 us
    expect(call.place.rank).toBe(2)
  })

  it('charges a program that comes back for what ended here, before any ticket knows of it', () => {
    const played = new Played(orderConfig({ name: 'plas', ...PROGRAM_LEVELS }))
    const first = played.arrive({ lease: 'a1', program: 'a', sequence: [1, 0] })
    played.decide()
    played.step([first], 4)
    played.order.ended(first, played.now_us)
    expect(played.arrive({ lease: 'a2', program: 'a', sequence: [1, 0] }).place.rank).toBe(1)
  })
})

describe('reconfigure', () => {
  const calls = fc.array(
    fc.record({
      program: fc.integer({ min: 0, max: 4 }),
      settled_service_us: fc.nat(8000),
      prompt_tokens: fc.nat(60),
      resident: fc.boolean(),
      output_tokens: fc.nat(6),
    }),
    { minLength: 1, maxLength: 12 },
  )
  const policies = fc.constantFrom(...POLICY_NAMES).map((name): PolicyConfig => {
    if (name === 'fcfs' || name === 'fcfs-program') return { name }
    return name === 'rr' ? { name, quantum_us: 700 } : { name, ...LEVELS }
  })

  /** The oracle places every call by the new policy from the program's sums, and sorts. */
  it('gives each open call the place that it would have if it arrived with what its program has received', () => {
    fc.assert(
      fc.property(calls, policies, policies, fc.integer({ min: 1, max: 4 }), (list, before, after, seats) => {
        const played = new Played(orderConfig(before, { seats }))
        const states = list.map(({ program, settled_service_us, prompt_tokens, resident }, index) =>
          played.arrive(
            { lease: `${index}`, program: `${program}`, sequence: [program, 0], settled_service_us },
            prompt_tokens,
            resident ? prompt_tokens : 0,
          ),
        )
        const seated = played.decide()
        const charged = states.filter(({ call }) => seated.includes(call.lease))
        for (const state of charged) played.step([state], list[Number(state.call.lease)]?.output_tokens ?? 0)
        const config = orderConfig(after, { seats })
        played.order.reconfigure(config, played.now_us)
        const ranks = states.map((state) => config.policy.arrive(state, played.now_us).rank)
        expect(states.map(({ place }) => place.rank)).toEqual(ranks)
        const ends = played.decide()
        expect(ends.length).toBe(Math.min(seats, states.length))
        // No call without a seat is better, by what the new policy takes a seat for, than the worst that has one.
        const worst = states.find(({ call }) => call.lease === ends.at(-1)) as CallState<null>
        for (const state of states) {
          if (ends.includes(state.call.lease)) continue
          if (state.place.rank < worst.place.rank) {
            expect(config.policy.yieldsTo(worst.place, state.place)).toBe(false)
          }
        }
      }),
      { numRuns: 200 },
    )
  })

  it('leaves the seats of an engine as many as they are', () => {
    const played = new Played(orderConfig({ name: 'fcfs' }))
    expect(() => played.order.reconfigure(orderConfig({ name: 'plas' }, { seats: 2 }), 0)).toThrow('keeps its seats')
  })
})
