/**
 * TenantActor: one per tenant. The flushes of its programs notify it, never the call path. It holds an index of what runs.
 * The authoritative state of a program is in its ProgramActor.
 */
import { DurableObject } from 'cloudflare:workers'
import { and, asc, count, desc, eq, isNull, lt, ne, or, type Placeholder, type SQL, sql } from 'drizzle-orm'
import { z } from 'zod'
import { type CallBucket, takeCalls } from '../core/call/call-rate.ts'
import { LogSketch } from '../core/classes/log-sketch.ts'
import { TenantClasses, TenantClassRows } from '../core/classes/tenant-classes.ts'
import { STALE_OPEN_FACTOR } from '../core/program/staleness.ts'
import type { Env } from '../env.ts'
import { logFailure } from '../platform/log.ts'
import { Id } from '../protocol/index.ts'
import type { ProgramListed, TenantRpc } from './contracts.ts'
import { CountedLeases } from './counted-leases.ts'
import { decodeCursor, encodeCursor } from './cursor.ts'
import { RecentPrograms } from './recent-programs.ts'
import { SpendBacklog } from './spend-backlog.ts'
import { ActorDatabase, type ActorDb } from './storage/actor-database.ts'
import { tenantMigrations } from './storage/migrations.gen.ts'
import { programs } from './storage/tenant-schema.ts'
import { classActor } from './stubs.ts'
import { TenantBudgets } from './tenant-budgets.ts'
import { UsageMeter } from './usage-meter.ts'

/** Programs in the index. Past it the longest-running one is left out of lists; it is served as before. */
export const PROGRAMS_INDEXED_MAX = 100_000
export const RUNNING_PAGE_MAX = 100

/** A program that was given room and sent nothing for this long was never opened. */
export const OPENING_EXPIRY_MS = 60_000
/** Rows of programs that must have gone stale are looked for at most this often. */
const DEAD_DROPPED_EVERY_MS = 60_000
/** Beyond the time until a program goes stale: messages are seconds late, and alarms may be. */
export const DEAD_SLACK_MS = 5 * 60_000
/** From a program's message to its row: messages within this time share a commit. */
const INDEX_GATHER_MS = 50
/** The bucket is stored at most this often, and no call waits for it. A crash gives back what was taken since. */
const BUCKET_FLUSH_MS = 1_000
const BUCKET_KEY = 'calls'
/** The classes are stored at most this often. A crash forgets how many ends they have had since. */
const CLASSES_FLUSH_MS = 5_000
const CLASSES_KEY = 'classes'
const StoredBucket = z.object({ calls: z.number(), at_ms: z.number() })

/** Start and id of the last program of a page. */
const Position = z.tuple([z.number().int(), Id])

