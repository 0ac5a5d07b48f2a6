import { describe, expect, it } from 'vitest'
import { ScheduledCall } from '../scheduled-call.ts'
import { engineCall } from '../testing/calls.ts'
import { PlacedEngine } from '../testing/placed-engine.ts'
import { buyUs, usualTime } from './hold-time.ts'
import { PREFILL_STEP_TOKENS, PrefillSpeed } from './prefill-speed.ts'
import { CLASSES_MAX, CONTEXTS_MAX, HOLD_US_MAX, ProgramHold } from './program-hold.ts'

const HOLD_US = 1000

/** Contexts of 100 tokens cost as much to hold for BUY_US as to compute again. */
const BUY_US = 4_000_000
const SIZES = { capacity_tokens: 800, slots: 8 }

function speed(): PrefillSpeed {
  const measured = new PrefillSpeed(256)
  measured.computed(200, 1, 200 * 5_000)
  return measured
}

function holding(hold_us = HOLD_US) {
  return new ProgramHold(SIZES, speed(), () => hold_us)
}

function call(program: string, lease = `${program}/0`, tenant = 'tenant'): ScheduledCall {
  return new ScheduledCall(engineCall({ lease, program, tenant, sequence: [1, 1] }), 0)
}

describe('a context', () => {
  it('is held from the end of its call until its program comes back', () => {
    const hold = holding()
    const ended = call('p')
    hold.ended(ended, 100, 10)
    expect([hold.holds(ended), hold.holdsOf('tenant'), hold.next_expiry_us]).toEqual([true, true, 10 + HOLD_US])
    expect([hold.holds(call('p', 'p/9')), hold.holds(call('q')), hold.holdsOf('other')]).toEqual([false, false, false])
    hold.arrived(call('p', 'p/1'), 10 + HOLD_US - 1)
    expect([hold.holds(ended), hold.holdsOf('tenant')]).toEqual([false, false])
    expect(hold.counts).toEqual({ contexts: 0, begun: 1, returned: 1, given_up: 0, expired: 0, held_back: 0 })
  })

  it('is given up when its time is over, and a program that comes back then was late', () => {
    const hold = holding()
    hold.ended(call('p'), 100, 0)
    hold.ended(call('q'), 100, 1)
    hold.expire(HOLD_US - 1)
    expect(hold.counts.contexts).toBe(2)
    hold.expire(HOLD_US)
    expect([hold.holds(call('p')), hold.holds(call('q'))]).toEqual([false, true])
    hold.arrived(call('q', 'q/1'), HOLD_US + 1)
    expect([hold.counts, hold.holdsOf('tenant')]).toMatchObject([{ contexts: 0, returned: 0, expired: 2 }, false])
    // Both are watched for longer: the first until its program is back, too.
    expect(hold.next_expiry_us).toBe(BUY_US)
    hold.expire(BUY_US)
    expect(hold.next_expiry_us).toBe(Number.POSITIVE_INFINITY)
  })

  it('of which something was taken counts as given up, however it ends', () => {
    const hold = holding()
    for (const program of ['p', 'q']) {
      hold.ended(call(program), 100, 0)
      hold.lost(call(program, `${program}/9`))
      hold.lost(call(program))
    }
    hold.arrived(call('p', 'p/1'), 1)
    hold.expire(HOLD_US)
    hold.lost(call('q'))
    expect(hold.counts).toMatchObject({ contexts: 0, begun: 2, returned: 0, given_up: 2, expired: 0 })
  })

  it('of a call that is a program of its own is not held', () => {
    const hold = holding()
    hold.ended(new ScheduledCall(engineCall({ lease: 'p/0', program: 'p', sequence: null }), 0), 100, 0)
    expect(hold.counts.begun).toBe(0)
  })

  it('is not held before the engine knows how fast it computes prompts, nor where holding does not pay', () => {
    const unknown = new ProgramHold(SIZES, new PrefillSpeed(256), () => HOLD_US)
    unknown.ended(call('p'), 100, 0)
    const discarded = holding(0)
    discarded.ended(call('p'), 100, 0)
    expect([unknown.counts.begun, discarded.counts.begun]).toEqual([0, 0])
  })

  it('is never held for longer than the bound', () => {
    const hold = holding(HOLD_US_MAX * 2)
    hold.ended(call('p'), 100, 5)
    expect(hold.next_expiry_us).toBe(5 + HOLD_US_MAX)
  })

  it('is one of a bounded number: the one whose time ends first goes', () => {
    const hold = holding(10 * CONTEXTS_MAX)
    for (let index = 0; index < CONTEXTS_MAX; index++) hold.ended(call(`p${index}`), 100, index)
    expect(hold.holds(call('p0'))).toBe(true)
    hold.ended(call('last'), 100, CONTEXTS_MAX)
    expect([hold.holds(call('p0')), hold.holds(call('p1')), hold.holds(call('last'))]).toEqual([false, true, true])
    expect(hold.counts).toMatchObject({ contexts: CONTEXTS_MAX, given_up: 1, expired: 0 })
  })

  it('is held for as long as the rule says of it, so that a later one may be given up first', () => {
    const hold = new ProgramHold(SIZES, speed(), ({ tokens }) => tokens)
    hold.ended(call('long'), 500, 0)
    hold.ended(call('short'), 10, 0)
    hold.expire(10)
    expect([hold.holds(call('long')), hold.holds(call('short'))]).toEqual([true, false])
  })
})

