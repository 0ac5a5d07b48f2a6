/** Residency and keys: which regions a call may use, and that no failure makes it leave them. */
import { describe, expect, it, vi } from 'vitest'
import type { LeaseRequest } from '../actors/contracts.ts'
import { PROGRAM_REGIONS_MAX, wantedRegions } from './restrictions.ts'
import { runCall } from './run-call.ts'
import {
  ADMITTED,
  answering,
  chat,
  failing,
  failureOf,
  leaseOf,
  PROGRAM,
  UNRESTRICTED,
  world,
} from './testing/world.ts'

const REGIONS = ['near', 'far', 'off']
const granted = (change: object) => ({
  authenticate: async () => ({ status: 'tenant' as const, identity: { ...UNRESTRICTED, ...change } }),
})

/** A world that notes which regions were asked for a lease; `busy` ones have no engine. */
function regional(options: Parameters<typeof world>[0] = {}, without: readonly string[] = []) {
  const asked: string[] = []
  const it = world({ engines: { e0: answering('hi') }, regions: REGIONS, ...options })
  const pool = it.deps.pool
  it.deps.pool = (region, model) => ({
    ...pool(region, model),
    release: async () => {},
    lease: async (_: LeaseRequest) => {
      asked.push(region.id)
      if (without.includes(region.id))
        return { status: 'none', retry_after_s: 5, ticket_kid: null, snapshot: null, charges: [] }
      return leaseOf('e0')
    },
  })
  return { it, asked }
}

const heldTo = (regions: string[] | null) => ({ regions, has_budget: false })

describe('a call that names regions', () => {
  it('is served there and nowhere else', async () => {
    const { it: w, asked } = regional()
    const response = await runCall(chat({}, { 'X-Program-Regions': 'far, off' }), 'chat', w.deps)
    expect([response.status, response.headers.get('x-region')]).toEqual([200, 'far'])
    expect(asked).toEqual(['far'])
  })

  it('is answered 503 when they have no engine', async () => {
    const { it: w, asked } = regional({}, ['far'])
    const response = await runCall(chat({ metadata: { program_regions: 'far' } }), 'chat', w.deps)
    const { status, code, headers } = await failureOf(response)
    expect([status, code, headers.get('retry-after')]).toEqual([503, 'no_engine_in_regions', '5'])
    expect(asked).toEqual(['far'])
  })

  it('hands them to its program, which a later call cannot widen', async () => {
    const { it: w, asked } = regional({ program: { admit: async () => ({ ...ADMITTED, regions: ['far'] }) } })
    await (await runCall(chat({}, { ...PROGRAM, 'X-Program-Regions': 'near,far' }), 'chat', w.deps)).text()
    expect(w.saidTo('admit')).toMatchObject([{ regions: ['near', 'far'] }])
    expect(asked).toEqual(['near', 'far'])
  })
})

describe('a program that is held to regions', () => {
  const held = (regions: string[]) => ({ program: { admit: async () => ({ ...ADMITTED, regions }) } })

  it('gives a lease back that was taken before its actor had answered, and takes another', async () => {
    const { it: w } = regional(held(['off']))
    const response = await runCall(chat({}, PROGRAM), 'chat', w.deps)
    expect([response.status, response.headers.get('x-region')]).toEqual([200, 'off'])
  })

  it('is not replaced elsewhere when its engines fail', async () => {
    const { it: w, asked } = regional({ engines: { e0: failing({ code: 'engine_down' }) }, ...held(['off']) })
    expect((await runCall(chat({}, PROGRAM), 'chat', w.deps)).status).toBe(503)
    expect(new Set(asked.slice(1))).toEqual(new Set(['off']))
  })

  it('is answered 403 where the key may use none of them', async () => {
    const { it: w } = regional({ ...held(['off']), deps: granted({ regions: ['near'] }) })
    const { status, code } = await failureOf(await runCall(chat({}, PROGRAM), 'chat', w.deps))
    expect([status, code]).toEqual([403, 'region_not_allowed'])
  })

  it('stays there while its actor is slow, and waits while its regions are unknown', async () => {
    const slow = { program: { admit: () => new Promise<never>(() => {}) }, times: { admit_timeout_ms: 5 } }
    const known = regional({ ...slow, deps: { residency: async () => heldTo(['off']) } })
    const response = await runCall(chat({}, PROGRAM), 'chat', known.it.deps)
    expect([response.status, response.headers.get('x-region')]).toEqual([200, 'off'])
    const down = async () => {
      throw new Error('D1 is down')
    }
    const unknown = regional({ ...slow, deps: { residency: down } })
    const { status, code } = await failureOf(await runCall(chat({}, PROGRAM), 'chat', unknown.it.deps))
    expect([status, code]).toEqual([503, 'residency_unknown'])
  })
})

