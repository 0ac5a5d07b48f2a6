/** TenantActor: pages that neither skip nor repeat, the median, and the index at its bound. */
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { describe, expect, it, vi } from 'vitest'
import type { ProgramListed } from '../../src/actors/contracts.ts'
import {
  CHANGES_WRITTEN_MS,
  DEAD_SLACK_MS,
  OPENING_EXPIRY_MS,
  PROGRAMS_INDEXED_MAX,
  PROGRAMS_LEFT_OUT,
  ProgramIndex,
  RUNNING_PAGE_MAX,
} from '../../src/actors/program-index.ts'
import { ActorDatabase } from '../../src/actors/storage/actor-database.ts'
import { tenantMigrations } from '../../src/actors/storage/migrations.gen.ts'
import { tenantActor } from '../../src/actors/stubs.ts'
import { STALE_OPEN_FACTOR } from '../../src/core/program/staleness.ts'

const listed = (program: string, change: Partial<ProgramListed> = {}): ProgramListed => ({
  ...{ program, run: 'run-1', app: null, started_at_ms: 1_000, last_arrival_ms: 1_000, open_calls: 0, calls: 1 },
  ...{ service_us: 0, class: 'tenant', output_tokens: 0 },
  source: null,
  ...change,
})

describe('a row whose program is gone', () => {
  const room = (tenant: string) => tenantActor(env, tenant).roomForProgram({ program: 'next', live_programs_max: 2 })
  const stale_ms = Number(env.PROGRAM_STALE_AFTER_S) * 1000

  it.each([
    [0, 1],
    [1, STALE_OPEN_FACTOR],
  ])('counts until it must have gone stale, with %i open calls', async (open_calls, factor) => {
    const tenant = `dead-${open_calls}`
    await tenantActor(env, tenant).programFlushed(listed('late', { open_calls }))
    await tenantActor(env, tenant).programFlushed(listed('alive'))
    const now_ms = Date.now()
    try {
      vi.useFakeTimers({ toFake: ['Date'], now: now_ms + factor * stale_ms })
      expect(await tenantActor(env, tenant).runningCount()).toBe(2)
      await tenantActor(env, tenant).programFlushed(listed('alive'))
      expect(await room(tenant)).toBe(false)
      vi.setSystemTime(now_ms + factor * stale_ms + DEAD_SLACK_MS + 60_000)
      expect(await room(tenant)).toBe(true)
      const { programs } = (await tenantActor(env, tenant).running({ cursor: null, limit: 10 })) ?? { programs: [] }
      expect(programs.map(({ program }) => program)).toEqual(['alive'])
    } finally {
      vi.useRealTimers()
    }
  })
})

