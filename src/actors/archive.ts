/**
 * ArchiveActor: one per tenant and shard. It gathers the calls of programs that end at about the same time into one segment in R2,
 * keeps the rows of ended programs in its SQLite, and removes what is past its retention. The tenant's first one also removes what D1 has
 * of it, from before there were such rows.
 *
 * A program keeps its run until R2 and the row are stored, so nothing is lost with this object's memory.
 */
import { DurableObject } from 'cloudflare:workers'
import { z } from 'zod'
import { type BackoffBounds, backoffMs } from '../core/backoff.ts'
import { FIRST_TENANT_SHARD } from '../core/program/tenant-shards.ts'
import type { Env } from '../env.ts'
import { log, logFailure } from '../platform/log.ts'
import { dropAdopted, dropRuns, EXPIRED_RUNS_AT_ONCE, hasRuns, storeRuns } from '../store/archive-changes.ts'
import { inTime } from '../store/database.ts'
import type { EndedRun } from '../store/ended-run.ts'
import { dropSegments, joined, type RunPart, segmentKey } from '../store/segments.ts'
import { databaseOver, onlyReads } from '../store/sql-database.ts'
import type { SqlRows, SqlValue, Statement } from '../store/statements.ts'
import { doubleShards } from '../store/tenants.ts'
import type { ArchiveRpc } from './contracts.ts'
import { ActorDatabase } from './storage/actor-database.ts'
import { archiveMigrations } from './storage/migrations.gen.ts'
import { tenantOfActor } from './tenant-shards.ts'

/** From a run to its segment: runs that come within this time, or while a segment is written, share one. */
const GATHER_MS = 20
/** A segment holds runs up to this size, and at least one. */
export const SEGMENT_BYTES_MAX = 8 * 1024 * 1024
/** Of runs that wait for R2. Past it a run is refused, and its program tries again later. */
export const WAITING_BYTES_MAX = 32 * 1024 * 1024
/** Wait for R2 to take a segment. */
const WRITE_MS = 10_000
/** Between two looks for what is past its retention. A random half of it: tenants must not look all at once. */
const EXPIRY_MS = 6 * 60 * 60_000
/** Between two rounds of one look. */
const EXPIRY_ROUND_MS = 1_000
/** Statements of one round. */
const EXPIRY_STATEMENTS_MAX = 20
const EXPIRY_RETRY: BackoffBounds = { min_ms: 60_000, max_ms: EXPIRY_MS }
const DAY_MS = 24 * 60 * 60_000
/** An object holds 10 GB. From here on new programs of the tenant are spread over more of them, at most twice as many a day. */
export const FULL_BYTES = 6_000_000_000
const STATE_KEY = 'expiry'
const State = z.object({
  failures: z.number().int().min(0),
  /** When the tenant's programs were last spread over more objects. */
  spread_at_ms: z.number().default(0),
})
type State = z.infer<typeof State>

interface Waiting {
  ended: EndedRun
  kept(): void
  failed(error: unknown): void
}

/** What a run counts for beside its calls. */
export const ROW_BYTES = 1024
const bytesOf = ({ ended: { calls } }: Pick<Waiting, 'ended'>): number => ROW_BYTES + (calls?.body.length ?? 0)

