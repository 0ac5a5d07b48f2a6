/**
 * Ended programs in R2 and in their tenant's ArchiveActors: what they take there, that each is written once, what a late record
 * writes, what happens while a store refuses, and what is past its retention. And those that are still in D1.
 */
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { FULL_BYTES, ROW_BYTES, SEGMENT_BYTES_MAX, WAITING_BYTES_MAX } from '../../src/actors/archive.ts'
import { ARCHIVE_RETRY } from '../../src/actors/archive-retry.ts'
import type { ArchiveRpc } from '../../src/actors/contracts.ts'
import type { ActorDatabase } from '../../src/actors/storage/actor-database.ts'
import { programActor, tenantActor } from '../../src/actors/stubs.ts'
import { ProgramEntry } from '../../src/core/program/process-table.ts'
import { inShard } from '../../src/core/program/tenant-shards.ts'
import { knownLeases } from '../../src/store/archive.ts'
import { adoptLeases, EXPIRED_RUNS_AT_ONCE, endedRun } from '../../src/store/archive-changes.ts'
import { storeCall, storeLease } from '../../src/store/archive-rows.ts'
import { bulkUpsert } from '../../src/store/bulk-upsert.ts'
import { endedCalls, endedLeases } from '../../src/store/schema.ts'
import { dropSegments, RunPart, segmentKey } from '../../src/store/segments.ts'
import { onlyReads } from '../../src/store/sql-database.ts'
import type { Statement } from '../../src/store/statements.ts'
import { tenantById } from '../../src/store/tenants.ts'
import { replaceBindings, storedTables } from './actor-tools.ts'
import { endedCallsOf, endedRowsOf, keepRun, keepRunInD1, lastEnded, ownRows } from './archive-tools.ts'
import {
  admission,
  KEY_A,
  KEY_B,
  leaseOf,
  MODEL,
  openCall,
  programStub,
  provision,
  recordOf,
  request,
} from './fixtures.ts'

const TENANT = 'tenant-a'
const DAY_MS = 24 * 60 * 60_000

beforeAll(provision)
beforeEach(() => {
  const log = vi.spyOn(console, 'error').mockImplementation(() => undefined)
  return () => log.mockRestore()
})

const actor = (program: string) => programActor(env, TENANT, program)
const archiveStub = (tenant = TENANT) => env.ARCHIVE.getByName(tenant)
const refuse = async () => {
  throw new Error('refused')
}

async function rowsOf(program: string, of: D1Database = ownRows(TENANT)) {
  const count = async (table: string) => {
    const { results } = await of.prepare(`SELECT count(*) AS rows FROM ${table} WHERE program = ?`).bind(program).all()
    return results[0]?.rows
  }
  return {
    programs: await count('ended_programs'),
    calls: await count('ended_calls'),
    leases: await count('ended_leases'),
  }
}

/** A program with so many settled calls, its run ended. */
async function endedProgram(program: string, calls: number): Promise<string> {
  let run = ''
  for (let i = 0; i < calls; i++) run = await openCall(program, `${program}-${i}`)
  await actor(program).settle(Array.from({ length: calls }, (_, i) => recordOf(program, run, `${program}-${i}`)))
  await actor(program).end(Date.now())
  return run
}

/** Counts how often this program's actor has rows of its archive changed. */
async function countChanges(program: string) {
  const counted = { changes: 0 }
  const getByName = (name: string) => {
    const archive = env.ARCHIVE.getByName(name) as unknown as ArchiveRpc
    const run = (statements: readonly Statement[]) => {
      if (!statements.every(onlyReads)) counted.changes += 1
      return archive.run(statements)
    }
    return { run }
  }
  await replaceBindings(programStub(program), { ARCHIVE: { getByName } })
  return counted
}