export class TenantActor extends DurableObject<Env> implements TenantRpc {
  private readonly storage: ActorDatabase
  private readonly budgets: TenantBudgets
  private readonly meteredUsage: UsageMeter
  private readonly recent = new RecentPrograms()
  /** Rows of the index; null until counted. */
  private indexed: number | null = null
  /** Programs that were given room and are not in the index yet, with the time at which they got it. */
  private readonly opening = new Map<string, number>()
  /** Messages since the index was last written. A sender waits for the write, and a program sends one message at a time. */
  private readonly told: ProgramListed[] = []
  private indexing: Promise<void> | null = null
  /** The statements that every message runs. Drizzle writes their texts once. */
  private statements: ReturnType<typeof prepare> | null = null
  private readonly stale_after_ms: number
  private dead_dropped_ms = Number.NEGATIVE_INFINITY
  private bucket: CallBucket | null = null
  private bucketTimer: ReturnType<typeof setTimeout> | null = null
  private classes = new TenantClasses()
  private classesTimer: ReturnType<typeof setTimeout> | null = null

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env)
    this.storage = new ActorDatabase(ctx.storage, tenantMigrations)
    const leases = new CountedLeases()
    const backlog = new SpendBacklog(leases)
    this.budgets = new TenantBudgets(this.storage, leases, backlog)
    this.meteredUsage = new UsageMeter(this.storage, { budgets: this.budgets, leases, backlog })
    this.stale_after_ms = Number(env.PROGRAM_STALE_AFTER_S) * 1000
    ctx.blockConcurrencyWhile(async () => {
      const stored = StoredBucket.safeParse(await ctx.storage.get(BUCKET_KEY))
      this.bucket = stored.success ? stored.data : null
      const classes = TenantClassRows.safeParse(await ctx.storage.get(CLASSES_KEY))
      if (classes.success) this.classes = new TenantClasses(classes.data)
    })
  }

  async takeCalls(request: Parameters<TenantRpc['takeCalls']>[0]): ReturnType<TenantRpc['takeCalls']> {
    const { calls_per_minute_max, wanted } = request
    const { bucket, granted, retry_after_s } = takeCalls(this.bucket, calls_per_minute_max, wanted, Date.now())
    this.bucket = bucket
    this.bucketTimer ??= setTimeout(() => {
      this.bucketTimer = null
      this.ctx.storage.put(BUCKET_KEY, this.bucket).catch((error: unknown) => logFailure('bucket_not_kept', error))
    }, BUCKET_FLUSH_MS)
    return { granted, retry_after_s }
  }

  async roomForProgram(request: Parameters<TenantRpc['roomForProgram']>[0]): Promise<boolean> {
    const { program, live_programs_max } = request
    const now_ms = Date.now()
    for (const [opened, at_ms] of this.opening) {
      if (now_ms - at_ms < OPENING_EXPIRY_MS) break
      this.opening.delete(opened)
    }
    if (this.opening.has(program)) return true
    const db = await this.storage.stored()
    const known = db?.select({ run: programs.run }).from(programs).where(eq(programs.program, program)).get()
    if (known !== undefined) return true
    if (db !== null) this.dropDead(db, now_ms)
    // Programs without a given name do not count against the limit.
    const isNamed = or(isNull(programs.source), ne(programs.source, 'conversation'))
    const named = db?.select({ rows: count() }).from(programs).where(isNamed).get()?.rows ?? 0
    if (named + this.opening.size >= live_programs_max) return false
    this.opening.set(program, now_ms)
    return true
  }

  async programFlushed(program: ProgramListed): Promise<void> {
    this.told.push(program)
    this.indexing ??= this.indexSoon()
    await this.indexing
  }

  /** Writes the messages of all programs so far in one commit instead of one commit each. */
  private async indexSoon(): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, INDEX_GATHER_MS))
    this.indexing = null
    const told = this.told.splice(0)
    const db = await this.storage.writable()
    this.statements ??= prepare(db)
    for (const program of told) this.index(program, db, this.statements)
  }

  private index(program: ProgramListed, db: ActorDb, { known, update, upsert }: ReturnType<typeof prepare>): void {
    this.opening.delete(program.program)
    this.recent.told(program)
    const told = { ...program, told_at_ms: Date.now() }
    const row = known.get({ program: program.program })
    // The same run keeps its place in the order of starts, so no row of the index changes.
    if (row?.run === program.run && row.started_at_ms === program.started_at_ms) return void update.run(told)
    if (row === undefined) this.makeRoom(db)
    upsert.run(told)
    if (row === undefined && this.indexed !== null) this.indexed += 1
  }

  /**
   * A message that was in flight when its ProgramActor died may come after the program's end, and its row would stay. But a
   * running program tells of every change, and without one it goes stale. So a row that was told of before that is dead.
   */
  private dropDead(db: ActorDb, now_ms: number): void {
    if (now_ms - this.dead_dropped_ms < DEAD_DROPPED_EVERY_MS) return
    this.dead_dropped_ms = now_ms
    const { told_at_ms, last_arrival_ms, open_calls } = programs
    const told_ms = sql`max(${told_at_ms}, ${last_arrival_ms})`
    const stale_ms = sql`CASE WHEN ${open_calls} > 0 THEN ${STALE_OPEN_FACTOR * this.stale_after_ms} ELSE ${this.stale_after_ms} END`
    const gone = db
      .delete(programs)
      .where(sql`${told_ms} + ${stale_ms} + ${DEAD_SLACK_MS} < ${now_ms}`)
      .returning({ program: programs.program, run: programs.run })
      .all()
    for (const { program, run } of gone) this.recent.ended(program, run)
    if (this.indexed !== null) this.indexed -= gone.length
  }

  private makeRoom(db: ActorDb): void {
    this.indexed ??= db.select({ rows: count() }).from(programs).get()?.rows ?? 0
    if (this.indexed < PROGRAMS_INDEXED_MAX) return
    const oldest = db.select({ program: programs.program }).from(programs).orderBy(asc(programs.started_at_ms)).limit(1)
    db.delete(programs)
      .where(eq(programs.program, sql`(${oldest})`))
      .run()
    this.indexed -= 1
  }

  /** Only the ended run leaves the index: the id may have been opened again. */
  async programEnded(program: string, run: string, ended_class: string | null = null): Promise<string | null> {
    this.opening.delete(program)
    this.recent.ended(program, run)
    const counts_for = ended_class === null ? null : this.classFor(ended_class)
    const db = await this.storage.stored()
    if (db === null) return counts_for
    const gone = db
      .delete(programs)
      .where(and(eq(programs.program, program), eq(programs.run, run)))
      .returning({ program: programs.program })
      .all()
    if (this.indexed !== null) this.indexed -= gone.length
    return counts_for
  }

  /** The class for which a program of this class counts. A class that lost its place is forgotten. */
  private classFor(ended_class: string): string {
    const { class: counts_for, displaced } = this.classes.ended(ended_class, Date.now())
    this.classesTimer ??= setTimeout(() => {
      this.classesTimer = null
      const rows = this.classes.rows()
      this.ctx.storage.put(CLASSES_KEY, rows).catch((error: unknown) => logFailure('classes_not_kept', error))
    }, CLASSES_FLUSH_MS)
    if (displaced !== null) {
      const forgotten = classActor(this.env, Id.parse(this.ctx.id.name), displaced).forget()
      // It is forgotten in any case when it has had no end for long enough.
      this.ctx.waitUntil(forgotten.catch((error: unknown) => logFailure('class_not_forgotten', error)))
    }
    return counts_for
  }

  async running(page: Parameters<TenantRpc['running']>[0]): Promise<Awaited<ReturnType<TenantRpc['running']>>> {
    const after = page.cursor === null ? null : decodeCursor(page.cursor, Position)
    if (page.cursor !== null && after === null) return null
    const db = await this.storage.stored()
    if (db === null) return { programs: [], next: null }
    const limit = Math.min(page.limit, RUNNING_PAGE_MAX)
    const rows = db
      .select()
      .from(programs)
      .where(after === null ? undefined : beyond(after))
      .orderBy(desc(programs.started_at_ms), asc(programs.program))
      .limit(limit + 1)
      .all()
    const listed = rows.slice(0, limit)
    const last = listed.at(-1)
    const more = rows.length > limit && last !== undefined
    return { programs: listed, next: more ? encodeCursor([last.started_at_ms, last.program]) : null }
  }

  async runningCount(): Promise<number> {
    const db = await this.storage.stored()
    this.indexed ??= db?.select({ rows: count() }).from(programs).get()?.rows ?? 0
    return this.indexed
  }

  meter(records: Parameters<TenantRpc['meter']>[0]): Promise<void> {
    return this.meteredUsage.record(records)
  }

  usage(page: Parameters<TenantRpc['usage']>[0]): ReturnType<TenantRpc['usage']> {
    return this.meteredUsage.page(page)
  }

  shareBudget(asked: Parameters<TenantRpc['shareBudget']>[0]): ReturnType<TenantRpc['shareBudget']> {
    return this.budgets.share(asked, Date.now())
  }

  spend(asked: Parameters<TenantRpc['spend']>[0]): ReturnType<TenantRpc['spend']> {
    return this.meteredUsage.spend(asked)
  }

  async goingOn(name: string): ReturnType<TenantRpc['goingOn']> {
    const sketch = new LogSketch()
    for (const { class: of_class, open_calls, output_tokens } of this.recent.all(await this.storage.stored())) {
      // A program without open calls may be over, although its client has not ended it.
      if (of_class === name && open_calls > 0 && output_tokens > 0) sketch.add(output_tokens)
    }
    return sketch.bins()
  }

  async medianService(): Promise<{ settled_service_us: number }> {
    const recent = [...this.recent.all(await this.storage.stored())]
    const services = recent.map(({ service_us }) => service_us).sort((a, b) => a - b)
    return { settled_service_us: services[Math.floor(services.length / 2)] ?? 0 }
  }
}

