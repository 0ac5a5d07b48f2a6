/** A tenant's memory of the leases that count: how long, when its storage is nearly full, and what a restart reads of it. */
import { runInDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { afterEach, expect, it, vi } from 'vitest'
import type { PricedRecord } from '../../src/actors/contracts.ts'
import { CountedLeases } from '../../src/actors/counted-leases.ts'
import { FOLD_AFTER_MS, SpendBacklog } from '../../src/actors/spend-backlog.ts'
import { ActorDatabase } from '../../src/actors/storage/actor-database.ts'
import { tenantMigrations } from '../../src/actors/storage/migrations.gen.ts'
import { USAGE_PAGE_MAX, UsageMeter } from '../../src/actors/usage-meter.ts'
import { dayOf, NO_CHARGE } from '../../src/core/budget/charge.ts'
import type { RunSpendTold } from '../../src/core/budget/run-spend.ts'
import { ageCountedLeases, countedTables, recordOf } from './fixtures.ts'

const DAY_MS = 24 * 60 * 60 * 1000
const PER_BATCH = 200
const BATCHES = 7
const OUTPUT_TOKENS = 3
/** Of some 500 leases, and the tables. */
const BYTES_MAX = 120_000

function records(name: string, change: Partial<PricedRecord> = {}, leases = PER_BATCH): PricedRecord[] {
  return Array.from({ length: leases }, (_, at) => {
    const call = `${name}-${at}`
    const record = recordOf(call, call, call, { output_tokens: OUTPUT_TOKENS })
    return {
      ...record,
      class: 'default',
      key: null,
      granted_at_ms: Date.now(),
      prices: null,
      ...change,
    } as PricedRecord
  })
}

/** As after a restart. */
function restarted(storage: DurableObjectStorage, bytes_max?: number) {
  const database = new ActorDatabase(storage, tenantMigrations)
  const leases = new CountedLeases()
  const backlog = new SpendBacklog(leases)
  const meter = new UsageMeter(database, { budgets: { charged: () => undefined }, leases, backlog }, bytes_max)
  const spent = async () => {
    const today = new Date().toISOString().slice(0, 10)
    const asked = {
      per: 'day',
      by: 'total',
      name: null,
      from: '2020-01-01',
      to: today,
      cursor: null,
      limit: 1,
    } as const
    return (await meter.spend(asked))?.spend[0]
  }
  return { database, meter, spent }
}

afterEach(() => {
  vi.useRealTimers()
})

const inObject = (name: string, work: (storage: DurableObjectStorage) => Promise<void>) =>
  runInDurableObject(env.CONVERSATION.getByName(name) as never, async (_: unknown, { storage }: DurableObjectState) => {
    await storage.deleteAll()
    await work(storage)
  })
const rowsOf = ({ sql }: DurableObjectStorage, table: string) =>
  sql.exec<{ rows: number }>(`SELECT count(*) AS rows FROM ${table}`).one().rows

it('leases of the oldest day are forgotten first, and records go on being counted once', async () => {
  await inObject('full-tenant', async (storage) => {
    let { meter, database } = restarted(storage, BYTES_MAX)
    for (let batch = 0; batch < BATCHES; batch++) {
      await meter.record(records(`batch-${batch}`))
      // As if a day had gone by. None of them is over its time at the end.
      if (batch < BATCHES - 1) ageCountedLeases(storage.sql, 1)
      const next = restarted(storage, BYTES_MAX)
      ;[meter, database] = [next.meter, next.database]
    }
    const remembered = countedTables(storage.sql)
    // What it was over when the last records came, and those.
    expect(database.bytes).toBeLessThan(2 * BYTES_MAX)
    expect(remembered.length).toBeGreaterThan(1)
    expect(remembered.length).toBeLessThan(BATCHES)
    expect(rowsOf(storage, remembered.at(-1) ?? '')).toBe(PER_BATCH)
    // No day is left out between those that are remembered.
    const days = remembered.map((name) => Math.round((Date.now() - Number(name.slice('counted_'.length))) / DAY_MS))
    expect(days).toEqual(remembered.map((_, at) => remembered.length - 1 - at))
    await meter.record(records(`batch-${BATCHES - 1}`))
    const page = await meter.page({ cursor: null, limit: USAGE_PAGE_MAX })
    expect(page?.usage).toMatchObject([
      { calls: BATCHES * PER_BATCH, output_tokens: BATCHES * PER_BATCH * OUTPUT_TOKENS },
    ])
  })
})

it('a sum is written for many records at once, and has all of them when it is read', async () => {
  await inObject('folding-tenant', async (storage) => {
    const { meter, spent } = restarted(storage)
    for (let batch = 0; batch < 3; batch++) await meter.record(records(`some-${batch}`, {}, 2))
    expect(rowsOf(storage, 'spend')).toBe(0)
    expect(await spent()).toMatchObject({ calls: 6, output_tokens: 6 * OUTPUT_TOKENS })
    expect(rowsOf(storage, 'spend')).toBe(1)
  })
})

it('what no sum had when the object was lost is brought in by the next one, once', async () => {
  await inObject('lost-tenant', async (storage) => {
    const first = records('moved', { lease: 'lease-1', outcome: 'cancelled', output_tokens: 50 }, 1)
    const second = records('moved', { lease: 'lease-2', granted_at_ms: Date.now() + 1, output_tokens: 8 }, 1)
    const before = restarted(storage)
    await before.meter.record([...records('earlier', {}, 3), ...first])
    expect(await before.spent()).toMatchObject({ calls: 4, output_tokens: 3 * OUTPUT_TOKENS + 50 })
    // Of a call whose first lease the sums have.
    await before.meter.record(second)
    const after = restarted(storage)
    expect(await after.spent()).toMatchObject({ calls: 4, output_tokens: 3 * OUTPUT_TOKENS + 8 })
    await after.meter.record([...first, ...second])
    expect(await after.spent()).toMatchObject({ calls: 4, output_tokens: 3 * OUTPUT_TOKENS + 8 })
    const again = restarted(storage)
    await again.meter.record(records('later', {}, 1))
    expect(await again.spent()).toMatchObject({ calls: 5, output_tokens: 4 * OUTPUT_TOKENS + 8 })
  })
})

it('the sums are brought up to date after a while, and a new day begins with a new table', async () => {
  await inObject('daily-tenant', async (storage) => {
    const { meter } = restarted(storage)
    vi.useFakeTimers({ now: Date.now(), toFake: ['Date'] })
    await meter.record(records('first', {}, 1))
    vi.setSystemTime(Date.now() + FOLD_AFTER_MS)
    await meter.record(records('second', {}, 1))
    expect(rowsOf(storage, 'spend')).toBe(1)
    vi.setSystemTime(Date.now() + DAY_MS)
    await meter.record(records('third', {}, 1))
    expect(countedTables(storage.sql).map((name) => rowsOf(storage, name))).toEqual([2, 1])
  })
})

it('a table whose leases need not be remembered is dropped, which is billed as no row', async () => {
  await inObject('old-tenant', async (storage) => {
    await restarted(storage).meter.record(records('old'))
    ageCountedLeases(storage.sql, 1)
    await restarted(storage).meter.record(records('later', {}, 1))
    ageCountedLeases(storage.sql, 9)
    const cursors: { rowsWritten: number }[] = []
    const exec = storage.sql.exec.bind(storage.sql)
    const counted = (text: string, ...values: unknown[]) => {
      const cursor = exec(text, ...values)
      cursors.push(cursor)
      return cursor
    }
    Object.defineProperty(storage.sql, 'exec', { value: counted, configurable: true })
    await restarted(storage).meter.record(records('new', {}, 1))
    Reflect.deleteProperty(storage.sql, 'exec')
    expect(countedTables(storage.sql)).toHaveLength(2)
    // The lease, its usage, a table, and the sums that the earlier ones were not in.
    expect(cursors.reduce((sum, { rowsWritten }) => sum + rowsWritten, 0)).toBeLessThanOrEqual(10)
  })
})

/** What a run tells that began now or at `began_ms`: so many calls today, or on `day`. */
function told(calls: number, { began_ms = Date.now(), day = dayOf(Date.now()) } = {}): RunSpendTold {
  const charge = { ...NO_CHARGE, calls, output_tokens: calls * OUTPUT_TOKENS }
  const run = `${began_ms.toString(36)}-run`
  return { program: 'p', run, class: 'default', leases: calls, places: [{ day, key: 'k', model: 'm', charge }] }
}

it('what a program told counts as it was told last, however often, late and after which restarts', async () => {
  await inObject('told-tenant', async (storage) => {
    const began_ms = Date.now()
    const first = restarted(storage)
    expect(await first.meter.told(told(2, { began_ms }), true)).toBe(true)
    // It waits, and is lost.
    const second = restarted(storage)
    expect(await second.spent()).toBeUndefined()
    await second.meter.told(told(3, { began_ms }), true)
    expect(await second.spent()).toMatchObject({ calls: 3, output_tokens: 3 * OUTPUT_TOKENS })
    await second.meter.told(told(5, { began_ms }), false)
    const third = restarted(storage)
    for (const late of [told(4, { began_ms }), told(5, { began_ms })]) await third.meter.told(late, false)
    expect(await third.spent()).toMatchObject({ calls: 5, output_tokens: 5 * OUTPUT_TOKENS })
    const [table = ''] = countedTables(storage.sql)
    expect(rowsOf(storage, table)).toBe(2)
  })
})

it('what is told of a day that is forgotten counts no second time, and that of later days does', async () => {
  await inObject('forgetful-tenant', async (storage) => {
    vi.useFakeTimers({ now: Date.now(), toFake: ['Date'] })
    const log = vi.spyOn(console, 'error').mockImplementation(() => undefined)
    const began_ms = Date.now()
    const day = dayOf(began_ms)
    const { meter } = restarted(storage)
    await meter.told(told(2, { began_ms, day }), false)
    for (let days = 0; days < 12; days += 1) {
      vi.setSystemTime(Date.now() + DAY_MS)
      await meter.record(records(`day-${days}`, {}, 1))
    }
    const after = restarted(storage)
    await after.meter.told(told(3, { began_ms, day }), false)
    expect(log.mock.calls.flat().join()).toContain('spend_not_counted')
    // The same run, today, and one that has just begun.
    await after.meter.told(told(7, { began_ms }), false)
    await after.meter.told(told(4), false)
    log.mockRestore()
    const asked = { per: 'day', by: 'program', name: 'p', from: '2020-01-01', to: '2100-01-01' } as const
    const page = await after.meter.spend({ ...asked, cursor: null, limit: 10 })
    expect(page?.spend.map(({ period, calls }) => [period, calls])).toEqual([
      [dayOf(Date.now()), 11],
      [day, 2],
    ])
  })
})
