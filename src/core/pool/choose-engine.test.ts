import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { engine, request } from '../testing/builders.ts'
import { chooseEngine, chooseFromSnapshot, NO_ENGINE_RETRY_AFTER_S, PIN_MOVE_FACTOR } from './choose-engine.ts'
import { engineLoad, expectedWaitUs, OUTPUT_TOKENS_ASSUMED, withoutOffline } from './engine-load.ts'
import { type EngineSnapshot, type Pin, type PoolSnapshot, SHORT_PROMPT_TOKENS } from './pool-types.ts'

const LONG = SHORT_PROMPT_TOKENS + 1
const pin: Pin = { region: 'region', model: 'model', engine: 'home', epoch: 'epoch' }
const home = (of: Partial<EngineSnapshot> = {}) => engine({ engine: 'home', ...of })
const away = (of: Partial<EngineSnapshot> = {}) => engine({ engine: 'away', ...of })
const choose = (engines: EngineSnapshot[], of: Parameters<typeof request>[0] = {}) =>
  chooseEngine('region', engines, request(of))

describe('load', () => {
  it('is queued calls per seat: −1 idle, 0 full, 1 a queue as long as the batch', () => {
    expect(engineLoad(engine({ seats: 4 }))).toBe(-1)
    expect(engineLoad(engine({ seats: 4, running: 4 }))).toBe(0)
    expect(engineLoad(engine({ seats: 4, running: 4, waiting: 3, leases_since_report: 1 }))).toBe(1)
  })

  it('lets a wait be prefills queued and, beyond the seats, outputs', () => {
    expect(expectedWaitUs(engine({ queued_tokens: 8000, prefill_tokens_per_s: 8000 }))).toBe(1_000_000)
    const full = engine({ seats: 4, running: 4, waiting: 2, prefill_tokens_per_s: 8000 })
    expect(expectedWaitUs(full)).toBe(2 * OUTPUT_TOKENS_ASSUMED * 500)
    expect(expectedWaitUs(engine({ ...full, prefill_tokens_per_s: null }))).toBe(expectedWaitUs(full))
  })

  it('counts the wait for the limits of a provider', () => {
    expect(expectedWaitUs(engine({ limit_wait_us: 7_000_000 }))).toBe(7_000_000)
  })
})

describe('offline calls', () => {
  const busy = engine({ engine: 'busy', seats: 4, running: 4, waiting: 4, offline: 6, queued_tokens: 800 })

  it('are no load for an online call, and all of it for an offline one', () => {
    expect(withoutOffline(busy)).toMatchObject({ running: 2, waiting: 0, queued_tokens: 200 })
    expect(engineLoad(withoutOffline(busy))).toBe(-0.5)
    const other = engine({ engine: 'other', seats: 4, running: 3 })
    expect(choose([busy, other])).toMatchObject({ engine: 'busy', load: -0.5 })
    expect(choose([busy, other], { offline: true })).toMatchObject({ engine: 'other', load: -0.25 })
  })

  it('send no online call to another region', () => {
    expect(choose([busy], { max_load: 0 })).toMatchObject({ status: 'leased' })
    expect(choose([busy], { max_load: 0, offline: true })).toEqual({ status: 'busy', load: 1 })
  })

  it('that ended meanwhile leave no load below none', () => {
    expect(withoutOffline({ ...busy, running: 1, waiting: 0 })).toMatchObject({
      running: 0,
      waiting: 0,
      queued_tokens: 0,
    })
  })

  it('keep a lease from a snapshot counting in that snapshot', () => {
    const engines = [{ ...busy, leases_since_report: 0 }]
    const snapshot = { region: 'r', model: 'm', version: 1, taken_at_ms: 0, bytes_per_token: null, engines }
    chooseFromSnapshot(snapshot, request())
    expect(engines).toMatchObject([{ leases_since_report: 1, running: 4, queued_tokens: 900 }])
  })
})