describe('an ended program', () => {
  it('is one row, of any number of calls and not in D1, and the API reads its calls from R2', async () => {
    await endedProgram('lean', 5)
    expect(await rowsOf('lean')).toEqual({ programs: 1, calls: 0, leases: 0 })
    expect(await rowsOf('lean', env.DB)).toEqual({ programs: 0, calls: 0, leases: 0 })
    const seen: string[] = []
    let cursor = ''
    do {
      const response = await request('GET', `/v1/programs/lean/calls?limit=2${cursor}`, KEY_A)
      const page = await response.json<{ data: { id: string; leases: unknown[] }[]; next_cursor: string | null }>()
      seen.push(...page.data.map(({ id, leases }) => `${id} ${leases.length}`))
      cursor = page.next_cursor === null ? '' : `&cursor=${page.next_cursor}`
    } while (cursor !== '')
    expect(seen).toEqual(Array.from({ length: 5 }, (_, i) => `lean-${i} 1`))
  })

  it('without a call needs no segment', async () => {
    const put = vi.fn(refuse)
    await replaceBindings(archiveStub(), { BUCKET: { put } })
    await actor('empty').start({ tenant: TENANT, program: 'empty', app: null, metadata: null, now_ms: Date.now() })
    await actor('empty').end(Date.now())
    await evictDurableObject(archiveStub())
    expect(await lastEnded(TENANT, 'empty')).toMatchObject({ calls: 0 })
    expect(put).not.toHaveBeenCalled()
  })
})

describe('segments', () => {
  /** Keeps runs whose calls take so many bytes, at once; the object's own view, so that all come before R2 answers. */
  async function keep(name: string, sizes: readonly number[]) {
    const runs = await Promise.all(
      sizes.map(async (size, at) => {
        const entry = endedEntry(`${name}-${at}`, 0, Date.now(), 'tenant-s')
        const { row } = await endedRun(entry.rows(), entry.summary())
        return { row, calls: { body: new Uint8Array(size), calls_per_chunk: 500, chunk_bytes: [size] } }
      }),
    )
    return runInDurableObject(archiveStub('tenant-s'), async (instance) => {
      const archive = instance as unknown as ArchiveRpc
      const results = await Promise.allSettled(runs.map((run) => archive.keep(run)))
      return results.map(({ status }) => status)
    })
  }
  async function placesOf(name: string) {
    const { results } = await ownRows('tenant-s')
      .prepare('SELECT part FROM ended_programs WHERE program LIKE ? ORDER BY program')
      .bind(`${name}-%`)
      .all<{ part: string }>()
    return results.map(({ part }) => RunPart.parse(JSON.parse(part)))
  }

  it('hold the runs that come at the same time, one behind the other', async () => {
    await keep('together', [3, 4, 5])
    const places = await placesOf('together')
    expect(new Set(places.map((place) => place.segment)).size).toBe(1)
    expect(places.map((place) => place.offset)).toEqual([0, 3, 7])
    expect((await env.BUCKET.head(places[0]?.segment ?? ''))?.size).toBe(12)
  })

  it('are filled to their bound, and one past it begins the next', async () => {
    await keep('filled', [SEGMENT_BYTES_MAX - 2 * ROW_BYTES - 1, 1, 1])
    const places = await placesOf('filled')
    expect(places.map((place) => place.offset)).toEqual([0, SEGMENT_BYTES_MAX - 2 * ROW_BYTES - 1, 0])
    expect(places[1]?.segment).not.toBe(places[2]?.segment)
  })

  it('wait for R2 up to a bound, and a run past it is refused', async () => {
    const statuses = await keep('bounded', [WAITING_BYTES_MAX - 2 * ROW_BYTES - 1, 1, 1])
    expect(statuses).toEqual(['fulfilled', 'fulfilled', 'rejected'])
    expect(await placesOf('bounded')).toHaveLength(2)
  })
})

describe('while the tenant’s object refuses', () => {
  it('a run is written once, however often its alarm fires and its actor is evicted', async () => {
    const run = await openCall('stormy', 'stormy-0')
    await actor('stormy').settle([recordOf('stormy', run, 'stormy-0')])
    const tenant = { TENANT: { getByName: () => ({ programEnded: refuse, programFlushed: refuse }) } }
    const put = vi.fn((...value: Parameters<R2Bucket['put']>) => env.BUCKET.put(...value))
    await replaceBindings(archiveStub(), { BUCKET: { put } })
    await replaceBindings(programStub('stormy'), tenant)
    await actor('stormy').end(Date.now())
    for (let i = 0; i < 3; i++) {
      await replaceBindings(programStub('stormy'), tenant)
      await runDurableObjectAlarm(programStub('stormy'))
      await evictDurableObject(programStub('stormy'))
    }
    expect(await actor('stormy').describe(Date.now())).toMatchObject({ state: 'ended', run })
    expect(put).toHaveBeenCalledTimes(1)
    // A record that comes meanwhile is a change, and so is written.
    await openLate('stormy', run)
    expect(put).toHaveBeenCalledTimes(1)
    await runDurableObjectAlarm(programStub('stormy'))
    expect(put).toHaveBeenCalledTimes(2)
    expect(await actor('stormy').describe(Date.now())).toBeNull()
    expect(await lastEnded(TENANT, 'stormy')).toMatchObject({ run, service_us: 2_000 })
    await evictDurableObject(archiveStub())
  })

  async function openLate(program: string, run: string): Promise<void> {
    await actor(program).settle([recordOf(program, run, `${program}-late`)])
  }
})

