/**
 * Idempotency keys in an IdempotencyActor's SQLite, by time: a row is in the bucket of its `at_ms`. A key is looked up in the
 * buckets whose rows may count. Those of an older bucket are forgotten in slices.
 *
 * How many keys each bucket has is counted once after a restart, then kept in memory. So nothing is deleted where there is
 * nothing: such a statement is billed as a row.
 */
import { and, count, desc, eq, inArray, lte, sql } from 'drizzle-orm'
import { KEPT_MS, type KeyChange, type KeyRow, type StoredKeys } from '../core/call/idempotency-table.ts'
import { ActorDatabase, type ActorDb } from './storage/actor-database.ts'
import { keysByTime } from './storage/idempotency-schema.ts'
import { idempotencyMigrations } from './storage/migrations.gen.ts'

/** Migration 0001_keys_by_time has it too. */
export const BUCKET_MS = 5 * 60_000
/** Keys that one statement forgets. */
export const FORGOTTEN_AT_ONCE_MAX = 1_000
/** That may have rows that count: of the time that keys are kept, and the next for a clock that was ahead for a while. */
const LIVE_BUCKETS = KEPT_MS / BUCKET_MS + 2

export class SqliteKeys implements StoredKeys {
  private readonly sql: SqlStorage
  private readonly storage: ActorDatabase
  private statements: ReturnType<typeof prepare> | null = null
  private readonly counts = new Map<number, number>()

  constructor(storage: DurableObjectStorage) {
    this.sql = storage.sql
    this.storage = new ActorDatabase(storage, idempotencyMigrations)
  }

  /** Before anything else. Brings tables of an earlier version up to date. */
  async open(): Promise<void> {
    const db = await this.storage.stored()
    if (db === null) return
    this.statements = prepare(db)
    const { bucket } = keysByTime
    const counted = db.select({ bucket, keys: count() }).from(keysByTime).groupBy(bucket).all()
    for (const { bucket, keys } of counted) this.counts.set(bucket, keys)
  }

  find(key: string, now_ms: number): KeyRow | null {
    if (this.statements === null) return null
    const newest = bucketOf(now_ms) + 1
    const buckets = Array.from({ length: LIVE_BUCKETS }, (_, back) => [`bucket_${back}`, newest - back])
    return this.statements.find.get({ ...Object.fromEntries(buckets), key }) ?? null
  }

  get count(): number {
    return this.counts.values().reduce((sum, keys) => sum + keys, 0)
  }

  get bytes(): number {
    return this.sql.databaseSize
  }

  /** Takes the changes when the tables are open, and writes them in the same event: all or none of them. */
  async write(take: () => KeyChange[], giveBack: (taken: KeyChange[]) => void): Promise<void> {
    const db = await this.storage.writable()
    this.statements ??= prepare(db)
    const { upsert, remove } = this.statements
    const changes = take()
    const moves = changes.map((change) => moveOf(change, Date.now()))
    try {
      this.storage.transaction(() => {
        for (const { key, row, from, to } of moves) {
          if (from !== null && from !== to) remove.run({ bucket: from, key })
          if (row !== null) upsert.run({ ...row, bucket: to })
        }
      })
    } catch (error) {
      giveBack(changes)
      throw error
    }
    for (const { from, to } of moves) {
      if (from !== null) this.add(from, -1)
      if (to !== null) this.add(to, 1)
    }
  }

  /** At most FORGOTTEN_AT_ONCE_MAX keys. False: none is left that need not be kept. */
  forget(now_ms: number): boolean {
    const oldest = this.oldest
    if (oldest === null || forgottenFrom(oldest) > now_ms) return false
    const db = this.storage.opened()
    const { bucket, key } = keysByTime
    const is_oldest = eq(bucket, oldest)
    const last = db
      .select({ key })
      .from(keysByTime)
      .where(is_oldest)
      .orderBy(key)
      .limit(1)
      .offset(FORGOTTEN_AT_ONCE_MAX - 1)
      .get()
    db.delete(keysByTime)
      .where(last === undefined ? is_oldest : and(is_oldest, lte(key, last.key)))
      .run()
    if (last === undefined) this.counts.delete(oldest)
    else this.add(oldest, -FORGOTTEN_AT_ONCE_MAX)
    return true
  }

  /** When there is something to forget. Null: nothing is stored. */
  get forget_at_ms(): number | null {
    return this.oldest === null ? null : forgottenFrom(this.oldest)
  }

  /** Deletes everything, including the tables and the alarm. */
  async clear(): Promise<void> {
    this.statements = null
    this.counts.clear()
    await this.storage.clear()
  }

  private get oldest(): number | null {
    return this.counts.size === 0 ? null : Math.min(...this.counts.keys())
  }

  private add(bucket: number, keys: number): void {
    const sum = (this.counts.get(bucket) ?? 0) + keys
    if (sum <= 0) this.counts.delete(bucket)
    else this.counts.set(bucket, sum)
  }
}

function bucketOf(ms: number): number {
  return Math.floor(ms / BUCKET_MS)
}

/** Buckets of a key's row before and after a change. A row that `forget` deletes, or has deleted, counts as none. */
function moveOf({ key, row, stored_at_ms }: KeyChange, now_ms: number) {
  const stored = stored_at_ms === null ? null : bucketOf(stored_at_ms)
  const from = stored !== null && forgottenFrom(stored) > now_ms ? stored : null
  return { key, row, from, to: row === null ? null : bucketOf(row.at_ms) }
}

/** When the last row of a bucket is over. */
function forgottenFrom(bucket: number): number {
  return (bucket + 1) * BUCKET_MS + KEPT_MS
}

function prepare(db: ActorDb) {
  const { bucket: of_bucket, ...row } = keysByTime
  const { key, fingerprint, call, state, answer, at_ms } = row
  const asked = sql.placeholder('key')
  const buckets = Array.from({ length: LIVE_BUCKETS }, (_, back) => sql.placeholder(`bucket_${back}`))
  const find = db
    .select({ key, fingerprint, call, state, answer, at_ms })
    .from(keysByTime)
    .where(and(inArray(of_bucket, buckets), eq(key, asked)))
    .orderBy(desc(of_bucket))
    .limit(1)
    .prepare()
  const values = {
    ...{ bucket: sql.placeholder('bucket'), key: asked },
    ...{ fingerprint: sql.placeholder('fingerprint'), call: sql.placeholder('call') },
    ...{ state: sql.placeholder('state'), answer: sql.placeholder('answer'), at_ms: sql.placeholder('at_ms') },
  }
  const set = {
    ...{ fingerprint: sql`excluded.fingerprint`, call: sql`excluded.call`, state: sql`excluded.state` },
    ...{ answer: sql`excluded.answer`, at_ms: sql`excluded.at_ms` },
  }
  const upsert = db
    .insert(keysByTime)
    .values(values)
    .onConflictDoUpdate({ target: [of_bucket, key], set })
    .prepare()
  const remove = db
    .delete(keysByTime)
    .where(and(eq(of_bucket, sql.placeholder('bucket')), eq(key, asked)))
    .prepare()
  return { find, upsert, remove }
}