describe('the list of running programs', () => {
  it('comes newest first in pages that neither skip nor repeat, programs of one millisecond included', async () => {
    const tenant = tenantActor(env, 'paging')
    const programs = Array.from({ length: 25 }, (_, i) => listed(`program-${i}`, { started_at_ms: Math.floor(i / 10) }))
    for (const program of programs) await tenant.programFlushed(program)
    await evictDurableObject(env.TENANT.getByName('paging'))
    const seen: ProgramListed[] = []
    let cursor: string | null = null
    do {
      const page: Awaited<ReturnType<typeof tenant.running>> = await tenant.running({ cursor, limit: 7 })
      seen.push(...(page?.programs ?? []))
      cursor = page?.next ?? null
    } while (cursor !== null)
    expect(seen).toHaveLength(25)
    expect(new Set(seen.map(({ program }) => program)).size).toBe(25)
    expect(seen.map(({ started_at_ms }) => started_at_ms)).toEqual(
      seen.map((p) => p.started_at_ms).toSorted((a, b) => b - a),
    )
  })

  it('is bounded in a page', async () => {
    const tenant = tenantActor(env, 'page-bound')
    await Promise.all(
      Array.from({ length: RUNNING_PAGE_MAX + 1 }, (_, i) => tenant.programFlushed(listed(`program-${i}`))),
    )
    expect((await tenant.running({ cursor: null, limit: 10_000 }))?.programs).toHaveLength(RUNNING_PAGE_MAX)
  })

  it('loses only the run that ended', async () => {
    const tenant = tenantActor(env, 'runs')
    await tenant.programFlushed(listed('reopened', { run: 'run-2' }))
    await tenant.programEnded('reopened', 'run-1')
    expect((await tenant.running({ cursor: null, limit: 10 }))?.programs).toHaveLength(1)
    await tenant.programEnded('reopened', 'run-2')
    expect((await tenant.running({ cursor: null, limit: 10 }))?.programs).toEqual([])
  })

  it('has what was told since the row was written, and storage has it a minute later', async () => {
    const tenant = tenantActor(env, 'changes')
    const stub = env.TENANT.getByName('changes')
    const stored = () =>
      runInDurableObject(stub, (_, state) =>
        state.storage.sql.exec('SELECT calls FROM programs ORDER BY program').toArray(),
      )
    const listedCalls = async () =>
      (await tenant.running({ cursor: null, limit: 10 }))?.programs.map(({ calls }) => calls)
    for (const program of ['a', 'b']) await tenant.programFlushed(listed(program))
    const told_ms = Date.now()
    await tenant.programFlushed(listed('a', { calls: 2 }))
    await tenant.programFlushed(listed('a', { calls: 3 }))
    await tenant.programFlushed(listed('b', { calls: 7 }))
    // Of a run that is over nothing is written later.
    await tenant.programEnded('b', 'run-1')
    await tenant.programFlushed(listed('b', { run: 'run-2', calls: 1 }))
    expect([await stored(), await listedCalls()]).toEqual([
      [{ calls: 1 }, { calls: 1 }],
      [3, 1],
    ])
    const alarm_ms = await runInDurableObject(stub, (_, state) => state.storage.getAlarm())
    expect(alarm_ms).toBeGreaterThanOrEqual(told_ms + CHANGES_WRITTEN_MS)
    expect(alarm_ms).toBeLessThanOrEqual(Date.now() + CHANGES_WRITTEN_MS)
    expect(await runDurableObjectAlarm(stub)).toBe(true)
    expect([await stored(), await listedCalls()]).toEqual([
      [{ calls: 3 }, { calls: 1 }],
      [3, 1],
    ])
    // Nothing is due: no alarm is set, and none costs a row.
    expect(await runInDurableObject(stub, (_, state) => state.storage.getAlarm())).toBeNull()
    await evictDurableObject(stub)
    expect(await listedCalls()).toEqual([3, 1])
    await tenant.programFlushed(listed('a', { calls: 4 }))
    expect([await stored(), await listedCalls()]).toEqual([
      [{ calls: 3 }, { calls: 1 }],
      [4, 1],
    ])
  })

  it('is written at once where rows cost nothing', async () => {
    const later = vi.fn()
    await runInDurableObject(env.TENANT.getByName('own-machine'), async (_, { storage }) => {
      const database = new ActorDatabase(storage, tenantMigrations)
      const index = new ProgramIndex(database, { stale_after_ms: 60_000, gathers: false, later })
      for (const calls of [1, 2]) await index.told(listed('a', { calls }))
      expect(storage.sql.exec('SELECT calls FROM programs').one()).toEqual({ calls: 2 })
    })
    expect(later).not.toHaveBeenCalled()
  })

  it('asks for another alarm where one could not be set', async () => {
    const tenant = tenantActor(env, 'refused-alarm')
    const stub = env.TENANT.getByName('refused-alarm')
    const logged = vi.spyOn(console, 'error').mockImplementation(() => undefined)
    await tenant.programFlushed(listed('a'))
    await runInDurableObject(stub, (_, { storage }) => {
      const setAlarm = storage.setAlarm.bind(storage)
      const refuseOnce = vi.fn(setAlarm).mockRejectedValueOnce(new Error('the disk is full'))
      Object.defineProperty(storage, 'setAlarm', { value: refuseOnce })
    })
    await tenant.programFlushed(listed('a', { calls: 2 }))
    expect(logged).toHaveBeenCalledWith(expect.stringContaining('alarm_not_set'))
    await tenant.programFlushed(listed('a', { calls: 3 }))
    expect(await runDurableObjectAlarm(stub)).toBe(true)
    expect(
      await runInDurableObject(stub, (_, { storage }) => storage.sql.exec('SELECT calls FROM programs').one()),
    ).toEqual({
      calls: 3,
    })
    logged.mockRestore()
  })

  it.each(['abc', '!', '', 'W10', 'x'.repeat(2_000)])('refuses the cursor %s', async (cursor) => {
    expect(await tenantActor(env, 'cursors').running({ cursor, limit: 10 })).toBeNull()
  })

  it('leaves out the longest-running programs past its bound', async () => {
    const tenant = tenantActor(env, 'full')
    await tenant.programFlushed(listed('oldest', { started_at_ms: 1 }))
    await runInDurableObject(env.TENANT.getByName('full'), (_, state) => {
      state.storage.sql.exec(
        `WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
         INSERT INTO programs SELECT 'program-' || i, 'run-1', NULL, i, i, 0, 0, 0, NULL, 0, '', 0 FROM n`,
        PROGRAMS_INDEXED_MAX,
      )
    })
    await evictDurableObject(env.TENANT.getByName('full'))
    await tenant.programFlushed(listed('oldest', { started_at_ms: 1, calls: 2 }))
    expect(await indexed('full')).toEqual({ rows: PROGRAMS_INDEXED_MAX, oldest: 1 })
    await tenant.programFlushed(listed('one-more', { started_at_ms: 200_000 }))
    const rows = PROGRAMS_INDEXED_MAX - PROGRAMS_LEFT_OUT + 1
    expect(await indexed('full')).toEqual({ rows, oldest: PROGRAMS_LEFT_OUT + 1 })
    expect(await tenant.runningCount()).toBe(rows)
  })
})

