/** What has been used and what is reserved never exceed the budget, whatever comes in whatever order, and nothing stays reserved. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ProgramEntry } from '../program/program-entry.ts'
import { type Admission, ORPHANED_CALL_MS, ORPHANED_LEASE_MS } from '../program/program-state.ts'
import { entry, grant, record } from '../testing/builders.ts'
import { AMOUNT_KINDS, type Budget, NOTHING } from './budget.ts'
import { outputRoom } from './call-cap.ts'
import type { CallWants } from './reservation.ts'

const NO_LIMITS: Budget = { calls: null, tokens: null, service_us: null, cost_nanos: null, ends_at_ms: null }
const PRICES = { prompt_picos: 150_000, cached_prompt_picos: 75_000, output_picos: 600_000 }

type Fact =
  | { what: 'admit'; prompt: number; output: number }
  | { what: 'lease'; call: number }
  | { what: 'record'; lease: number; share: number; resumed: number; outcome: 'completed' | 'cancelled' | 'failed' }
  | { what: 'lost'; lease: number }
  | { what: 'answered'; call: number; outcome: 'completed' | 'cancelled' | 'failed' }
  | { what: 'restart' }

const outcome = fc.constantFrom('completed' as const, 'cancelled' as const, 'failed' as const)
const fact: fc.Arbitrary<Fact> = fc.oneof(
  { weight: 3, arbitrary: fc.record({ what: fc.constant('admit' as const), prompt: fc.nat(60), output: fc.nat(60) }) },
  { weight: 3, arbitrary: fc.record({ what: fc.constant('lease' as const), call: fc.nat(20) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      what: fc.constant('record' as const),
      lease: fc.nat(20),
      share: fc.double({ min: 0, max: 1, noNaN: true }),
      resumed: fc.double({ min: 0, max: 1, noNaN: true }),
      outcome,
    }),
  },
  fc.record({ what: fc.constant('lost' as const), lease: fc.nat(20) }),
  fc.record({ what: fc.constant('answered' as const), call: fc.nat(20), outcome }),
  fc.record({ what: fc.constant('restart' as const) }),
)

const limits = fc.record({
  calls: fc.option(fc.integer({ min: 1, max: 12 })),
  tokens: fc.option(fc.integer({ min: 1, max: 800 })),
  service_us: fc.option(fc.integer({ min: 1, max: 200_000 })),
  cost_nanos: fc.option(fc.integer({ min: 1, max: 200_000 })),
  ends_at_ms: fc.constant(null),
})

function wants(prompt: number, output: number): CallWants {
  const most = {
    calls: 1,
    tokens: prompt + output,
    service_us: prompt * 125 + output * 500,
    cost_nanos: Math.ceil((prompt * PRICES.prompt_picos + output * PRICES.output_picos) / 1000),
  }
  return { most, least_tokens: prompt + 1, prices: PRICES }
}

interface Placed {
  call: string
  lease: string
  cap: NonNullable<Extract<Admission, { status: 'admitted' }>['reserved']>
  prompt: number
  output: number
}

function expectWithin(program: ProgramEntry): void {
  const { budget } = program.summary()
  if (budget === null) throw new Error('the program has a budget')
  for (const kind of AMOUNT_KINDS) {
    const limit = budget.limits[kind]
    expect(budget.used[kind]).toBeGreaterThanOrEqual(0)
    expect(budget.reserved[kind]).toBeGreaterThanOrEqual(0)
    if (limit !== null) expect(budget.used[kind] + budget.reserved[kind]).toBeLessThanOrEqual(limit)
  }
}

/**
 * What the engine can have used: a share of the output that the cap leaves. It refuses a prompt that the cap does not cover.
 * `resumed`: the share of that output that another engine had generated, which this one computes with the prompt.
 */
function measured({ cap, prompt, output }: Placed, share: number, resumed: number) {
  const room = outputRoom({ ...cap.amounts, prices: PRICES }, prompt)
  if (room < 1) return { prompt_tokens: 0, cached_tokens: 0, output_tokens: 0, service_modelled_us: 0 }
  const whole_tokens = Math.floor(share * Math.min(output, room))
  const resumed_tokens = Math.floor(resumed * whole_tokens)
  const output_tokens = whole_tokens - resumed_tokens
  const service_modelled_us = (prompt + resumed_tokens) * 125 + output_tokens * 500
  // No reservation is too small for a call that goes on, so none is exceeded in secret.
  expect(service_modelled_us).toBeLessThanOrEqual(cap.amounts.service_us ?? Number.POSITIVE_INFINITY)
  const cached_tokens = Math.floor(prompt * share)
  return { prompt_tokens: prompt, cached_tokens, output_tokens, resumed_tokens, service_modelled_us }
}

