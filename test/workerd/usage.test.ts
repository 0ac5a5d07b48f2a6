/** Usage of calls that belong to no program: metered once per lease, by day, key and model, for the tenant whose call it was. */
import { evictDurableObject, runInDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { tenantActor } from '../../src/actors/stubs.ts'
import type { LeaseTerms } from '../../src/core/call/lease-terms.ts'
import { type CallRecord, RECORDS_PER_BATCH_MAX } from '../../src/protocol/index.ts'
import {
  ageCountedLeases,
  countedTables,
  KEY_A,
  KEY_B,
  proven,
  provision,
  recordOf,
  request,
  TOKEN_EAST,
} from './fixtures.ts'

const KEY_1 = 'key-00000000000000a1'
const KEY_2 = 'key-00000000000000a2'
const DAY_MS = 24 * 60 * 60 * 1000

interface Row {
  day: string
  key: string | null
  model: string
  calls: number
  leases: number
  output_tokens: number
  service_wall_s: number
}

beforeAll(provision)
beforeEach(() => {
  const log = vi.spyOn(console, 'error').mockImplementation(() => undefined)
  return () => log.mockRestore()
})

let next = 0
/** Of a call that belongs to no program; each has a tenant of its own, unless one is named. */
function alone(change: Partial<CallRecord> = {}): CallRecord {
  const call = `alone-${next++}`
  return recordOf(call, call, call, change)
}

async function send(records: readonly CallRecord[], terms: Partial<LeaseTerms> = {}): Promise<string[]> {
  const granted_at_ms = Date.now()
  const signed = await Promise.all(records.map((record) => proven(record, { granted_at_ms, key: KEY_1, ...terms })))
  const body = { agent: 'agent-east', records: signed }
  const response = await request('POST', '/agents/v1/records', TOKEN_EAST, body)
  return ((await response.json()) as { acknowledged: string[] }).acknowledged
}

async function usageOf(key: string, query = ''): Promise<{ data: Row[]; next_cursor: string | null }> {
  const response = await request('GET', `/v1/usage${query}`, key)
  expect(response.status).toBe(200)
  return (await response.json()) as { data: Row[]; next_cursor: string | null }
}

/** On that of `tenant-a`. */
function onStorage<T>(work: (sql: SqlStorage) => T): Promise<T> {
  return runInDurableObject(tenantActor(env, 'tenant-a') as never, (_: unknown, state: DurableObjectState) =>
    work(state.storage.sql),
  )
}

/** Forgets what earlier tests metered. */
async function clear(tenant: string): Promise<void> {
  await runInDurableObject(tenantActor(env, tenant) as never, async (_: unknown, state: DurableObjectState) => {
    const tables = state.storage.sql.exec("SELECT name FROM sqlite_master WHERE name = 'usage'").toArray()
    if (tables.length === 0) return
    state.storage.sql.exec('DELETE FROM usage')
    for (const table of countedTables(state.storage.sql)) state.storage.sql.exec(`DELETE FROM ${table}`)
  })
}
beforeEach(async () => {
  await clear('tenant-a')
  await clear('tenant-b')
})

describe('usage outside of programs', () => {
  it('is metered by tenant, key and model', async () => {
    const [one, two] = [alone({ output_tokens: 3 }), alone({ output_tokens: 4 })]
    expect((await send([one, two])).toSorted()).toEqual([one.lease, two.lease].toSorted())
    await send([alone({ output_tokens: 50 })], { key: KEY_2 })
    await send([alone({ output_tokens: 600 })], { key: null })
    await send([alone({ output_tokens: 7000, tenant: 'tenant-b' })])
    const { data } = await usageOf(KEY_A)
    expect(data.map(({ key, calls, output_tokens }) => ({ key, calls, output_tokens }))).toEqual([
      { key: KEY_2, calls: 1, output_tokens: 50 },
      { key: KEY_1, calls: 2, output_tokens: 7 },
      { key: null, calls: 1, output_tokens: 600 },
    ])
    expect((await usageOf(KEY_B)).data).toMatchObject([{ key: KEY_1, output_tokens: 7000 }])
  })

  it('counts a lease once, however often and with which others its record comes', async () => {
    const records = [alone(), alone(), alone()]
    await Promise.all([send(records), send(records), send([...records, ...records])])
    await send(records.slice(1))
    expect((await usageOf(KEY_A)).data).toMatchObject([{ calls: 3, leases: 3, output_tokens: 15 }])
  })

  it('counts a call once whose engine was replaced, and all of its leases', async () => {
    const first = alone({ outcome: 'failed', finish_reason: null, error_code: 'engine_failed' })
    const second = { ...first, lease: `${first.lease}-2`, outcome: 'completed' as const, error_code: null }
    await send([first])
    await send([second])
    const moved = { swapped_out_tokens: 24, swapped_in_tokens: 16, recomputed_tokens: 6, swap_s: 0.00012 }
    expect((await usageOf(KEY_A)).data).toMatchObject([{ calls: 1, leases: 2, service_wall_s: 0.004, ...moved }])
  })

  it('takes a whole batch', async () => {
    const records = Array.from({ length: RECORDS_PER_BATCH_MAX }, () => alone())
    expect(await send(records)).toHaveLength(RECORDS_PER_BATCH_MAX)
    expect((await usageOf(KEY_A)).data).toMatchObject([{ calls: RECORDS_PER_BATCH_MAX, leases: RECORDS_PER_BATCH_MAX }])
  })

  it('counts for the day on which the lease was granted, and pages from the newest', async () => {
    const now_ms = Date.now()
    for (const days of [2, 0, 1]) await send([alone()], { granted_at_ms: now_ms - days * DAY_MS })
    const days = [0, 1, 2].map((days) => new Date(now_ms - days * DAY_MS).toISOString().slice(0, 10))
    const first = await usageOf(KEY_A, '?limit=2')
    expect(first.data.map(({ day }) => day)).toEqual(days.slice(0, 2))
    const second = await usageOf(KEY_A, `?limit=2&cursor=${first.next_cursor}`)
    expect(second).toMatchObject({ data: [{ day: days[2] }], next_cursor: null })
    expect((await request('GET', '/v1/usage?cursor=xyz', KEY_A)).status).toBe(400)
  })

  it('is not acknowledged while its tenant cannot store it, and neither lost nor doubled then', async () => {
    const record = alone()
    const stub = tenantActor(env, 'tenant-a') as never
    await runInDurableObject(stub, (instance: object) => {
      const writable = async () => {
        throw new Error('storage is down')
      }
      Object.defineProperty(Reflect.get(instance, 'storage'), 'writable', { value: writable, configurable: true })
    })
    const other = alone({ tenant: 'tenant-b' })
    expect(await send([record, other])).toEqual([other.lease])
    await runInDurableObject(stub, (instance: object) => {
      Reflect.deleteProperty(Reflect.get(instance, 'storage'), 'writable')
    })
    expect(await send([record, other])).toEqual(expect.arrayContaining([record.lease, other.lease]))
    expect((await usageOf(KEY_A)).data).toMatchObject([{ calls: 1, leases: 1 }])
  })

  it('remembers a lease for seven days, forgets it then, and goes on from the sums', async () => {
    const age = async (days: number) => {
      await onStorage((sql) => ageCountedLeases(sql, days))
      await evictDurableObject(tenantActor(env, 'tenant-a') as never)
    }
    const granted_at_ms = Date.now() - 6 * DAY_MS
    const record = alone()
    await send([record], { granted_at_ms })
    await age(7)
    await send([record], { granted_at_ms })
    expect((await usageOf(KEY_A)).data).toMatchObject([{ calls: 1 }])
    await send([alone()])
    expect(await onStorage(countedTables)).toHaveLength(2)
    await age(2)
    await send([alone()])
    expect(await onStorage(countedTables)).toHaveLength(3)
    await age(9)
    await send([alone()])
    expect(await onStorage(countedTables)).toHaveLength(2)
    expect((await usageOf(KEY_A)).data.map(({ calls }) => calls)).toEqual([3, 1])
  })

  it('remembers what an earlier version counted, until its time is over', async () => {
    const records = [alone(), alone()]
    const [first, second] = records as [CallRecord, CallRecord]
    await send([alone()])
    const day = Math.floor(Date.now() / DAY_MS)
    const earlier = (record: CallRecord, back: number) =>
      onStorage((sql) => {
        for (const table of countedTables(sql)) sql.exec(`DROP TABLE ${table}`)
        sql.exec('INSERT INTO counted_leases VALUES (?, ?, ?, ?)', day - back, record.call, record.lease, '')
      })
    await earlier(first, 7)
    await earlier(second, 0)
    await evictDurableObject(tenantActor(env, 'tenant-a') as never)
    await send(records)
    expect((await usageOf(KEY_A)).data).toMatchObject([{ calls: 1 }])
    await send([alone()])
    await onStorage((sql) => ageCountedLeases(sql, 9))
    await evictDurableObject(tenantActor(env, 'tenant-a') as never)
    await send([alone()])
    const left = await onStorage((sql) => sql.exec('SELECT * FROM counted_leases').toArray())
    expect(left).toEqual([])
    expect((await usageOf(KEY_A)).data).toMatchObject([{ calls: 3 }])
  })

  it('is shown to the operator, and to no tenant without a key', async () => {
    await send([alone()])
    const shown = await request('GET', '/admin/v1/tenants/tenant-a/usage', env.ADMIN_KEY)
    expect(await shown.json()).toMatchObject({ data: [{ object: 'usage', key: KEY_1, calls: 1 }], has_more: false })
    expect((await request('GET', '/admin/v1/tenants/nobody/usage', env.ADMIN_KEY)).status).toBe(404)
    expect((await request('GET', '/admin/v1/tenants/tenant-a/usage?cursor=xyz', env.ADMIN_KEY)).status).toBe(400)
    expect((await request('GET', '/v1/usage', 'sk-sy-wrong')).status).toBe(401)
  })
})
