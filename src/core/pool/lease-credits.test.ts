import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { engine as built } from '../testing/builders.ts'
import { CREDITED_ENGINES_MAX, CREDITED_PROGRAMS_MAX, CREDITS_MS, creditsOn, LeaseCredits } from './lease-credits.ts'
import type { EngineSnapshot, Pin } from './pool-types.ts'

const HOME: Pin = { region: 'us', model: 'm', engine: 'e0', epoch: '1' }

const engine = (of: Partial<EngineSnapshot> = {}) => built({ seats: 64, ...of })

describe('what a pool gives', () => {
  it.each<[string, number, Partial<EngineSnapshot>]>([
    ['a quarter of all seats, where none is taken', 16, {}],
    ['a quarter of those that are free', 5, { running: 40, leases_since_report: 3 }],
    ['nothing, where calls wait', 0, { running: 64, waiting: 3 }],
    ['nothing, where fewer than four are free', 0, { running: 61 }],
    ['a seat of an offline call is free', 16, { running: 64, offline: 64 }],
    ['nothing, on an engine that drains', 0, { state: 'draining' }],
    ['nothing, on one that is silent', 0, { state: 'silent' }],
    ['nothing, where the provider’s limit is reached', 0, { limit_wait_us: 5 }],
    ['a bounded number', 64, { seats: 100_000 }],
  ])('%s', (_, credits, of) => {
    expect(creditsOn(engine(of))).toBe(credits)
  })

  it('never as many as are free', () => {
    const calls = fc.nat(100)
    fc.assert(
      fc.property(calls, calls, calls, fc.integer({ min: 1, max: 100 }), (waiting, running, leases, seats) => {
        const free = Math.max(0, seats - waiting - running - leases)
        const credits = creditsOn(engine({ waiting, running, leases_since_report: leases, seats }))
        expect(credits).toBeLessThanOrEqual(free / 4)
      }),
    )
  })
})

describe('what an isolate holds', () => {
  it('is used up', () => {
    const held = new LeaseCredits<string>()
    held.granted(HOME, 'facts', 2, 0)
    expect([held.take(HOME, 1), held.take(HOME, 2), held.take(HOME, 3)]).toEqual(['facts', 'facts', null])
  })

  it.each<[string, Pin, number]>([
    ['after its time', HOME, CREDITS_MS],
    ['before it, by a clock that was set back', HOME, -1],
    ['in another epoch', { ...HOME, epoch: '2' }, 1],
    ['for another engine', { ...HOME, engine: 'e1' }, 1],
    ['for another model of the same engine', { ...HOME, model: 'n' }, 1],
    ['in another region', { ...HOME, region: 'eu' }, 1],
  ])('is worth nothing %s', (_, pin, now_ms) => {
    const held = new LeaseCredits<string>()
    held.granted(HOME, 'facts', 2, 0)
    expect(held.take(pin, now_ms)).toBeNull()
    expect(held.take(HOME, 1)).toBe('facts')
  })

  it('a later answer takes the place of an earlier one', () => {
    const held = new LeaseCredits<string>()
    held.granted(HOME, 'facts', 5, 0)
    held.renewed(HOME, 1, CREDITS_MS)
    expect([held.take(HOME, CREDITS_MS), held.take(HOME, CREDITS_MS)]).toEqual(['facts', null])
  })

  it('an engine that began anew, or has failed, gets none by an old answer', () => {
    const held = new LeaseCredits<string>()
    held.granted({ ...HOME, epoch: '2' }, 'new', 0, 0)
    held.renewed(HOME, 5, 0)
    expect(held.take(HOME, 0)).toBeNull()
    held.forget(HOME)
    held.renewed({ ...HOME, epoch: '2' }, 5, 0)
    expect(held.take({ ...HOME, epoch: '2' }, 0)).toBeNull()
    expect(held.look(HOME)).toBeNull()
  })

  it('only a program that was served there has a use for it', () => {
    const held = new LeaseCredits<string>()
    held.granted(HOME, 'facts', 1, 0)
    held.stays('mine', HOME, 'lease-1')
    expect([held.mayTake('mine', 0), held.mayTake('other', 0), held.mayTake('mine', CREDITS_MS)]).toEqual([
      true,
      false,
      false,
    ])
    held.take(HOME, 0)
    expect(held.mayTake('mine', 0)).toBe(false)
  })

  it('knows which leases of a program are on its engine, the latest of them', () => {
    const held = new LeaseCredits<string>()
    expect([held.areThere('mine', HOME, []), held.areThere('mine', HOME, ['l0'])]).toEqual([true, false])
    for (let n = 0; n < 9; n += 1) held.stays('mine', HOME, `l${n}`)
    const there = (...leases: string[]) => held.areThere('mine', HOME, leases)
    expect([there('l8', 'l1'), there('l8', 'l0'), there('l9')]).toEqual([true, false, false])
    held.stays('mine', { ...HOME, engine: 'e1' }, 'm0')
    expect([there('l8'), held.areThere('mine', { ...HOME, engine: 'e1' }, ['l8'])]).toEqual([false, false])
    expect(held.areThere('mine', { ...HOME, engine: 'e1' }, ['m0'])).toBe(true)
  })

  it('is bounded: what was heard of longest ago is forgotten', () => {
    const held = new LeaseCredits<number>()
    for (let n = 0; n <= CREDITED_ENGINES_MAX; n += 1) held.granted({ ...HOME, engine: `e${n}` }, n, 1, 0)
    expect([held.look({ ...HOME, engine: 'e0' }), held.look({ ...HOME, engine: 'e1' })]).toEqual([null, 1])
    for (let n = 0; n <= CREDITED_PROGRAMS_MAX; n += 1) held.stays(`p${n}`, { ...HOME, engine: 'e1' }, 'lease')
    expect([held.mayTake('p0', 0), held.mayTake('p1', 0)]).toEqual([false, true])
  })
})
