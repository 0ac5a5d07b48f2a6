import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { DEFAULT_SERVICE_RATES } from '../../../src/core/call/service.ts'
import { TenantShares } from '../../../src/core/pool/tenant-shares.ts'
import { engineCall } from '../testing/calls.ts'
import type { EngineCall } from '../types.ts'
import type { CallState } from './call-state.ts'
import { createPolicy } from './policies/index.ts'
import { type OrderConfig, ProgramOrder } from './program-order.ts'
import { runsBefore } from './tenant-queue.ts'

const PROMPT_TOKENS = 100
/** Behind every call that has received nothing. */
const SERVED = { settled_service_us: 1e9 }

/** Decisions are so rare that a test sees one only where it waits for it. */
function orderConfig(given: Partial<OrderConfig> = {}): OrderConfig {
  return {
    policy: createPolicy({ name: 'plas', prefill_us_per_token: 0 }),
    shares: new TenantShares(),
    seats: 2,
    shares_interval_us: 1e9,
    steps_per_decision: 8,
    standby: 'resident_first',
    preemptions_per_decision_max: 8,
    ordering: 'modelled',
    rates: DEFAULT_SERVICE_RATES,
    ...given,
  }
}

class Window {
  readonly order: ProgramOrder<null>

  constructor(given: Partial<OrderConfig> = {}) {
    this.order = new ProgramOrder<null>(orderConfig(given))
  }

  arrive(lease: string, resident_tokens = 0, given: Partial<EngineCall> = {}): CallState<null> {
    const tokens = { prompt_tokens: PROMPT_TOKENS, resident_tokens }
    return this.order.arrive(engineCall({ lease, ...given }), tokens, null, 0)
  }

  end(call: CallState<null>): void {
    this.order.ended(call, 0)
  }

  seated(): string[] {
    return this.order
      .decide(0)
      .map(({ call }) => call.lease)
      .sort()
  }
}

/** A decision has been made that took all seats. `ends` is about to leave its own. */
function decided(given: Partial<OrderConfig> = {}): { window: Window; ends: CallState<null> } {
  const window = new Window(given)
  const ends = window.arrive('ends')
  window.arrive('stays')
  expect(window.seated()).toEqual(['ends', 'stays'])
  return { window, ends }
}