describe('a record that comes after archiving', () => {
  it('writes its own rows and the program’s, of a run of any length, and a repeat writes nothing', async () => {
    const program = 'belated'
    let run = ''
    for (let i = 0; i < 40; i++) run = await openCall(program, `${program}-${i}`)
    const records = Array.from({ length: 40 }, (_, i) => recordOf(program, run, `${program}-${i}`))
    const late = records.pop()
    if (late === undefined) throw new Error('no record')
    await actor(program).settle(records)
    await actor(program).end(Date.now())
    const put = vi.fn(refuse)
    await replaceBindings(archiveStub(), { BUCKET: { put } })
    const counted = await countChanges(program)
    for (let i = 0; i < 3; i++) expect((await actor(program).settle([late])).confirmed).toEqual([late.lease])
    expect([counted, put.mock.calls.length]).toEqual([{ changes: 1 }, 0])
    expect(await rowsOf(program)).toEqual({ programs: 1, calls: 1, leases: 1 })
    expect(await lastEnded(TENANT, program)).toMatchObject({ calls: 40, service_us: 40_000 })
    const { calls } = await endedCallsOf({ tenant: TENANT, program, run }, null, 100)
    expect(calls.map(({ leases }) => leases.map(({ state }) => state).join())).toEqual(Array(40).fill('settled'))
    await evictDurableObject(archiveStub())
  })

  it('keeps when its call was preempted', async () => {
    const pauses: [number, number, boolean][] = [[200, 700, true]]
    let run = ''
    for (const call of ['paused-0', 'paused-1', 'paused-2']) run = await openCall('paused', call)
    const [first, late, plain] = ['paused-0', 'paused-1', 'paused-2'].map((call) => recordOf('paused', run, call))
    if (!(first && late && plain)) throw new Error('no records')
    await actor('paused').settle([{ ...first, pauses }])
    await actor('paused').end(Date.now())
    await actor('paused').settle([{ ...late, pauses }, plain])
    const { calls } = await endedCallsOf({ tenant: TENANT, program: 'paused', run }, null, 10)
    expect(calls.map(({ leases }) => leases[0]?.pauses)).toEqual([pauses, pauses, undefined])
  })

  it('of a call that the archive does not know is found on the last page', async () => {
    const run = await endedProgram('unknown', 2)
    await actor('unknown').settle([recordOf('unknown', run, 'unknown-forgotten')])
    const key = { tenant: TENANT, program: 'unknown', run }
    const first = await endedCallsOf(key, null, 2)
    expect(first.next).not.toBeNull()
    const { calls, next } = await endedCallsOf(key, first.next, 2)
    expect([calls.map(({ call }) => call), next]).toEqual([['unknown-forgotten'], null])
    expect(await lastEnded(TENANT, 'unknown')).toMatchObject({ calls: 3, service_us: 3_000 })
  })

  it('and names a run that no actor ever stored counts once, before and after its own run is archived', async () => {
    const run = await openCall('renamed', 'renamed-0')
    const record = recordOf('renamed', 'a-run-that-the-relay-made-up', 'renamed-0')
    for (let i = 0; i < 2; i++) expect((await actor('renamed').settle([record])).confirmed).toEqual([record.lease])
    await actor('renamed').end(Date.now())
    expect((await actor('renamed').settle([record])).confirmed).toEqual([record.lease])
    expect(await lastEnded(TENANT, 'renamed')).toMatchObject({ run, calls: 1, service_us: 1_000 })
    expect(await actor('renamed').describe(Date.now())).toBeNull()
  })

  it('of a run whose segment is past its retention is taken and changes nothing', async () => {
    const run = await endedProgram('expired', 1)
    await dropSegments(env.BUCKET, TENANT, Date.now() + 3 * DAY_MS)
    expect(await endedRowsOf({ tenant: TENANT, program: 'expired', run })).toEqual({ status: 'expired' })
    const record = recordOf('expired', run, 'expired-late')
    expect((await actor('expired').settle([record])).confirmed).toEqual([record.lease])
    expect(await lastEnded(TENANT, 'expired')).toMatchObject({ calls: 1, service_us: 1_000 })
    expect(await endedCallsOf({ tenant: TENANT, program: 'expired', run }, null, 10)).toEqual({
      ...{ calls: [], next: null, class: '' },
    })
  })
})

