/** The IdempotencyActor in workerd: what it keeps over eviction, and that it forgets. */
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { drizzle } from 'drizzle-orm/durable-sqlite'
import { migrate } from 'drizzle-orm/durable-sqlite/migrator'
import { describe, expect, it, vi } from 'vitest'
import { BUCKET_MS, FORGOTTEN_AT_ONCE_MAX } from '../../src/actors/idempotency-keys.ts'
import { idempotencyMigrations } from '../../src/actors/storage/migrations.gen.ts'
import { IDEMPOTENCY_SHARDS, idempotencyActor } from '../../src/actors/stubs.ts'
import { KEPT_MS } from '../../src/core/call/idempotency-table.ts'
import { storedTables } from './actor-tools.ts'

const claim = (key: string, call = 'call-1') => ({ key, fingerprint: 'f', call })
const answered = { status: 'answered' as const, answer: '{"a":1}' }

/** The object behind a key of tenant-a. */
function stubOf(key: string) {
  const names = Array.from({ length: IDEMPOTENCY_SHARDS }, (_, shard) => JSON.stringify(['tenant-a', shard]))
  const actor = idempotencyActor(env, 'tenant-a', key) as unknown as DurableObjectStub
  const name = names.find((one) => env.IDEMPOTENCY.idFromName(one).equals(actor.id))
  return env.IDEMPOTENCY.getByName(name ?? expect.unreachable())
}

async function flushed(key: string, rows: number): Promise<void> {
  await expect.poll(() => storedKeys(stubOf(key)), { timeout: 60_000 }).toBe(rows)
}

function storedKeys(stub: ReturnType<typeof stubOf>): Promise<number> {
  return runInDurableObject(stub, (_, state) =>
    storedTables(state).includes('keys_by_time')
      ? Number(state.storage.sql.exec('SELECT count(*) AS rows FROM keys_by_time').one().rows)
      : 0,
  )
}

/** When the keys of now are over, and their bucket is forgotten. */
async function whenForgotten<T>(work: () => Promise<T>): Promise<T> {
  const clock = vi.spyOn(Date, 'now').mockReturnValue(Date.now() + KEPT_MS + BUCKET_MS)
  try {
    return await work()
  } finally {
    clock.mockRestore()
  }
}

describe('eviction', () => {
  it('loses no key that was flushed', async () => {
    const actor = idempotencyActor(env, 'tenant-a', 'kept')
    await actor.claim(claim('kept'))
    await actor.ended({ claim: claim('kept'), end: answered })
    await flushed('kept', 1)
    await evictDurableObject(stubOf('kept'))
    const retry = await idempotencyActor(env, 'tenant-a', 'kept').claim(claim('kept', 'call-2'))
    expect(retry).toEqual({ status: 'answered', call: 'call-1', answer: '{"a":1}' })
  })

  it('loses one that was not, until its Worker is heard again', async () => {
    await idempotencyActor(env, 'tenant-a', 'lost').heard(claim('lost'))
    expect(await idempotencyActor(env, 'tenant-a', 'lost').claim(claim('lost', 'call-2'))).toEqual({
      status: 'open',
      call: 'call-1',
    })
  })
})

describe('forgetting', () => {
  it('leaves nothing behind when the last key is over', async () => {
    const key = 'forgotten'
    const actor = idempotencyActor(env, 'tenant-a', key)
    const stub = stubOf(key)
    await evictDurableObject(stub)
    await runInDurableObject(stub, (_, state) => state.storage.deleteAll())
    await evictDurableObject(stub)
    await actor.claim(claim(key))
    await flushed(key, 1)
    expect(await whenForgotten(() => runDurableObjectAlarm(stub))).toBe(true)
    expect(await runInDurableObject(stub, (_, state) => storedTables(state))).toEqual([])
    expect(await runInDurableObject(stub, (_, state) => state.storage.getAlarm())).toBeNull()
    expect(await actor.claim(claim(key, 'call-2'))).toEqual({ status: 'claimed' })
  })
})

describe('more keys than memory takes', () => {
  const KEYS = 12_000
  const AT_ONCE = 500

  it('are all kept, answered after a restart, and forgotten in slices', async () => {
    const key = 'one-of-many'
    const stub = stubOf(key)
    await runInDurableObject(stub, (_, state) => state.storage.deleteAll())
    await evictDurableObject(stub)
    const many = stub as unknown as ReturnType<typeof idempotencyActor>
    for (let from = 0; from < KEYS; from += AT_ONCE) {
      const claims = Array.from({ length: AT_ONCE }, (_, at) => claim(`many-${from + at}`))
      const verdicts = await Promise.all(claims.map((one) => many.claim(one)))
      expect(verdicts.filter(({ status }) => status !== 'claimed')).toEqual([])
      await Promise.all(claims.map((one) => many.ended({ claim: one, end: answered })))
    }
    const sql = "SELECT count(*) AS rows FROM keys_by_time WHERE state = 'answered'"
    const stored = () => runInDurableObject(stub, (_, { storage }) => Number(storage.sql.exec(sql).one().rows))
    await expect.poll(stored, { timeout: 60_000 }).toBe(KEYS)
    await evictDurableObject(stub)
    const restarted = stubOf(key) as unknown as typeof many
    for (const at of [0, KEYS / 2, KEYS - 1]) {
      const verdict = await restarted.claim(claim(`many-${at}`, 'retry'))
      expect(verdict).toEqual({ status: 'answered', call: 'call-1', answer: '{"a":1}' })
    }
    const deleted = await runInDurableObject(stubOf(key), async (_, { storage: { sql } }) => {
      const cursors: { rowsWritten: number }[] = []
      const exec = sql.exec.bind(sql)
      const value = (text: string, ...values: unknown[]) => {
        const cursor = exec(text, ...values)
        if (text.startsWith('delete')) cursors.push(cursor)
        return cursor
      }
      Object.defineProperty(sql, 'exec', { value })
      return cursors
    })
    await whenForgotten(() => runDurableObjectAlarm(stubOf(key)))
    expect(await storedKeys(stubOf(key))).toBe(0)
    expect(deleted.length).toBeGreaterThanOrEqual(KEYS / FORGOTTEN_AT_ONCE_MAX)
    for (const { rowsWritten } of deleted) expect(rowsWritten).toBeLessThanOrEqual(2 * FORGOTTEN_AT_ONCE_MAX)
  }, 300_000)
})

it('a key that an earlier version stored is still answered, and one that is over is free', async () => {
  const key = 'earlier'
  const stub = stubOf(key)
  const now_ms = Date.now()
  await runInDurableObject(stub, async (_, { storage }) => {
    await storage.deleteAll()
    const [first] = idempotencyMigrations.journal.entries
    await migrate(drizzle(storage), {
      ...idempotencyMigrations,
      journal: { entries: first === undefined ? [] : [first] },
    })
    for (const [name, at_ms] of [
      [key, now_ms],
      ['over', now_ms - KEPT_MS],
    ] as const) {
      const row = { key: name, fingerprint: 'f', call: 'call-1', state: 'answered', answer: '{"a":1}', at_ms }
      storage.sql.exec('INSERT INTO keys VALUES (?, ?)', name, JSON.stringify(row))
    }
  })
  await evictDurableObject(stub)
  const actor = stubOf(key) as unknown as ReturnType<typeof idempotencyActor>
  expect(await actor.claim(claim(key, 'call-2'))).toEqual({ status: 'answered', call: 'call-1', answer: '{"a":1}' })
  expect(await actor.claim(claim('over', 'call-2'))).toEqual({ status: 'claimed' })
})
