/** Serving beats ordering: a call whose actors are slow, broken or full, through a scripted world. */
import { describe, expect, it } from 'vitest'
import type { LeaseReply } from '../actors/contracts.ts'
import { ASKS_WHILE_READING_MAX } from './lease.ts'
import { PoolMemory } from './pool-memory.ts'
import { runCall } from './run-call.ts'
import {
  ADMITTED,
  answering,
  chat,
  claimsWorld,
  failureOf,
  leaseOf,
  PROGRAM,
  snapshotOf,
  type World,
  world,
} from './testing/world.ts'

describe('an actor that is slow or broken', () => {
  const never = new Promise<never>(() => {})

  it('admit: the call goes on unpinned at the tenant’s median, under a run that no actor has', async () => {
    for (const admit of [() => never, () => Promise.reject(Object.assign(new Error('x'), { overloaded: true }))]) {
      const { it, claims } = claimsWorld({ program: { admit }, times: { admit_timeout_ms: 10 } })
      const response = await runCall(chat({}, PROGRAM), 'chat', it.deps)
      expect(response.status).toBe(200)
      expect(claims[0]).toMatchObject({ program: 'p', settled_service_us: 77 })
      expect(claims[0]?.run).not.toBe('run-1')
    }
  })

  it('admit that answers late still hears how its call went, in its own run', async () => {
    const { promise, resolve } = Promise.withResolvers<typeof ADMITTED>()
    const it = world({
      engines: { e0: answering('x') },
      program: { admit: () => promise },
      times: { admit_timeout_ms: 10 },
    })
    await (await runCall(chat({}, PROGRAM), 'chat', it.deps)).text()
    expect(it.saidTo('callEnded')).toEqual([])
    resolve(ADMITTED)
    await it.settled()
    expect(it.said.filter(({ to }) => to === 'program').map(({ method }) => method)).toEqual([
      'admit',
      'leaseOpened',
      'callEnded',
    ])
    expect(it.saidTo('callEnded')).toMatchObject([{ run: 'run-1', outcome: 'completed' }])
  })

  it('admit and the tenant both: the call goes on at service 0', async () => {
    const options = { program: { admit: () => never }, tenant: { medianService: () => never } }
    const { it, claims } = claimsWorld({ ...options, times: { admit_timeout_ms: 5, median_timeout_ms: 5 } })
    expect((await runCall(chat({}, PROGRAM), 'chat', it.deps)).status).toBe(200)
    expect(claims[0]?.settled_service_us).toBe(0)
  })

  it('pool: the isolate’s last snapshot decides; without one it is 503', async () => {
    const pools = new PoolMemory()
    const pool = { lease: (): Promise<LeaseReply> => never }
    const times = { pool_timeout_ms: 10 }
    const blind = world({ engines: { e0: answering('x') }, pool, times, pools })
    const { status, code, headers } = await failureOf(await runCall(chat({}, PROGRAM), 'chat', blind.deps))
    expect({ status, code }).toEqual({ status: 503, code: 'no_engine' })
    expect(Number(headers.get('retry-after'))).toBeGreaterThan(0)
    await blind.settled()
    expect(blind.saidTo('callEnded')).toMatchObject([{ outcome: 'failed', error_code: 'no_engine' }])

    const seeing = world({
      pool: { lease: async () => leaseOf('e0', snapshotOf(['e0'])) },
      engines: { e0: answering('x') },
      pools,
    })
    await (await runCall(chat(), 'chat', seeing.deps)).text()
    const it = world({ engines: { e0: answering('x') }, pool, times, pools })
    expect((await runCall(chat({}, PROGRAM), 'chat', it.deps)).status).toBe(200)
    await it.settled()
    expect(it.saidTo('leaseOpened')).toMatchObject([{ engine: 'e0', reason: 'snapshot' }])
  })

  it('a pool that still reads what its agents reported is asked again, and one that never ends is not asked for ever', async () => {
    let asks = 0
    const reading = {
      status: 'none',
      retry_after_s: 5,
      ticket_kid: null,
      snapshot: null,
      charges: [],
      is_reading: true,
    }
    const later = { lease: async () => (++asks < 4 ? reading : leaseOf('e0')) as LeaseReply }
    const it = world({ engines: { e0: answering('x') }, pool: later })
    expect((await runCall(chat({}, PROGRAM), 'chat', it.deps)).status).toBe(200)
    expect(asks).toBe(4)
    const never = world({ engines: { e0: answering('x') }, pool: { lease: async () => reading as LeaseReply } })
    const { status, code } = await failureOf(await runCall(chat({}, PROGRAM), 'chat', never.deps))
    expect({ status, code }).toEqual({ status: 503, code: 'no_engine' })
    expect(never.saidTo('lease')).toHaveLength(ASKS_WHILE_READING_MAX)
  })

  it('lost settle notes are reported and do not affect the call', async () => {
    const leaseOpened = () => Promise.reject(new Error('gone'))
    const it = world({ engines: { e0: answering('x') }, program: { leaseOpened } })
    expect((await runCall(chat({}, PROGRAM), 'chat', it.deps)).status).toBe(200)
    await it.settled()
    expect(it.reports).toEqual(['note_failed'])
    expect(it.endings()).toHaveLength(1)
  })
})

describe('regions', () => {
  it('the next region is asked when the near one is too full, and the reason says so', async () => {
    const asked: string[] = []
    const it = world({
      ...{ engines: { e0: answering('x') }, regions: ['near', 'far'] },
      program: { admit: async () => ({ ...ADMITTED, class: 'tenant' }) },
    })
    const deps = {
      ...it.deps,
      pool: (region: { id: string }) => {
        asked.push(region.id)
        const lease = async (): Promise<LeaseReply> =>
          region.id === 'near'
            ? { status: 'busy', load: 9, ticket_kid: null, snapshot: null, charges: [] }
            : leaseOf('e0')
        return { lease } as unknown as ReturnType<World['deps']['pool']>
      },
    }
    const response = await runCall(chat({}, PROGRAM), 'chat', deps)
    await it.settled()
    expect(asked).toEqual(['near', 'far'])
    expect(response.headers.get('x-region')).toBe('far')
    expect(it.saidTo('leaseOpened')).toMatchObject([{ region: 'far', reason: 'spilled' }])
  })
})