describe('a short prompt', () => {
  it('goes to the least used engine, pinned or not', () => {
    const engines = [home({ running: 3 }), away({ running: 2 })]
    expect(choose(engines, { pin, prompt_tokens_estimate: SHORT_PROMPT_TOKENS })).toMatchObject({
      status: 'leased',
      engine: 'away',
      reason: 'least_used',
      pin: false,
    })
  })

  it('breaks ties by queued tokens, then by KV use', () => {
    expect(choose([home({ queued_tokens: 1 }), away()])).toMatchObject({ engine: 'away' })
    expect(choose([home({ kv_used_tokens: 1 }), away()])).toMatchObject({ engine: 'away' })
  })

  it('does not send all ties to one engine', () => {
    const engines = [0, 1, 2, 3].map((index) => engine({ engine: `e${index}` }))
    const counts = new Map<string, number>()
    for (let call = 0; call < 400; call += 1) {
      const choice = choose(engines, { lease: `lease-${call}` })
      if (choice.status === 'leased') counts.set(choice.engine, (counts.get(choice.engine) ?? 0) + 1)
    }
    expect([...counts.values()].sort()[0]).toBeGreaterThan(60)
    expect(counts.size).toBe(4)
  })

  it('compares by seats and not by calls', () => {
    expect(choose([home({ seats: 4, running: 3 }), away({ seats: 32, running: 8 })])).toMatchObject({ engine: 'away' })
  })
})

describe('a long prompt', () => {
  const long = { pin, prompt_tokens_estimate: LONG }

  it('goes home, though another engine is less used', () => {
    expect(choose([home({ running: 7 }), away()], long)).toMatchObject({ engine: 'home', reason: 'pinned', pin: true })
  })

  it('pins the program to the least used engine if it has no pin, or one in another region', () => {
    const created = { engine: 'away', reason: 'pin_created', pin: true }
    expect(choose([home({ running: 1 }), away()], { ...long, pin: null })).toMatchObject(created)
    expect(choose([home({ running: 1 }), away()], { ...long, pin: { ...pin, region: 'other' } })).toMatchObject(created)
  })

  it.each([
    ['gone', []],
    ['draining', [home({ state: 'draining' })]],
    ['down', [home({ state: 'down' })]],
    ['silent', [home({ state: 'silent' })]],
    ['another epoch', [home({ epoch: 'later', running: 1 })]],
  ])('moves when its engine is %s', (_, homes) => {
    expect(choose([...homes, away()], long)).toMatchObject({ engine: 'away', reason: 'pin_gone', pin: true })
  })

  it('moves when its engine failed for this call', () => {
    const replaced = { engine: 'away', reason: 'replaced', pin: true }
    expect(choose([home(), away({ running: 5 })], { ...long, excluded_engines: ['home'] })).toMatchObject(replaced)
  })

  it('moves only when the wait at home exceeds that elsewhere by more prefills than PIN_MOVE_FACTOR', () => {
    // Both prefill at one speed, so as many prompts may be queued at home as the factor says.
    const limit_tokens = PIN_MOVE_FACTOR * 4000
    const of = { pin, prompt_tokens_estimate: 4000 }
    expect(choose([home({ queued_tokens: limit_tokens }), away()], of)).toMatchObject({
      engine: 'home',
      reason: 'pinned',
    })
    const moved = { engine: 'away', reason: 'pin_overloaded', pin: true }
    expect(choose([home({ queued_tokens: limit_tokens + 8 }), away()], of)).toMatchObject(moved)
    // The other engine's own queue counts as well.
    const both = [home({ queued_tokens: limit_tokens + 8 }), away({ queued_tokens: 8 })]
    expect(choose(both, of)).toMatchObject({ engine: 'home' })
  })
})