describe('a budget', () => {
  it('is never exceeded, and is the same after every restart', () => {
    fc.assert(
      fc.property(limits, fc.array(fact, { maxLength: 80 }), (budget, facts) => {
        let program = entry({ budget })
        const calls: Omit<Placed, 'lease'>[] = []
        const leases: Placed[] = []
        for (const [now_ms, told] of facts.entries()) {
          if (told.what === 'admit') {
            const call = `c${now_ms}`
            const wanted = wants(told.prompt, told.output)
            const arrival = { call, thread: null, parents: null, model: 'model', wants: wanted, now_ms }
            const admission = program.admit(arrival)
            if (admission.status === 'admitted' && admission.reserved !== null) {
              calls.push({ call, cap: admission.reserved, prompt: told.prompt, output: told.output })
              expect(program.admit(arrival)).toEqual(admission)
            }
          } else if (told.what === 'lease') {
            const call = calls[told.call]
            if (call === undefined) continue
            const lease = `l${now_ms}`
            leases.push({ ...call, lease })
            program.leaseOpened(grant({ call: call.call, lease, now_ms }))
          } else if (told.what === 'answered') {
            const call = calls[told.call]?.call
            if (call === undefined) continue
            program.callEnded({ run: 'run', call, outcome: told.outcome, error_code: null, now_ms })
          } else if (told.what === 'restart') {
            program = ProgramEntry.restore(structuredClone(program.rows()))
          } else {
            const placed = leases[told.lease]
            if (placed === undefined) continue
            const { lease, call } = placed
            if (told.what === 'lost') program.leaseLost({ run: 'run', lease, error_code: 'engine_down' })
            else
              program.settle(
                record({ lease, call, ...measured(placed, told.share, told.resumed), outcome: told.outcome }),
                now_ms,
              )
          }
          expectWithin(program)
          const { budget: here } = program.summary()
          expect(ProgramEntry.restore(structuredClone(program.rows())).summary().budget).toEqual(here)
        }
        program.closeOrphans(facts.length + ORPHANED_CALL_MS + ORPHANED_LEASE_MS)
        expect(program.summary().budget?.reserved).toEqual(NOTHING)
        expectWithin(program)
      }),
      { numRuns: 400 },
    )
  })
})

const budgetOf = (given: Partial<Budget>) => ({ ...NO_LIMITS, ...given })

function ask(program: ProgramEntry, call: string, prompt: number, output: number, now_ms = 0): Admission {
  return program.admit({ call, thread: null, parents: null, model: 'model', wants: wants(prompt, output), now_ms })
}

function serve(program: ProgramEntry, call: string, prompt_tokens: number, output_tokens: number): void {
  program.leaseOpened(grant({ call, lease: `l-${call}` }))
  program.settle(record({ call, lease: `l-${call}`, prompt_tokens, cached_tokens: 0, output_tokens }), 1)
  program.callEnded({ run: 'run', call, outcome: 'completed', error_code: null, now_ms: 1 })
}