describe('runs that D1 has from before', () => {
  it('are listed with the others, and read, and take a late record there', async () => {
    const tenant = 'tenant-a'
    const now_ms = Date.now() + 60_000
    for (const [to, at] of [[keepRunInD1, 1] as const, [keepRun, 2] as const, [keepRunInD1, 3] as const]) {
      const entry = endedEntry(`among-${at}`, 2, now_ms + at, tenant)
      await to(entry.rows(), entry.summary())
    }
    const listed = await request('GET', '/v1/programs?state=ended&limit=2', KEY_A)
    const { data, next_cursor } = await listed.json<{ data: { id: string }[]; next_cursor: string }>()
    const more = await request('GET', `/v1/programs?state=ended&limit=1&cursor=${next_cursor}`, KEY_A)
    const { data: rest } = await more.json<{ data: { id: string }[] }>()
    expect([...data, ...rest].map(({ id }) => id)).toEqual(['among-3', 'among-2', 'among-1'])
    const late = recordOf('among-1', 'run-old', 'among-1-1')
    for (let i = 0; i < 2; i++) expect((await actor('among-1').settle([late])).confirmed).toEqual([late.lease])
    expect(await rowsOf('among-1')).toEqual({ programs: 0, calls: 0, leases: 0 })
    expect(await rowsOf('among-1', env.DB)).toEqual({ programs: 1, calls: 1, leases: 1 })
    expect(await lastEnded(tenant, 'among-1')).toMatchObject({ calls: 2, service_us: 2_000 })
  })

  it('and that come again, since their actor did not learn that D1 had them, are listed once', async () => {
    const entry = endedEntry('again', 1, Date.now() + 120_000)
    await keepRunInD1(entry.rows(), entry.summary())
    await keepRun(entry.rows(), entry.summary())
    const listed = await request('GET', '/v1/programs?state=ended&limit=2', KEY_A)
    const { data } = await listed.json<{ data: { id: string }[] }>()
    expect(data.map(({ id }) => id)).toEqual(['again', 'among-3'])
  })
})

describe('a tenant of several shards', () => {
  it('has each run in the archive of its shard, and all in its lists', async () => {
    const tenant = 'tenant-b'
    await tenantActor(env, tenant).hasShard(2)
    const run = (shard: number) => inShard('run-old', shard)
    for (const shard of [0, 1, 2]) {
      const entry = endedEntry(`in-${shard}`, 0, Date.now() + shard, tenant, run(shard))
      await keepRun(entry.rows(), entry.summary())
      expect(await rowsOf(`in-${shard}`, ownRows(tenant, shard))).toMatchObject({ programs: 1 })
    }
    const listed = await request('GET', '/v1/programs?state=ended&limit=3', KEY_B)
    const { data } = await listed.json<{ data: { id: string }[] }>()
    expect(data.map(({ id }) => id)).toEqual(['in-2', 'in-1', 'in-0'])
    expect((await request('GET', '/v1/programs/in-2', KEY_B)).status).toBe(200)
    expect(await endedRowsOf({ tenant, program: 'in-1', run: run(1) })).toMatchObject({ status: 'found' })
    // An older program of the same id is not taken for it.
    const again = endedEntry('in-2', 0, Date.now() - DAY_MS, tenant, run(1))
    await keepRun(again.rows(), again.summary())
    expect(await lastEnded(tenant, 'in-2')).toMatchObject({ run: run(2) })
  })
})

