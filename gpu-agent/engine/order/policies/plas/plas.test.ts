import { describe, expect, it } from 'vitest'
import { engineCall, testConfig } from '../../../testing/calls.ts'
import { chargeCall, chargeOf, type Given, policyCall } from '../../../testing/policy-calls.ts'
import { virtualRun } from '../../../testing/virtual-run.ts'
import { policyContract } from '../../policy.contract.ts'
import { createPolicy, policyOnCpu } from '../index.ts'
import { LEVELS_MAX, PROGRAM_LEVELS, type ProgramLevelConfig } from '../levels/levels.ts'
import { Plas } from './plas.ts'

policyContract('plas', () => new Plas())
policyContract('plas in wall time', () => new Plas(PROGRAM_LEVELS.wall))

/** Levels [0, 100), [100, 300), [300, 700), [700, ∞). A prompt token costs 1 us to compute. */
const CONFIG: ProgramLevelConfig = {
  levels: 4,
  first_quantum_us: 100,
  quantum_ratio: 2,
  promotion_ratio: 10,
  preemption_levels_min: 1,
  prefill_us_per_token: 1,
  resident_weight: 2,
}

function levelOf(given: Given): number {
  return new Plas(CONFIG).arrive(policyCall(given), 0).rank
}

describe('plas levels', () => {
  it('starts a call in the level that holds its program’s attained service', () => {
    const services_us = [0, 99, 100, 299, 300, 699, 700, 1e12]
    expect(services_us.map((settled_service_us) => levelOf({ settled_service_us }))).toEqual([0, 0, 1, 1, 2, 2, 3, 3])
  })

  it('counts what open leases on other engines were charged', () => {
    const told = { settled_service_us: 60, open_elsewhere_us: 40, critical_path_us: 100 }
    expect(levelOf(told)).toBe(1)
  })

  it('takes a wide program for less than its sum and more than its path', () => {
    // √(800 · 50) = 200
    expect(levelOf({ settled_service_us: 800, critical_path_us: 50 })).toBe(1)
  })

  it('gives a program that weighs twice as much quanta twice as long, and one that weighs half as much half of them', () => {
    const levels = (program_weight: number) =>
      [99, 100, 199, 200, 599, 600].map((settled_service_us) => levelOf({ settled_service_us, program_weight }))
    expect(levels(1)).toEqual([0, 1, 1, 1, 2, 2])
    expect(levels(2)).toEqual([0, 0, 0, 1, 1, 2])
    expect(levels(0.5)).toEqual([1, 1, 2, 2, 3, 3])
    // Its first level ends at 200 us.
    const plas = new Plas(CONFIG)
    const call = policyCall({ program_weight: 2 })
    const place = plas.arrive(call, 0)
    expect(chargeCall(plas, call, place, chargeOf(plas.chargeLeftUs(place)))).toBe(false)
    expect([chargeCall(plas, call, place, chargeOf(1)), place.rank]).toEqual([true, 1])
  })

  it('moves a call on when its program’s service reaches the next level, to the last microsecond', () => {
    const plas = new Plas(CONFIG)
    const call = policyCall()
    const place = plas.arrive(call, 0)
    expect([chargeCall(plas, call, place, chargeOf(99)), place.rank]).toEqual([false, 0])
    expect([chargeCall(plas, call, place, chargeOf(1)), place.rank]).toEqual([true, 1])
    expect([chargeCall(plas, call, place, chargeOf(199)), place.rank]).toEqual([false, 1])
    expect([chargeCall(plas, call, place, chargeOf(1)), place.rank]).toEqual([true, 2])
    expect([chargeCall(plas, call, place, chargeOf(1e9)), place.rank]).toEqual([true, 3])
  })

  it('moves the siblings of a call that is charged', () => {
    const plas = new Plas(CONFIG)
    const call = policyCall()
    const sibling = policyCall({ lease: 'sibling' }, call.program)
    const [place, waiting] = [call, sibling].map((open) => plas.arrive(open, 0)) as [never, never]
    chargeCall(plas, call, place, chargeOf(100))
    expect(plas.refresh(waiting)).toBe(true)
    expect(waiting).toMatchObject({ rank: 1 })
    expect(plas.refresh(waiting)).toBe(false)
  })

  it.each([
    ['levels', 0],
    ['levels', LEVELS_MAX + 1],
    ['levels', 1.5],
    ['first_quantum_us', 0],
    ['quantum_ratio', 0.9],
    ['promotion_ratio', 0],
    ['promotion_ratio', Number.NaN],
    ['preemption_levels_min', -1],
    ['prefill_us_per_token', -1],
    ['resident_weight', -1],
  ])('refuses %s = %d', (name, value) => {
    expect(() => new Plas({ ...CONFIG, [name]: value })).toThrow(RangeError)
  })

  it('takes the largest number of levels', () => {
    expect(new Plas({ ...CONFIG, levels: LEVELS_MAX }).arrive(policyCall(), 0).rank).toBe(0)
  })
})