describe('an engine', () => {
  it.each(['draining', 'down', 'silent'] as const)('that is %s takes no leases', (state) => {
    expect(choose([engine({ state })])).toEqual({ status: 'none', retry_after_s: NO_ENGINE_RETRY_AFTER_S })
  })

  it('that is too small for the prompt takes none, unless all are', () => {
    const small = away({ context_tokens_max: 100 })
    expect(choose([home({ running: 5 }), small], { prompt_tokens_estimate: 100 })).toMatchObject({ engine: 'home' })
    expect(choose([small], { prompt_tokens_estimate: 100 })).toMatchObject({ engine: 'away' })
  })

  it('that was excluded is never chosen', () => {
    fc.assert(
      fc.property(
        fc.array(fc.record({ running: fc.nat(20), queued_tokens: fc.nat(10_000) }), { maxLength: 6 }),
        fc.uniqueArray(fc.nat(5)),
        fc.nat(5000),
        (states, excluded, prompt_tokens_estimate) => {
          const engines = states.map((state, index) => engine({ engine: `e${index}`, ...state }))
          const excluded_engines = excluded.map((index) => `e${index}`)
          const choice = choose(engines, { excluded_engines, prompt_tokens_estimate, pin: { ...pin, engine: 'e0' } })
          const left = engines.filter((of) => !excluded_engines.includes(of.engine))
          if (left.length === 0) expect(choice.status).toBe('none')
          else if (choice.status === 'leased') expect(left.map((of) => of.engine)).toContain(choice.engine)
          else expect.unreachable()
        },
      ),
    )
  })
})

describe('a load limit', () => {
  const full = { seats: 4, running: 4, waiting: 4 }

  it('grants at the limit and is busy above it', () => {
    expect(choose([home(full)], { max_load: 1 })).toMatchObject({ status: 'leased', load: 1 })
    expect(choose([home({ ...full, waiting: 5 })], { max_load: 1 })).toEqual({ status: 'busy', load: 1.25 })
    expect(choose([home({ ...full, waiting: 5 })], { max_load: null })).toMatchObject({ status: 'leased' })
  })

  it('does not turn a long prompt away from home unless prefilling elsewhere is sooner', () => {
    const waiting = { seats: 4, running: 4, waiting: 5, prefill_tokens_per_s: 8000 }
    // 5 queued outputs are 0.64 s: less than two prefills of 4,000 tokens, more than two of 2,049.
    expect(choose([home(waiting)], { pin, max_load: 1, prompt_tokens_estimate: 4000 })).toMatchObject({
      engine: 'home',
    })
    expect(choose([home(waiting)], { pin, max_load: 1, prompt_tokens_estimate: LONG })).toMatchObject({
      status: 'busy',
    })
  })
})

describe('choosing from a snapshot', () => {
  const snapshot = (engines: EngineSnapshot[]): PoolSnapshot => ({
    region: 'region',
    model: 'model',
    version: 1,
    taken_at_ms: 0,
    bytes_per_token: null,
    engines,
  })

  it('spreads 200 leases of one isolate within 20 % of even, and those of 50 isolates too', () => {
    const pool = () => snapshot([0, 1, 2, 3, 4].map((index) => engine({ engine: `e${index}` })))
    const spread = (isolates: PoolSnapshot[]) => {
      const counts = new Map<string, number>()
      for (let call = 0; call < 200; call += 1) {
        const isolate = isolates[call % isolates.length] ?? pool()
        const choice = chooseFromSnapshot(isolate, request({ lease: `lease-${call}` }))
        if (choice.status === 'leased') counts.set(choice.engine, (counts.get(choice.engine) ?? 0) + 1)
      }
      return [...counts.values()].sort((a, b) => a - b)
    }
    for (const isolates of [[pool()], Array.from({ length: 50 }, pool)]) {
      const counts = spread(isolates)
      expect(counts[0]).toBeGreaterThanOrEqual(32)
      expect(counts.at(-1)).toBeLessThanOrEqual(48)
    }
  })

  it('keeps pins, says that it was a snapshot, and knows no load limit', () => {
    const full = snapshot([home({ running: 100 }), away()])
    const choice = chooseFromSnapshot(full, request({ pin, prompt_tokens_estimate: 100_000, max_load: 1 }))
    expect(choice).toMatchObject({ status: 'leased', reason: 'snapshot' })
    expect(chooseFromSnapshot(snapshot([home()]), request({ pin, prompt_tokens_estimate: LONG }))).toMatchObject({
      engine: 'home',
      pin: true,
    })
  })

  it('has none when no engine is ready', () => {
    expect(chooseFromSnapshot(snapshot([]), request())).toMatchObject({ status: 'none' })
    expect(chooseFromSnapshot(snapshot([home({ state: 'down' })]), request())).toMatchObject({ status: 'none' })
  })
})