describe('the usual time', () => {
  /** How long the context of a program of the class is held that is away from `now_us` on. */
  function heldUs(hold: ProgramHold, now_us: number, given: { class?: string; tenant?: string } = {}): number {
    const probe = new ScheduledCall(engineCall({ lease: 'probe/0', program: 'probe', sequence: [1, 1], ...given }), 0)
    hold.ended(probe, 100, now_us)
    const held_us = hold.holds(probe) ? hold.next_expiry_us - now_us : 0
    hold.arrived(probe, now_us)
    return held_us
  }

  function play(hold: ProgramHold, programs: number, after_us: (index: number) => number, from_us = 0): number {
    let now_us = from_us
    for (let index = 0; index < programs; index++) {
      hold.ended(call(`p${index}`), 100, now_us)
      now_us += after_us(index)
      hold.arrived(call(`p${index}`, `p${index}/1`), now_us)
    }
    return now_us
  }

  it('is that of rent or buy while nothing is known', () => {
    const hold = new ProgramHold(SIZES, speed(), usualTime)
    expect(heldUs(hold, 0)).toBe(BUY_US)
  })

  it('is little more than that of the tools, once some programs did not come back', () => {
    const hold = new ProgramHold(SIZES, speed(), usualTime)
    let now_us = play(hold, 30, () => 100_000)
    for (let index = 0; index < 5; index++) hold.ended(call(`ended ${index}`), 100, now_us)
    now_us = play(hold, 30, () => 100_000, now_us)
    const held_us = heldUs(hold, now_us)
    expect(held_us).toBeGreaterThan(100_000)
    expect(held_us).toBeLessThan(300_000)
  })

  it('is nothing where most programs stay away, and something again once they come back', () => {
    const hold = new ProgramHold(SIZES, speed(), usualTime)
    let now_us = play(hold, 40, () => 2 * BUY_US)
    expect(heldUs(hold, now_us)).toBe(0)
    now_us = play(hold, 40, () => 500_000, now_us)
    expect(heldUs(hold, now_us)).toBeGreaterThan(500_000)
  })

  it('is of the class, and never of another tenant’s', () => {
    const hold = new ProgramHold(SIZES, speed(), usualTime)
    const now_us = play(hold, 40, () => 2 * BUY_US)
    expect(heldUs(hold, now_us, { class: 'other' })).toBe(BUY_US)
    expect(heldUs(hold, now_us, { tenant: 'other' })).toBe(BUY_US)
  })

  it('is known of a bounded number of classes', () => {
    const hold = new ProgramHold(SIZES, speed(), usualTime)
    const now_us = play(hold, 40, () => 2 * BUY_US)
    for (let index = 0; index < CLASSES_MAX - 1; index++) heldUs(hold, now_us, { class: `${index}` })
    expect(heldUs(hold, now_us)).toBe(0)
    for (let index = 0; index < CLASSES_MAX; index++) heldUs(hold, now_us, { class: `${index}` })
    expect(heldUs(hold, now_us)).toBe(BUY_US)
  })
})

describe('the time for which holding costs as much as computing again', () => {
  it('is what computing all of the memory takes, or its share of the slots', () => {
    const costs = { capacity_tokens: 1000, slots: 8, prefill_us_per_token: 3 }
    expect(buyUs(200, costs)).toBe(3000)
    expect(buyUs(100, costs)).toBe(2400)
  })
})

