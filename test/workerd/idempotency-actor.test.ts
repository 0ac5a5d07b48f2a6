/** The IdempotencyActor in workerd: what it keeps over eviction, and that it forgets. */
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { drizzle } from 'drizzle-orm/durable-sqlite'
import { migrate } from 'drizzle-orm/durable-sqlite/migrator'
import { describe, expect, it, vi } from 'vitest'
import { BUCKET_MS, FORGOTTEN_AT_ONCE_MAX } from '../../src/actors/idempotency-keys.ts'
import { idempotencyMigrations } from '../../src/actors/storage/migrations.gen.ts'
import { idempotencyActor } from '../../src/actors/stubs.ts'
import { BASE_SHARDS, keyShard, PARENT_ASKED_MS, UNUSED_MS } from '../../src/core/call/idempotency-shards.ts'
import { KEPT_MS } from '../../src/core/call/idempotency-table.ts'
import * as actors from '../../src/worker.ts'
import { storedTables } from './actor-tools.ts'

const claim = (key: string, call = 'call-1') => ({ key, fingerprint: 'f', call })
const answered = { status: 'answered' as const, answer: '{"a":1}' }

/** The object behind a key of tenant-a. */
function stubOf(key: string) {
  const names = Array.from({ length: BASE_SHARDS }, (_, shard) => JSON.stringify(['tenant-a', shard]))
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

describe('more shards', () => {
  const keys = Array.from({ length: 40 }, (_, i) => `moving-${i}`)
  const at = (key: string, shards: number) => idempotencyActor(env, 'tenant-a', key, shards)
  const moved = (shards: number, next: number) => keys.filter((key) => keyShard(key, shards) !== keyShard(key, next))

  it('know the keys from before, open and answered, however many came at once', async () => {
    const [open, over, failed] = moved(1, 8) as [string, string, string]
    for (const key of [open, over, failed]) expect(await at(key, 1).claim(claim(key))).toEqual({ status: 'claimed' })
    await at(over, 1).ended({ claim: claim(over), end: answered })
    await at(failed, 1).ended({ claim: claim(failed), end: { status: 'failed' } })
    expect(await at(open, 8).claim(claim(open, 'call-2'))).toEqual({ status: 'open', call: 'call-1' })
    expect(await at(over, 8).claim(claim(over, 'call-2'))).toMatchObject({ status: 'answered', call: 'call-1' })
    expect(await at(over, 8).claim({ ...claim(over, 'call-2'), fingerprint: 'g' })).toMatchObject({ status: 'reused' })
    expect(await at(failed, 8).claim(claim(failed, 'call-2'))).toEqual({ status: 'claimed' })
    // Its Worker still tells the shard that it has claimed from.
    await at(open, 1).ended({ claim: claim(open), end: answered })
    expect(await at(open, 8).claim(claim(open, 'call-3'))).toMatchObject({ status: 'answered', call: 'call-1' })
  })

  it('give a key to one of the calls that ask at once', async () => {
    const key = moved(2, 4).at(-1) ?? expect.unreachable()
    const calls = ['a', 'b', 'c', 'd']
    const verdicts = await Promise.all(calls.map((call) => at(key, 4).claim(claim(key, call))))
    expect(verdicts.filter(({ status }) => status === 'claimed')).toHaveLength(1)
    expect(verdicts.filter(({ status }) => status === 'open')).toHaveLength(3)
  })

  it('ask their parents no more when keys from before are over', async () => {
    const known = vi.spyOn(actors.IdempotencyActor.prototype, 'known')
    const clock = vi.spyOn(Date, 'now')
    const key = moved(4, 8).at(-1) ?? expect.unreachable()
    const start_ms = 2_000_000_000_000
    const asked = async (now_ms: number, call: string) => {
      clock.mockReturnValue(now_ms)
      known.mockClear()
      await at(key, 8).claim(claim(`${key}`, call))
      await at(key, 8).ended({ claim: claim(key, call), end: { status: 'failed' } })
      return known.mock.calls.length
    }
    try {
      // Its own shard, and those that had the key at 4, 2 and 1 or fewer.
      expect(await asked(start_ms, 'call-0')).toBeGreaterThan(1)
      for (let ms = UNUSED_MS; ms < PARENT_ASKED_MS; ms += UNUSED_MS) await asked(start_ms + ms, 'call-1')
      expect(await asked(start_ms + PARENT_ASKED_MS, 'call-2')).toBe(1)
    } finally {
      known.mockRestore()
      clock.mockRestore()
    }
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