describe('a run that was archived before there was R2', () => {
  it('is read from D1, page by page, and takes a late record', async () => {
    const entry = endedEntry('old', 5, Date.now())
    const key = { tenant: TENANT, program: 'old', run: 'run-old' }
    await keepRunInD1({ ...entry.rows(), calls: [], leases: [] }, entry.summary())
    const { calls, leases } = entry.rows()
    const statements = [
      ...bulkUpsert(
        endedCalls,
        calls.map((call) => storeCall(key, call)),
        ['tenant', 'program', 'run', 'call'],
      ),
      ...bulkUpsert(
        endedLeases,
        leases.map((lease) => storeLease(key, lease)),
        ['lease'],
      ),
    ]
    await env.DB.batch(statements.map(({ sql, params }) => env.DB.prepare(sql).bind(...params)))
    const first = await endedCallsOf(key, null, 3)
    const second = await endedCallsOf(key, first.next, 3)
    expect([...first.calls, ...second.calls].map(({ call, leases: of }) => [call, of.length])).toEqual(
      Array.from({ length: 5 }, (_, i) => [`old-${i}`, 1]),
    )
    expect(second.next).toBeNull()
    const late = recordOf('old', 'run-old', 'old-4')
    for (let i = 0; i < 2; i++) expect((await actor('old').settle([late])).confirmed).toEqual([late.lease])
    expect(await lastEnded(TENANT, 'old')).toMatchObject({ calls: 5, service_us: 5_000 })
  })
})

describe('while R2 refuses', () => {
  it('an ended run stays, is tried ever more seldom, also across evictions, and is archived at last', async () => {
    await replaceBindings(archiveStub(), { BUCKET: { put: refuse } })
    const run = await endedProgram('patient', 1)
    expect(await lastEnded(TENANT, 'patient')).toBeNull()
    for (let failures = 2; failures < 5; failures++) {
      await runDurableObjectAlarm(programStub('patient'))
      const ceiling_ms = ARCHIVE_RETRY.min_ms * 2 ** (failures - 1)
      const pause_ms = await pauseOf('patient')
      expect(pause_ms).toBeGreaterThan(ceiling_ms / 2 - 10_000)
      expect(pause_ms).toBeLessThanOrEqual(ceiling_ms)
      await evictDurableObject(programStub('patient'))
    }
    expect(await actor('patient').describe(Date.now())).toMatchObject({ run, state: 'ended', service_us: 1_000 })
    await evictDurableObject(archiveStub())
    await runDurableObjectAlarm(programStub('patient'))
    expect(await lastEnded(TENANT, 'patient')).toMatchObject({ run, service_us: 1_000 })
    expect(await actor('patient').describe(Date.now())).toBeNull()
  })

  async function pauseOf(program: string): Promise<number> {
    const at_ms = await runInDurableObject(programStub(program), (_, { storage }) => storage.getAlarm())
    return (at_ms ?? 0) - Date.now()
  }
})