describe('plas and the KV cache', () => {
  it.each(['modelled', 'wall'] as const)(
    'lets a newcomer go before a long chat on a CPU too, whose context is resident (%s)',
    (reading) => {
      // A modelled second is some 17 wall seconds there.
      const attained_us = reading === 'modelled' ? 100_000 : 1_700_000
      const chat = {
        settled_service_us: attained_us,
        critical_path_us: attained_us,
        prompt_tokens: 400,
        resident_tokens: 400,
      }
      for (const name of ['plas', 'atlas'] as const) {
        const policy = createPolicy(policyOnCpu(name, reading), { reading })
        const [long, newcomer] = [policyCall(chat), policyCall({ prompt_tokens: 40 })].map((call) =>
          policy.arrive(call, 0),
        )
        expect(newcomer?.rank).toBeLessThan(long?.rank ?? 0)
      }
    },
  )

  it('counts three eighths of the prefill that is still to be done', () => {
    // ⅜ · 266 = 99.75, ⅜ · 267 = 100.125
    expect(levelOf({ prompt_tokens: 266 })).toBe(0)
    expect(levelOf({ prompt_tokens: 267 })).toBe(1)
    expect(levelOf({ prompt_tokens: 267, resident_tokens: 1 })).toBe(0)
  })

  it('does not hold against a program what it paid for a context that it still has', () => {
    const grown = { settled_service_us: 800, critical_path_us: 800, prompt_tokens: 375 }
    // What it paid for its context, and what it would pay again.
    expect(levelOf({ ...grown, resident_tokens: 375 })).toBe(0)
    expect(levelOf({ ...grown, resident_tokens: 300 })).toBe(1)
    expect(levelOf({ ...grown, resident_tokens: 0 })).toBe(3)
  })

  it('ranks a call anew when its context leaves memory', () => {
    const plas = new Plas(CONFIG)
    const call = policyCall({ prompt_tokens: 267, resident_tokens: 267 })
    const place = plas.arrive(call, 0)
    call.resident_tokens = 0
    expect([plas.refresh(place), place.rank]).toEqual([true, 1])
  })

  it('keeps the seat of a program against the others of its level, and gives it up to a better level', () => {
    const plas = new Plas(CONFIG)
    const [q1, q2, other] = [0, 100, 150].map((settled_service_us) =>
      plas.arrive(policyCall({ settled_service_us }), 0),
    ) as [never, never, never]
    expect([plas.yieldsTo(q2, other), plas.yieldsTo(other, q2), plas.yieldsTo(q2, q1)]).toEqual([false, false, true])
  })
})