describe('a seat that falls free between decisions', () => {
  it.each([
    ['in_order', 'better'],
    ['resident_first', 'resident'],
  ] as const)('%s: goes to the call that is %s', (standby, next) => {
    const { window, ends } = decided({ standby })
    window.arrive('resident', PROMPT_TOKENS, SERVED)
    window.arrive('better')
    window.end(ends)
    expect(window.seated()).toEqual([next, 'stays'].sort())
  })

  it('goes to the next in order where no call that waits holds its KV', () => {
    const { window, ends } = decided()
    window.arrive('worse', 0, SERVED)
    window.arrive('better')
    window.end(ends)
    expect(window.seated()).toEqual(['better', 'stays'])
  })

  it('goes by the order again at the next decision', () => {
    const { window, ends } = decided()
    window.arrive('resident', PROMPT_TOKENS, SERVED)
    window.arrive('better')
    window.end(ends)
    for (let step = 1; step < 8; step++) expect(window.seated()).toEqual(['resident', 'stays'])
    expect(window.seated()).toEqual(['better', 'stays'])
  })

  it('counts a call as holding its KV from more than half of its prompt on', () => {
    const next = (resident_tokens: number) => {
      const { window, ends } = decided()
      window.arrive('part', resident_tokens, SERVED)
      window.arrive('better')
      window.end(ends)
      return window.seated()[0]
    }
    expect([next(PROMPT_TOKENS / 2), next(PROMPT_TOKENS / 2 + 1)]).toEqual(['better', 'part'])
  })

  it('does not count KV that has been swapped out or evicted until it is on the device again', () => {
    const { window, ends } = decided()
    const [swapped, evicted] = ['swapped', 'evicted'].map((lease) => window.arrive(lease, PROMPT_TOKENS, SERVED))
    window.order.resident(swapped as CallState<null>, PROMPT_TOKENS, 0, 0)
    window.order.resident(evicted as CallState<null>, 0, 0)
    const better = window.arrive('better')
    window.arrive('better too')
    window.end(ends)
    expect(window.seated()).toEqual(['better', 'stays'])
    window.order.resident(swapped as CallState<null>, PROMPT_TOKENS, 0)
    window.end(better)
    expect(window.seated()).toEqual(['stays', 'swapped'])
  })

  it('stays with its tenant, although another tenant’s call holds its KV', () => {
    const window = new Window()
    const ends = window.arrive('a1', 0, { tenant: 'a' })
    window.arrive('b1', 0, { tenant: 'b' })
    window.seated()
    window.arrive('b2', PROMPT_TOKENS, { tenant: 'b' })
    window.arrive('a2', 0, { tenant: 'a' })
    window.end(ends)
    expect(window.seated()).toEqual(['a2', 'b1'])
  })

  it('goes to a call that holds its KV, of any tenant, where its own has left', () => {
    const window = new Window({ seats: 3 })
    const [ends] = ['a', 'b', 'c'].map((tenant) => window.arrive(`${tenant}1`, 0, { tenant }))
    window.seated()
    window.arrive('b2', 0, { tenant: 'b' })
    window.arrive('c2', PROMPT_TOKENS, { tenant: 'c' })
    window.end(ends as CallState<null>)
    expect(window.seated()).toEqual(['b1', 'c1', 'c2'])
  })

  it('follows the option from a change on, for calls that wait already', () => {
    const { window, ends } = decided({ standby: 'in_order' })
    window.arrive('resident', PROMPT_TOKENS, SERVED)
    window.arrive('better')
    window.order.reconfigure(orderConfig(), 0)
    window.seated()
    window.end(ends)
    expect(window.seated()).toEqual(['resident', 'stays'])
  })
})

describe('any window with resident calls first', () => {
  const calls = (minLength: number) =>
    fc.array(
      fc.record({
        tenant: fc.nat(2),
        settled_service_us: fc.constantFrom(0, 30_000, 1e9),
        resident_tokens: fc.constantFrom(0, PROMPT_TOKENS),
        leaves: fc.boolean(),
      }),
      { minLength, maxLength: 10 },
    )

  it('leaves no seat empty, takes none, and passes over a resident call only for a tenant’s own seat', () => {
    let passed_over = 0
    fc.assert(
      fc.property(calls(1), calls(0), fc.integer({ min: 1, max: 5 }), (first, later, seats) => {
        const window = new Window({ seats })
        const arrive = (list: typeof first, from: number) =>
          list.map(({ tenant, resident_tokens, settled_service_us }, index) =>
            window.arrive(`${from + index}`, resident_tokens, { tenant: `t${tenant}`, settled_service_us }),
          )
        const early = arrive(first, 0)
        const before = new Set(window.order.decide(0))
        const all = [...early, ...arrive(later, first.length)]
        const stays = [...before][0]
        // A decision comes at once where no call is left with a seat.
        for (const [index, call] of early.entries()) if (first[index]?.leaves && call !== stays) window.end(call)
        const open = all.filter(({ ended }) => !ended)
        const after = new Set(window.order.decide(0))
        expect(after.size).toBe(Math.min(seats, open.length))
        for (const call of before) if (!call.ended) expect(after.has(call)).toBe(true)
        const waiting = open.filter((call) => !after.has(call))
        for (const won of after) {
          if (before.has(won)) continue
          for (const waits of waiting) {
            if (waits.tenant === won.tenant && waits.holds_kv === won.holds_kv)
              expect(runsBefore(won, waits)).toBe(true)
            if (won.holds_kv && !waits.holds_kv && runsBefore(waits, won)) passed_over += 1
            if (won.holds_kv || !waits.holds_kv) continue
            expect(waits.tenant).not.toBe(won.tenant)
            expect(won.tenant.seated.length).toBeLessThanOrEqual(won.tenant.quota)
          }
        }
      }),
      { numRuns: 300 },
    )
    expect(passed_over).toBeGreaterThan(0)
  })
})