export class ArchiveActor extends DurableObject<Env> implements ArchiveRpc {
  private readonly retentionMs: number
  private readonly storage: ActorDatabase
  private readonly tenant: string
  private readonly shard: number
  private waiting: Waiting[] = []
  private waitingBytes = 0
  private writing: Promise<void> | null = null
  private watched = false

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env)
    this.retentionMs = Number(env.ARCHIVE_RETENTION_DAYS) * DAY_MS
    if (!(this.retentionMs > 0)) throw new Error('ARCHIVE_RETENTION_DAYS must be a number of days above 0')
    const { tenant, shard } = tenantOfActor(ctx.id.name ?? '')
    this.tenant = tenant
    this.shard = shard
    this.storage = new ActorDatabase(ctx.storage, archiveMigrations)
  }

  async keep(ended: EndedRun): Promise<void> {
    const bytes = bytesOf({ ended })
    if (this.waitingBytes > 0 && this.waitingBytes + bytes > WAITING_BYTES_MAX)
      throw new Error(`${this.waitingBytes} bytes wait for R2`)
    this.waitingBytes += bytes
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    this.waiting.push({ ended, kept: resolve, failed: reject })
    this.writing ??= this.writeAll()
    if (!this.watched) this.ctx.waitUntil(this.watch())
    return promise
  }

  async run(statements: readonly Statement[]): Promise<SqlRows[]> {
    const writes = !statements.every(onlyReads)
    if (writes && !this.watched) this.ctx.waitUntil(this.watch())
    const db = writes ? await this.storage.writable() : await this.storage.stored()
    if (db === null) return statements.map(() => ({ columns: [], rows: [] }))
    return this.ctx.storage.transactionSync(() =>
      statements.map(({ sql, params }) => {
        const cursor = this.ctx.storage.sql.exec(sql, ...(params as SqlValue[]))
        const rows = [...cursor.raw()] as SqlValue[][]
        return { columns: cursor.columnNames, rows }
      }),
    )
  }

  /** Segments are written one after another, so that runs gather while R2 is slow. */
  private async writeAll(): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, GATHER_MS))
    while (this.waiting.length > 0) await this.write(this.take())
    this.writing = null
  }

  private take(): Waiting[] {
    let bytes = 0
    let runs = 0
    for (const one of this.waiting) {
      bytes += bytesOf(one)
      if (runs > 0 && bytes > SEGMENT_BYTES_MAX) break
      runs += 1
    }
    return this.waiting.splice(0, runs)
  }

  /** R2 first, the rows last: a run is in the archive once its row is. */
  private async write(waiting: readonly Waiting[]): Promise<void> {
    try {
      const parts = await this.partsOf(waiting)
      await this.storage.writable()
      const statements = storeRuns(waiting.map(({ ended: { row } }, at) => ({ row, part: parts[at] ?? null })))
      this.storage.transaction((run) => {
        for (const { sql, params } of statements) run(sql, ...(params as SqlValue[]))
      })
      for (const one of waiting) one.kept()
    } catch (error) {
      for (const one of waiting) one.failed(error)
    } finally {
      for (const one of waiting) this.waitingBytes -= bytesOf(one)
    }
  }

  /** Where each run's calls lie in a new segment. Null: it has none. */
  private async partsOf(waiting: readonly Waiting[]): Promise<(RunPart | null)[]> {
    const bodies = waiting.flatMap(({ ended: { calls } }) => calls?.body ?? [])
    if (bodies.length === 0) return waiting.map(() => null)
    const segment = segmentKey(this.tenant, Date.now(), crypto.randomUUID())
    await inTime(this.env.BUCKET.put(segment, joined(bodies)), WRITE_MS)
    let offset = 0
    return waiting.map(({ ended: { calls } }) => {
      if (calls === null) return null
      const { body, ...lengths } = calls
      const part = { segment, offset, ...lengths }
      offset += body.length
      return part
    })
  }

  /** Sees to it that what is kept here is looked through. */
  private async watch(): Promise<void> {
    this.watched = true
    if ((await this.ctx.storage.getAlarm()) !== null) return
    await this.ctx.storage.put(STATE_KEY, { failures: 0, spread_at_ms: 0 } satisfies State)
    await this.ctx.storage.setAlarm(Date.now() + backoffMs(1, { min_ms: EXPIRY_MS, max_ms: EXPIRY_MS }, Math.random()))
  }

  override async alarm(): Promise<void> {
    const state = State.parse(await this.ctx.storage.get(STATE_KEY))
    const { failures } = state
    try {
      const next_ms = await this.expire()
      // No event may come between this look and the end: a run that is kept meanwhile would go with it.
      if (next_ms === null && !this.holdsRows) {
        this.watched = false
        await this.storage.clear()
        return
      }
      const spread_at_ms = await this.spread(state)
      if (failures > 0 || spread_at_ms !== state.spread_at_ms)
        await this.ctx.storage.put(STATE_KEY, { failures: 0, spread_at_ms } satisfies State)
      await this.ctx.storage.setAlarm(Date.now() + (next_ms ?? EXPIRY_ROUND_MS))
    } catch (error) {
      logFailure('archive_not_expired', error, { tenant: this.tenant, shard: this.shard })
      await this.ctx.storage.put(STATE_KEY, { ...state, failures: failures + 1 } satisfies State)
      await this.ctx.storage.setAlarm(Date.now() + backoffMs(failures + 1, EXPIRY_RETRY, Math.random()))
    }
  }

  /** Returns when to look again. Null: nothing is left. */
  private async expire(): Promise<number | null> {
    const before_ms = Date.now() - this.retentionMs
    let statements = 0
    const databases = await this.databases()
    for (const d1 of databases) {
      for (;;) {
        if (statements === EXPIRY_STATEMENTS_MAX) return EXPIRY_ROUND_MS
        statements += 1
        if ((await dropRuns(d1, this.tenant, before_ms)) < EXPIRED_RUNS_AT_ONCE) break
      }
      await dropAdopted(d1, this.tenant, before_ms)
    }
    // After the rows: a row here never names a segment that was dropped.
    if ((await dropSegments(this.env.BUCKET, this.tenant, before_ms)) > 0) return EXPIRY_ROUND_MS
    const hasOld = this.shard === FIRST_TENANT_SHARD && (await hasRuns(this.env.DB, this.tenant))
    return !hasOld && !this.holdsRows ? null : backoffMs(1, { min_ms: EXPIRY_MS, max_ms: EXPIRY_MS }, Math.random())
  }

  /** Whether it holds anything, or is about to. */
  private get holdsRows(): boolean {
    if (this.writing !== null) return true
    const { sql } = this.ctx.storage
    const hasAny = (query: string): boolean => sql.exec(query).toArray().length > 0
    const hasTables = hasAny("SELECT 1 FROM sqlite_master WHERE name = 'adopted_leases'")
    return hasTables && hasAny('SELECT 1 FROM ended_programs UNION ALL SELECT 1 FROM adopted_leases LIMIT 1')
  }

  /** Doubles the tenant's shards where the first one's archive fills. Returns when that was done last. */
  private async spread({ spread_at_ms }: State): Promise<number> {
    const now_ms = Date.now()
    const isFull = this.shard === FIRST_TENANT_SHARD && this.storage.bytes > FULL_BYTES
    if (!isFull || now_ms < spread_at_ms + DAY_MS) return spread_at_ms
    const shards = await doubleShards(this.env.DB, this.tenant)
    if (shards !== null) log('warn', 'tenant_shards_added', { tenant: this.tenant, shards, reason: 'archive_fills' })
    return now_ms
  }

  /** That this object looks through. Its own, unless it has no tables. */
  private async databases(): Promise<D1Database[]> {
    const own = (await this.storage.stored()) === null ? [] : [databaseOver((statements) => this.run(statements))]
    return this.shard === FIRST_TENANT_SHARD ? [...own, this.env.DB] : own
  }
}