it('is answered with the reason where the storage of its actor takes nothing, as on a full disk', async () => {
  const failed = async () => {
    throw new Error('internal error; reference = at105ir2e0sisolbb72hfnuf')
  }
  for (const headers of [PROGRAM, { ...PROGRAM, 'X-Program-Regions': 'near' }]) {
    const { it: w } = regional({ program: { admit: failed }, deps: { residency: failed } })
    const response = await runCall(chat({}, headers), 'chat', w.deps)
    expect(response.headers.get('retry-after')).not.toBeNull()
    const { status, code } = await failureOf(response)
    expect([status, code]).toEqual([503, 'storage_unavailable'])
    expect(w.saidTo('leaseOpened')).toEqual([])
  }
})

describe('an actor that is slow for the second time', () => {
  it.each([
    ['held', ['off']],
    ['not held', null],
  ])('costs D1 nothing: the isolate remembers that the program is %s', async (_, regions) => {
    const never = new Promise<never>(() => {})
    let isSlow = false
    const residency = vi.fn(async () => heldTo(null))
    const { it: w } = regional({
      program: { admit: async () => (isSlow ? never : { ...ADMITTED, regions }) },
      deps: { residency },
    })
    expect((await runCall(chat({}, PROGRAM), 'chat', w.deps)).status).toBe(200)
    isSlow = true
    w.deps.times.admit_timeout_ms = 5
    for (let i = 0; i < 3; i += 1) {
      const response = await runCall(chat({}, PROGRAM), 'chat', w.deps)
      expect([response.status, response.headers.get('x-region')]).toEqual([200, regions?.[0] ?? 'near'])
    }
    expect(residency).not.toHaveBeenCalled()
  })

  it('is remembered by an answer that came too late for its own call', async () => {
    const { promise, resolve } = Promise.withResolvers<typeof ADMITTED>()
    const residency = vi.fn(async () => heldTo(['off']))
    const { it: w } = regional({
      program: { admit: () => promise },
      times: { admit_timeout_ms: 5 },
      deps: { residency },
    })
    await runCall(chat({}, PROGRAM), 'chat', w.deps)
    expect(residency).toHaveBeenCalledTimes(1)
    resolve({ ...ADMITTED, regions: ['off'] } as typeof ADMITTED)
    await promise
    w.deps.program = () => ({ admit: () => new Promise<never>(() => {}) }) as never
    await runCall(chat({}, PROGRAM), 'chat', w.deps)
    expect(residency).toHaveBeenCalledTimes(1)
  })
})

describe('a call that names regions, of a program whose actor is slow', () => {
  const FAR = { ...PROGRAM, 'X-Program-Regions': 'far' }
  const slow = (
    admit: () => Promise<typeof ADMITTED>,
    residency: () => Promise<string[] | null>,
    residency_timeout_ms = 100,
  ) =>
    regional({
      program: { admit },
      times: { admit_timeout_ms: 5, residency_timeout_ms },
      deps: { residency: async () => heldTo(await residency()) },
    })
  const silent = () => new Promise<never>(() => undefined)

  it('goes on where D1 knows what the program is held to', async () => {
    const { it: w } = slow(silent, async () => ['far', 'off'])
    const response = await runCall(chat({}, FAR), 'chat', w.deps)
    expect([response.status, response.headers.get('x-region')]).toEqual([200, 'far'])
  })

  it('waits for the actor where D1 does not: it may be the one that holds the program', async () => {
    const late = async () => {
      await new Promise((resolve) => setTimeout(resolve, 20))
      return { ...ADMITTED, regions: ['far'] }
    }
    const { it: w } = slow(late, async () => null, 60_000)
    expect((await runCall(chat({}, FAR), 'chat', w.deps)).status).toBe(200)
    expect(w.saidTo('leaseOpened')).toMatchObject([{ run: 'run-1' }])
  })

  it.each([
    ['does not answer', silent],
    ['fails', () => Promise.reject(new Error('gone'))],
  ])('is answered 503 where the actor %s, and is sent nowhere', async (_, admit) => {
    const { it: w } = slow(admit, async () => null)
    const { status, code } = await failureOf(await runCall(chat({}, FAR), 'chat', w.deps))
    expect([status, code]).toEqual([503, 'residency_unknown'])
    expect(w.saidTo('leaseOpened')).toEqual([])
  })
})

describe('a key', () => {
  it('is held to its regions, and refused others by name', async () => {
    const { it: w, asked } = regional({ deps: granted({ regions: ['off'] }) })
    await (await runCall(chat(), 'chat', w.deps)).text()
    expect(asked).toEqual(['off'])
    const other = await failureOf(await runCall(chat({}, { 'X-Program-Regions': 'near' }), 'chat', w.deps))
    expect([other.status, other.code]).toEqual([403, 'region_not_allowed'])
  })

  it('is told that a model is not there which it may not call', async () => {
    const { it: w } = regional({ deps: granted({ models: ['another'] }) })
    const { status, code } = await failureOf(await runCall(chat(), 'chat', w.deps))
    expect([status, code]).toEqual([404, 'model_not_found'])
  })

  it('of a disabled tenant answers 403', async () => {
    const deps = { authenticate: async () => ({ status: 'refused' as const, reason: 'disabled' as const }) }
    const { status, code } = await failureOf(await runCall(chat(), 'chat', regional({ deps }).it.deps))
    expect([status, code]).toEqual([403, 'tenant_disabled'])
  })
})