describe('what is past its retention', () => {
  it('leaves the archive, D1 and R2, of this tenant alone, and what is younger stays', async () => {
    const tenant = 'tenant-r'
    const retention_ms = Number(env.ARCHIVE_RETENTION_DAYS) * DAY_MS
    const old_ms = Date.now() - retention_ms - 1
    const segmentAt = async (of: string, at_ms: number) => {
      const key = segmentKey(of, at_ms, 'segment')
      await env.BUCKET.put(key, 'x')
      return key
    }
    const young = await segmentAt(tenant, old_ms)
    const other = await segmentAt('tenant-b', old_ms - 3 * DAY_MS)
    const old = await segmentAt(tenant, old_ms - 3 * DAY_MS)
    const keep = async (to: typeof keepRun, program: string, of: string, ended_ms: number) => {
      const entry = endedEntry(program, 0, ended_ms, of)
      await to(entry.rows(), entry.summary())
    }
    for (const [to, name] of [[keepRun, 'old'] as const, [keepRunInD1, 'older'] as const]) {
      for (let i = 0; i <= EXPIRED_RUNS_AT_ONCE; i++) await keep(to, `${name}-${i}`, tenant, old_ms - i)
      await keep(to, `${name}: young`, tenant, Date.now())
      await keep(to, `${name}: of another`, 'tenant-b', old_ms)
    }
    // One round drops segments, the next finds nothing more.
    for (let i = 0; i < 2; i++) expect(await runDurableObjectAlarm(archiveStub(tenant))).toBe(true)
    const left = async (of: D1Database) => {
      const { results } = await of
        .prepare("SELECT program FROM ended_programs WHERE program LIKE 'old%' ORDER BY program")
        .all()
      return results.map(({ program }) => program)
    }
    expect(await left(ownRows(tenant))).toEqual(['old: young'])
    expect(await left(ownRows('tenant-b'))).toEqual(['old: of another'])
    expect(await left(env.DB)).toEqual(['old', 'older: of another', 'older: young'])
    const there = await Promise.all([young, other, old].map(async (key) => (await env.BUCKET.head(key)) !== null))
    expect(there).toEqual([true, true, false])
  })

  it('and what comes while the last of it goes stays, adopted leases too', async () => {
    const tenant = 'tenant-l'
    const past_ms = Date.now() - Number(env.ARCHIVE_RETENTION_DAYS) * DAY_MS - 1
    const keep = async (program: string, ended_ms: number) => {
      const entry = endedEntry(program, 0, ended_ms, tenant)
      await keepRun(entry.rows(), entry.summary())
    }
    await keep('going', past_ms)
    const prepare = (text: string) => {
      if (!/^select/i.test(text)) return env.DB.prepare(text)
      const raw = async () => {
        await keep('coming', Date.now())
        return []
      }
      return { bind: () => ({ raw }) }
    }
    const batch = env.DB.batch.bind(env.DB)
    await replaceBindings(archiveStub(tenant), { DB: { prepare, batch } })
    expect(await runDurableObjectAlarm(archiveStub(tenant))).toBe(true)
    await replaceBindings(archiveStub(tenant), {})
    expect(await lastEnded(tenant, 'going')).toBeNull()
    expect(await lastEnded(tenant, 'coming')).toMatchObject({ program: 'coming' })
    const rows = ownRows(tenant)
    const adopted = { tenant, program: 'running', run: 'run-new' }
    await rows.prepare('DELETE FROM ended_programs').run()
    await adoptLeases(rows, adopted, ['lease-adopted'], Date.now())
    expect(await runDurableObjectAlarm(archiveStub(tenant))).toBe(true)
    expect(await knownLeases([rows], tenant, 'running', ['lease-adopted'])).toEqual(
      new Map([['lease-adopted', 'run-new']]),
    )
    await rows.prepare('DELETE FROM adopted_leases').run()
    expect(await runDurableObjectAlarm(archiveStub(tenant))).toBe(true)
    expect(await runInDurableObject(archiveStub(tenant), (_, state) => storedTables(state))).toEqual([])
  })

  it('an archive that fills has its tenant’s new programs spread over twice as many, at most once a day', async () => {
    const tenant = 'tenant-b'
    const log = vi.spyOn(console, 'warn').mockImplementation(() => undefined)
    const entry = endedEntry('last', 0, Date.now(), tenant)
    await keepRun(entry.rows(), entry.summary())
    const shards = async () => (await tenantById(env.DB, tenant))?.shards
    const look = async (bytes: number) => {
      await runInDurableObject(archiveStub(tenant), (instance) => {
        const { storage } = instance as unknown as { storage: ActorDatabase }
        Object.defineProperty(storage, 'bytes', { get: () => bytes, configurable: true })
      })
      expect(await runDurableObjectAlarm(archiveStub(tenant))).toBe(true)
    }
    await look(FULL_BYTES)
    expect(await shards()).toBe(1)
    for (let i = 0; i < 3; i++) await look(FULL_BYTES + 1)
    expect(await shards()).toBe(2)
    log.mockRestore()
  })

  it('is tried again with a growing pause while D1 refuses', async () => {
    const tenant = 'tenant-f'
    const entry = endedEntry('kept', 0, Date.now(), tenant)
    await keepRun(entry.rows(), entry.summary())
    const DB = { prepare: (text: string) => env.DB.prepare(text), batch: refuse }
    await replaceBindings(archiveStub(tenant), { DB })
    for (let failures = 1; failures < 4; failures++) {
      expect(await runDurableObjectAlarm(archiveStub(tenant))).toBe(true)
      const at_ms = await runInDurableObject(archiveStub(tenant), (_, { storage }) => storage.getAlarm())
      expect((at_ms ?? 0) - Date.now()).toBeGreaterThan(60_000 * 2 ** (failures - 2) - 10_000)
    }
  })
})

function endedEntry(program: string, calls: number, ended_ms: number, tenant = TENANT, run = 'run-old'): ProgramEntry {
  const entry = ProgramEntry.open({
    ...{ tenant, program, run, app: null, class: 'tenant', metadata: null },
    ...{ reading: 'modelled', now_ms: ended_ms - 1_000 },
  })
  for (let i = 0; i < calls; i++) {
    const { call, now_ms } = { call: `${program}-${i}`, now_ms: ended_ms - 900 + i }
    entry.admit({ ...admission(program, call), now_ms, model: MODEL })
    entry.leaseOpened({ ...leaseOf('run-old', call), now_ms })
    if (i < calls - 1) entry.settle(recordOf(program, 'run-old', call), now_ms)
  }
  entry.end(ended_ms, 'explicit')
  return entry
}