describe('calls under a budget', () => {
  it('reserve the most that they may use, and give back what they did not', () => {
    const program = entry({ budget: budgetOf({ tokens: 1_000 }) })
    expect(ask(program, 'a', 100, 200)).toMatchObject({ status: 'admitted', reserved: { amounts: { tokens: 300 } } })
    serve(program, 'a', 90, 20)
    expect(program.summary().budget).toMatchObject({ used: { tokens: 110 }, reserved: NOTHING })
  })

  it('get what is left, at most, and the engine cuts their output to it', () => {
    const program = entry({ budget: budgetOf({ tokens: 150 }) })
    expect(ask(program, 'a', 100, 200)).toMatchObject({ reserved: { amounts: { tokens: 150 } } })
  })

  it('wait for calls under way that have reserved the rest, and are told so', () => {
    const program = entry({ budget: budgetOf({ tokens: 350 }) })
    ask(program, 'a', 100, 200)
    expect(ask(program, 'b', 100, 10)).toMatchObject({
      status: 'refused',
      code: 'program_budget_reserved',
      retry_after_s: 1,
    })
    serve(program, 'a', 100, 20)
    expect(ask(program, 'b', 100, 10)).toMatchObject({ status: 'admitted', reserved: { amounts: { tokens: 110 } } })
  })

  it('are refused for good when it is used up', () => {
    const program = entry({ budget: budgetOf({ calls: 1 }) })
    ask(program, 'a', 1, 1)
    expect(ask(program, 'b', 1, 1)).toMatchObject({ code: 'program_budget_reserved' })
    serve(program, 'a', 1, 1)
    expect(ask(program, 'b', 1, 1)).toMatchObject({ code: 'program_budget_exceeded', retry_after_s: null })
  })

  it('use nothing if their client is told that they failed', () => {
    const program = entry({ budget: budgetOf({ tokens: 300, calls: 1 }) })
    ask(program, 'a', 100, 200)
    program.leaseOpened(grant({ call: 'a', lease: 'l' }))
    program.callEnded({ run: 'run', call: 'a', outcome: 'failed', error_code: 'engine_failed', now_ms: 1 })
    expect(program.summary().budget).toMatchObject({ used: NOTHING, reserved: NOTHING })
    program.settle(record({ call: 'a', lease: 'l', prompt_tokens: 100 }), 2)
    expect(program.summary().budget).toMatchObject({ used: NOTHING, reserved: NOTHING })
  })

  it('pay once where another engine took over', () => {
    const program = entry({ budget: budgetOf({ tokens: 300 }) })
    ask(program, 'a', 100, 200)
    for (const lease of ['l0', 'l1']) program.leaseOpened(grant({ call: 'a', lease }))
    const used = { call: 'a', prompt_tokens: 100, cached_tokens: 0 }
    program.settle(record({ ...used, lease: 'l0', output_tokens: 150, outcome: 'cancelled' }), 1)
    program.settle(record({ ...used, lease: 'l1', output_tokens: 80 }), 2)
    expect(program.summary().budget).toMatchObject({ used: { tokens: 180 }, reserved: NOTHING })
  })

  it('are paid where another engine took over and nothing was heard of the first', () => {
    const program = entry({ budget: budgetOf({ tokens: 300 }) })
    ask(program, 'a', 100, 200)
    for (const lease of ['l0', 'l1']) program.leaseOpened(grant({ call: 'a', lease }))
    program.settle(record({ call: 'a', prompt_tokens: 100, cached_tokens: 0, lease: 'l1', output_tokens: 80 }), 1)
    const paid = { used: { tokens: 180 }, reserved: NOTHING }
    expect(program.summary().budget).toMatchObject(paid)
    program.settle(record({ call: 'a', prompt_tokens: 100, cached_tokens: 0, lease: 'l0', output_tokens: 9 }), 3)
    expect(program.summary().budget).toMatchObject(paid)
  })

  it('are refused where money is limited and their model has no price', () => {
    const program = entry({ budget: budgetOf({ cost_nanos: 1_000 }) })
    const arrival = { call: 'a', thread: null, parents: null, model: 'model', now_ms: 0 }
    const unpriced = { ...wants(1, 1), prices: null }
    expect(program.admit({ ...arrival, wants: unpriced })).toMatchObject({
      code: 'model_without_price',
      retry_after_s: null,
    })
    expect(program.admit({ ...arrival, wants: wants(1, 1) }).status).toBe('admitted')
  })

  it('leave the rest to the next run', () => {
    const program = entry({ budget: budgetOf({ tokens: 300, ends_at_ms: 900 }) })
    ask(program, 'a', 100, 100)
    serve(program, 'a', 100, 20)
    program.end(5, 'stale')
    expect(program.budget_left).toEqual(budgetOf({ tokens: 180, ends_at_ms: 900 }))
  })

  it('are refused after the deadline', () => {
    const program = entry({ budget: budgetOf({ ends_at_ms: 100 }) })
    expect(ask(program, 'a', 1, 1, 99).status).toBe('admitted')
    expect(ask(program, 'b', 1, 1, 100)).toMatchObject({ code: 'program_deadline_exceeded', retry_after_s: null })
  })

  it('keep their share while their record may come, and lose it after an hour', () => {
    const program = entry({ budget: budgetOf({ tokens: 300 }) })
    ask(program, 'a', 100, 200)
    program.leaseOpened(grant({ call: 'a', lease: 'l' }))
    program.leaseLost({ run: 'run', lease: 'l', error_code: 'orphaned' })
    program.callEnded({ run: 'run', call: 'a', outcome: 'completed', error_code: null, now_ms: 1 })
    program.closeOrphans(ORPHANED_LEASE_MS - 1)
    expect(program.summary().budget).toMatchObject({ reserved: { tokens: 300 } })
    program.closeOrphans(ORPHANED_LEASE_MS)
    expect(program.summary().budget).toMatchObject({ used: NOTHING, reserved: NOTHING })
  })
})