it.each([
  ['as many as the bound', Array.from({ length: PROGRAM_REGIONS_MAX }, (_, i) => `r${i}`).join(','), 'read'],
  ['one more', Array.from({ length: PROGRAM_REGIONS_MAX + 1 }, (_, i) => `r${i}`).join(','), 'refused'],
  ['only commas', ',,', 'refused'],
  ['an id that is too long', 'x'.repeat(129), 'refused'],
  ['spaces and repeats', ' a , b,a', 'read'],
  ['nothing', '  ', 'read'],
])('regions that are named: %s', (_, text, status) => {
  expect(wantedRegions(new Headers({ 'x-program-regions': text }), null).status).toBe(status)
})

describe('calls a minute', () => {
  const limited = (tenant: object) =>
    regional({ deps: granted({ calls_per_minute_max: 2 }), tenant: { ...tenant } as never }).it

  it('are refused 429 before anything is opened, and the actor is not asked again at once', async () => {
    const w = limited({ takeCalls: async () => ({ granted: 0, retry_after_s: 7.2 }) })
    for (let i = 0; i < 2; i += 1) {
      const { status, code, headers } = await failureOf(await runCall(chat({}, PROGRAM), 'chat', w.deps))
      expect([status, code, headers.get('retry-after')]).toEqual([429, 'rate_limit_exceeded', '8'])
    }
    expect(w.saidTo('takeCalls')).toEqual([{ calls_per_minute_max: 2, wanted: 1 }])
    expect(w.saidTo('admit')).toEqual([])
  })

  it('are used up before more are asked for', async () => {
    const w = limited({ takeCalls: async () => ({ granted: 2, retry_after_s: 0 }) })
    for (let i = 0; i < 3; i += 1) expect((await runCall(chat(), 'chat', w.deps)).status).toBe(200)
    expect(w.saidTo('takeCalls')).toHaveLength(2)
  })

  it('that come at once share one question, and none is refused while the minute has calls left', async () => {
    const minute = 600
    let left = minute
    const takeCalls = async ({ wanted }: { wanted: number }) => {
      await new Promise((resolve) => setTimeout(resolve, 1))
      const granted = Math.min(wanted, left)
      left -= granted
      return { granted, retry_after_s: granted > 0 ? 0 : 5 }
    }
    const { it: w } = regional({
      deps: granted({ calls_per_minute_max: minute }),
      tenant: { takeCalls } as never,
      times: { median_timeout_ms: 60_000 },
    })
    const burst = async (calls: number) => {
      const responses = await Promise.all(Array.from({ length: calls }, () => runCall(chat(), 'chat', w.deps)))
      await Promise.all(responses.map((response) => response.text()))
      return responses.filter(({ status }) => status === 200).length
    }
    expect([await burst(60), await burst(60), await burst(60)]).toEqual([60, 60, 60])
    expect(minute - left).toBeLessThan(200)
  })

  it.each([
    ['fails', () => Promise.reject(new Error('overloaded'))],
    ['is silent', () => new Promise<never>(() => undefined)],
  ])(
    'are counted by the isolate while the tenant’s actor %s: a minute’s calls at once, and no more',
    async (_, takeCalls) => {
      let now_ms = 1_000_000
      const { it: w } = regional({
        deps: { ...granted({ calls_per_minute_max: 2 }), now: () => now_ms },
        tenant: { takeCalls } as never,
        times: { median_timeout_ms: 5 },
      })
      const status = async () => (await runCall(chat(), 'chat', w.deps)).status
      expect([await status(), await status(), await status()]).toEqual([200, 200, 429])
      now_ms += 30_000
      expect([await status(), await status()]).toEqual([200, 429])
    },
  )

  it('are the actor’s to count again once it answers', async () => {
    let answers = false
    const takeCalls = async () => {
      if (!answers) throw new Error('overloaded')
      return { granted: 1, retry_after_s: 0 }
    }
    const w = limited({ takeCalls })
    expect((await runCall(chat(), 'chat', w.deps)).status).toBe(200)
    expect(w.reports).toContain('permit_failed')
    answers = true
    for (let i = 0; i < 4; i += 1) expect((await runCall(chat(), 'chat', w.deps)).status).toBe(200)
  })
})

describe('a call whose regions and those of its program have none in common', () => {
  const { engines, ...regions } = { engines: { e0: answering('hi') }, regions: REGIONS }
  const program = { admit: async () => ({ ...ADMITTED, regions: ['far'] }) }

  it('is told of the header where the key may use both', async () => {
    const w = world({ engines, ...regions, program })
    const response = await runCall(chat({}, { ...PROGRAM, 'X-Program-Regions': 'near' }), 'chat', w.deps)
    expect(response.status).toBe(403)
    expect(await response.text()).toContain('The call names near, but its program may only use far.')
  })

  it('is told of the key where the key allows none of the program’s', async () => {
    const w = world({ engines, ...regions, program, deps: granted({ regions: ['near'] }) })
    const response = await runCall(chat({}, PROGRAM), 'chat', w.deps)
    expect(response.status).toBe(403)
    expect(await response.text()).toContain('This API key may not use far')
  })
})