describe('the median', () => {
  it('is of the attained service of running programs, 0 for none', async () => {
    const tenant = tenantActor(env, 'median')
    expect(await tenant.medianService()).toEqual({ settled_service_us: 0 })
    for (const service_us of [5, 1, 9, 7, 3])
      await tenant.programFlushed(listed(`program-${service_us}`, { service_us }))
    expect(await tenant.medianService()).toEqual({ settled_service_us: 5 })
  })

  it('leaves programs alone that have not called for long, past its sample', async () => {
    const tenant = tenantActor(env, 'sample')
    await tenant.programFlushed(listed('first'))
    await runInDurableObject(env.TENANT.getByName('sample'), (_, state) => {
      state.storage.sql.exec(
        `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
         INSERT INTO programs SELECT 'program-' || i, 'run-1', NULL, i, i, 0, 0, CASE WHEN i > 2000 THEN 7 ELSE 1 END, NULL, 0, '', 0 FROM n`,
      )
    })
    expect(await tenant.medianService()).toEqual({ settled_service_us: 7 })
  })
})

function indexed(tenant: string) {
  return runInDurableObject(env.TENANT.getByName(tenant), (_, state) =>
    state.storage.sql.exec('SELECT count(*) AS rows, min(started_at_ms) AS oldest FROM programs').one(),
  )
}

describe('room for programs', () => {
  const room = (tenant: string, program: string, live_programs_max = 2) =>
    tenantActor(env, tenant).roomForProgram({ program, live_programs_max })

  it('is given up to the limit, to those in the index and those on their way alike', async () => {
    const tenant = tenantActor(env, 'roomy')
    await tenant.programFlushed(listed('a'))
    expect(await room('roomy', 'b')).toBe(true)
    expect(await room('roomy', 'c')).toBe(false)
    // Those that run have their room; asking again takes no more.
    expect([await room('roomy', 'a'), await room('roomy', 'b')]).toEqual([true, true])
    await tenant.programFlushed(listed('b'))
    expect(await room('roomy', 'c')).toBe(false)
    await tenant.programEnded('a', 'run-1')
    expect(await room('roomy', 'c')).toBe(true)
    expect(await room('roomy', 'd')).toBe(false)
  })

  it('is not taken by programs that nobody named', async () => {
    await tenantActor(env, 'unnamed').programFlushed(listed('a', { source: 'conversation' }))
    await tenantActor(env, 'unnamed').programFlushed(listed('b', { source: 'header' }))
    expect([await room('unnamed', 'c'), await room('unnamed', 'd')]).toEqual([true, false])
  })

  it('is counted from the index after an eviction', async () => {
    for (const program of ['a', 'b']) await tenantActor(env, 'evicted-room').programFlushed(listed(program))
    await evictDurableObject(env.TENANT.getByName('evicted-room'))
    expect(await room('evicted-room', 'c')).toBe(false)
    expect(await room('evicted-room', 'c', 3)).toBe(true)
  })

  it('is forgotten for a program that never came', async () => {
    expect([await room('ghosts', 'a', 1), await room('ghosts', 'b', 1)]).toEqual([true, false])
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + OPENING_EXPIRY_MS })
    expect(await room('ghosts', 'b', 1)).toBe(true)
    vi.useRealTimers()
  })
})

describe('calls a minute', () => {
  const take = (wanted: number) => tenantActor(env, 'rated').takeCalls({ calls_per_minute_max: 5, wanted })

  it('are given up to the limit, and what was taken is remembered over an eviction', async () => {
    expect(await take(3)).toEqual({ granted: 3, retry_after_s: 0 })
    expect((await take(3)).granted).toBe(2)
    const refused = await take(1)
    expect(refused.granted).toBe(0)
    expect(refused.retry_after_s).toBeGreaterThan(0)
    const stub = env.TENANT.getByName('rated')
    await expect.poll(() => runInDurableObject(stub, (_, state) => state.storage.get('calls'))).toBeDefined()
    await evictDurableObject(stub)
    expect((await take(1)).granted).toBe(0)
  })
})