function prepare(db: ActorDb) {
  const program = sql.placeholder('program')
  const changing = {
    last_arrival_ms: sql.placeholder('last_arrival_ms'),
    open_calls: sql.placeholder('open_calls'),
    calls: sql.placeholder('calls'),
    service_us: sql.placeholder('service_us'),
    class: sql.placeholder('class'),
    output_tokens: sql.placeholder('output_tokens'),
    source: sql.placeholder('source'),
    told_at_ms: sql.placeholder('told_at_ms'),
  }
  const others = {
    ...{ run: sql.placeholder('run'), app: sql.placeholder('app') },
    ...{ started_at_ms: sql.placeholder('started_at_ms'), ...changing },
  }
  const set = Object.fromEntries(Object.keys(others).map((name) => [name, sql.raw(`excluded.${name}`)]))
  const { run, started_at_ms } = programs
  const known = db.select({ run, started_at_ms }).from(programs).where(eq(programs.program, program))
  const update = db.update(programs).set(asSet(changing)).where(eq(programs.program, program))
  const upsert = db
    .insert(programs)
    .values({ program, ...others })
    .onConflictDoUpdate({ target: programs.program, set })
  return { known: known.prepare(), update: update.prepare(), upsert: upsert.prepare() }
}

/** Drizzle takes placeholders among the values of an update within SQL only. */
function asSet(changing: Record<string, Placeholder>): Record<string, SQL> {
  return Object.fromEntries(Object.entries(changing).map(([name, value]) => [name, sql`${value}`]))
}

function beyond([started_at_ms, program]: z.infer<typeof Position>) {
  return or(
    lt(programs.started_at_ms, started_at_ms),
    and(eq(programs.started_at_ms, started_at_ms), sql`${programs.program} > ${program}`),
  )
}