describe('the speed of prefills', () => {
  it('is that of steps that compute many prompt tokens, the later ones weighing more', () => {
    const speed = new PrefillSpeed(256)
    speed.computed(PREFILL_STEP_TOKENS, 1, 1_000_000)
    expect(speed.us_per_token).toBeNull()
    speed.computed(200, 1, 1000)
    expect(speed.us_per_token).toBe(5)
    for (let step = 0; step < 400; step++) speed.computed(200, 1, 2000)
    expect(speed.us_per_token).toBeCloseTo(10, 2)
  })

  it('is measured in small chunks, too', () => {
    const speed = new PrefillSpeed(32)
    speed.computed(31, 1, 1000)
    expect(speed.us_per_token).toBeNull()
    speed.computed(32, 1, 320)
    expect(speed.us_per_token).toBe(10)
  })
})

describe('a newcomer', () => {
  it('waits for a context until its program is back, and then for that call', () => {
    const engine = new PlacedEngine({ hold_us: HOLD_US })
    engine.answer('a', 12, 1)
    const newcomer = engine.open('c', 10, 2)
    expect(engine.place(newcomer)).toBe(false)
    expect(engine.placement.holds).toMatchObject({ contexts: 1, held_back: 1 })
    const back = engine.open('a', 13, 1)
    expect(engine.place(newcomer)).toBe(false)
    expect(engine.place(back)).toBe(true)
    expect(back.computed_tokens).toBe(12 * 8)
    expect(engine.placement.holds).toMatchObject({ contexts: 0, returned: 1, held_back: 1 })
  })

  it('takes it once its time is over', () => {
    const engine = new PlacedEngine({ hold_us: HOLD_US })
    engine.answer('a', 12, 1)
    const newcomer = engine.open('c', 10, 2)
    engine.now_us = HOLD_US - 1
    expect(engine.place(newcomer)).toBe(false)
    engine.now_us = HOLD_US
    expect(engine.place(newcomer)).toBe(true)
  })

  it('takes it if it runs before the program, if it is of another tenant, or if nothing else can run', () => {
    const better = new PlacedEngine({ hold_us: HOLD_US })
    better.answer('a', 12, 3)
    expect(better.place(better.open('c', 10, 2))).toBe(true)
    const other = new PlacedEngine({ hold_us: HOLD_US })
    other.answer('a', 12, 1)
    expect(other.place(other.open('c', 10, 2, 'another tenant'))).toBe(true)
    const alone = new PlacedEngine({ hold_us: HOLD_US })
    alone.answer('a', 12, 1)
    const newcomer = alone.open('c', 10, 2)
    alone.placement.force(newcomer, 100)
    expect(newcomer.slot).not.toBeNull()
  })

  it('needs none of it, or takes what is not held', () => {
    const engine = new PlacedEngine({ hold_us: HOLD_US })
    engine.answer('a', 8, 1)
    engine.leave('b', 8)
    expect(engine.place(engine.open('c', 12, 2))).toBe(true)
    expect(engine.resident('a')).toBe(8)
    expect(engine.placement.holds.held_back).toBe(0)
  })

  it('waits for the slot of a context, too', () => {
    const engine = new PlacedEngine({ hold_us: HOLD_US, slots: 1 })
    engine.answer('a', 2, 1)
    const newcomer = engine.open('c', 2, 2)
    expect(engine.place(newcomer)).toBe(false)
    expect(engine.placement.holds.held_back).toBe(1)
    engine.now_us = HOLD_US
    expect(engine.place(newcomer)).toBe(true)
  })

  it('evicts a call behind it first, as it would without a hold on better contexts', () => {
    const engine = new PlacedEngine({ hold_us: HOLD_US })
    engine.answer('a', 8, 1)
    const holder = engine.run(engine.open('b', 6, 3))
    expect(engine.place(engine.open('c', 10, 2))).toBe(true)
    expect(holder.slot).toBeNull()
    expect(engine.placement.holds).toMatchObject({ contexts: 1, held_back: 0 })
  })

  it('waits for nothing where programs are not held', () => {
    const engine = new PlacedEngine()
    engine.answer('a', 12, 1)
    expect(engine.place(engine.open('c', 10, 2))).toBe(true)
    expect(engine.placement.holds).toEqual({
      contexts: 0,
      begun: 0,
      returned: 0,
      given_up: 0,
      expired: 0,
      held_back: 0,
    })
  })
})

describe('what is not held', () => {
  it('is the context of a call that was not answered, or whose program has an open call', () => {
    const cancelled = new PlacedEngine({ hold_us: HOLD_US })
    cancelled.leave('a', 12)
    expect(cancelled.placement.holds.begun).toBe(0)
    const parallel = new PlacedEngine({ hold_us: HOLD_US })
    parallel.open('a', 4)
    parallel.answer('a', 12)
    expect(parallel.placement.holds.begun).toBe(0)
  })
})