describe('plas anti-starvation', () => {
  const plas = new Plas(CONFIG)

  it('is due when (W_p + W_c) / (T_p + T_c) reaches β', () => {
    // T_p 400, W_p 1,000: due once W_c is 10 · 400 − 1,000 = 3,000.
    const call = policyCall({ settled_service_us: 400, program_wait_us: 1000 })
    const place = plas.arrive(call, 50)
    expect(plas.dueUs(place)).toBe(3050)
    // A step of 70 us that charges 20 us: that time is not wait, and the service puts it off by 10 · 20.
    chargeCall(plas, call, place, chargeOf(20, 70))
    expect(plas.dueUs(place)).toBe(3320)
    expect(plas.due(place, 3319)).toBe(false)
    expect(plas.due(place, 3320)).toBe(true)
    expect(place.rank).toBe(0)
  })

  it('counts what other calls of the program receive while it waits', () => {
    const call = policyCall({ settled_service_us: 400 })
    const sibling = policyCall({ lease: 'sibling', settled_service_us: 400 }, call.program)
    const place = plas.arrive(call, 0)
    const due_us = plas.dueUs(place)
    chargeCall(plas, sibling, plas.arrive(sibling, 0), chargeOf(20))
    expect(plas.dueUs(place)).toBe(due_us + 10 * 20)
  })

  it('resets only the window of the call, so that what the program waited still counts', () => {
    const call = policyCall({ settled_service_us: 400, program_wait_us: 100_000 })
    const place = plas.arrive(call, 0)
    expect(plas.dueUs(place)).toBeLessThanOrEqual(0)
    plas.due(place, 10)
    expect(place).toMatchObject({ rank: 0, window_started_us: 10, window_wall_us: 0, window_charge_us: 0 })
    // It goes down by what it is charged itself, and is due again at once: the program as a whole still starves.
    chargeCall(plas, call, place, chargeOf(100))
    expect(place.rank).toBe(1)
    expect(plas.dueUs(place)).toBeLessThan(110)
  })

  it('never calls for a call in Q1, which has nowhere to go', () => {
    expect(plas.dueUs(plas.arrive(policyCall({ program_wait_us: 1e9 }), 0))).toBe(Number.POSITIVE_INFINITY)
  })

  it('does not promote a newcomer for the prompt that it brings', () => {
    expect(plas.dueUs(plas.arrive(policyCall({ prompt_tokens: 500 }), 0))).toBe(10 * 500)
  })
})

describe('plas in the scheduler', () => {
  const config = (policy: Plas, given = {}) => testConfig({ policy, seats: 1, ordering: 'wall', ...given })

  it('lets a short program pass a long one that is running, and the long one keeps its KV', () => {
    const long = engineCall({ lease: 'long', settled_service_us: 1e9, max_output_tokens: 40 })
    const short = engineCall({ lease: 'short', max_output_tokens: 4 })
    const run = virtualRun(config(new Plas()), [
      { at_us: 0, do: 'submit', call: long },
      { at_us: 5000, do: 'submit', call: short },
    ])
    expect([...run.ended.keys()]).toEqual(['short', 'long'])
    expect(run.ended.get('long')?.measurement.preemptions).toBe(1)
    const computed = run.ledger.filter((row) => row.lease === 'long').reduce((sum, row) => sum + row.computed_tokens, 0)
    expect(computed).toBe(10 + 40 - 1)
  })

  it('promotes a starving call past a steady stream of short ones', () => {
    const policy = () => new Plas({ ...CONFIG, first_quantum_us: 1_000_000, promotion_ratio: 3 })
    const starving = engineCall({ lease: 'old', settled_service_us: 1_000_000, program_wait_us: 2_900_000 })
    const stream = Array.from({ length: 200 }, (_, index) => ({
      at_us: index * 2000,
      do: 'submit' as const,
      call: engineCall({ lease: `new ${index}` }),
    }))
    const events = [{ at_us: 0, do: 'submit' as const, call: starving }, ...stream]
    const order = [...virtualRun(config(policy()), events).ended.keys()]
    const never = [
      ...virtualRun(
        config(new Plas({ ...CONFIG, first_quantum_us: 1_000_000, promotion_ratio: 1e6 })),
        events,
      ).ended.keys(),
    ]
    expect(never.indexOf('old')).toBe(200)
    expect(order.indexOf('old')).toBeGreaterThan(0)
    expect(order.indexOf('old')).toBeLessThan(100)
  })
})
