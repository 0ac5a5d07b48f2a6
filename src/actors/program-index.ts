/**
 * The index of a tenant's running programs, from what their ProgramActors tell. The authoritative state of a program is there.
 *
 * A row is written when its program is first told of, and deleted when its run ends. On Cloudflare what is told in between stays
 * in memory for CHANGES_WRITTEN_MS at most, since every row that is written is billed. So a crash loses no program of the list,
 * and of its numbers the last minute's, until the program tells of itself again. On a machine of one's own rows cost nothing.
 */
import { and, asc, count, desc, eq, inArray, isNull, lt, ne, or, type Placeholder, type SQL, sql } from 'drizzle-orm'
import { z } from 'zod'
import { LogSketch, type SketchBin } from '../core/classes/log-sketch.ts'
import { STALE_OPEN_FACTOR } from '../core/program/staleness.ts'
import { Id } from '../protocol/index.ts'
import type { ProgramListed, TenantRpc } from './contracts.ts'
import { decodeCursor, encodeCursor } from './cursor.ts'
import { joinedPage } from './joined-page.ts'
import { RecentPrograms } from './recent-programs.ts'
import type { ActorDatabase, ActorDb } from './storage/actor-database.ts'
import { programs } from './storage/tenant-schema.ts'

/** Past it the longest-running programs are left out of lists. They are served as before. */
export const PROGRAMS_INDEXED_MAX = 100_000
/** Left out at a time, since to find them is to look at every row. */
export const PROGRAMS_LEFT_OUT = 100
export const RUNNING_PAGE_MAX = 100
/** A program that was given room and sent nothing for this long was never opened. */
export const OPENING_EXPIRY_MS = 60_000
/** From the first change that no row has to its write. */
export const CHANGES_WRITTEN_MS = 60_000
/** Then they are written at once. */
const CHANGES_MAX = 10_000
/** Rows of programs that must have gone stale are looked for at most this often. */
const DEAD_DROPPED_EVERY_MS = 60_000
/** Beyond the time until a program goes stale: messages are seconds late, and alarms may be. */
export const DEAD_SLACK_MS = 5 * 60_000
/** From a program's first message to its row: messages within this time share a commit. */
const GATHER_MS = 50
/** A statement of an actor takes at most 100 parameters. */
const NAMES_PER_STATEMENT = 90

/** Start and id of the last program of a page. */
const Position = z.tuple([z.number().int(), Id])

type Told = Readonly<ProgramListed & { told_at_ms: number }>

interface Surroundings {
  readonly stale_after_ms: number
  /** Whether what is told of a program that has its row waits in memory. */
  readonly gathers: boolean
  /** `writeChanges` is to be called after so long, unless it is already to be called. */
  later(delay_ms: number): void
}

export class ProgramIndex {
  readonly #storage: ActorDatabase
  readonly #around: Surroundings
  readonly #recent = new RecentPrograms()
  /** Rows; null until counted. */
  #indexed: number | null = null
  /** Programs that were given room and are not in the index yet, with the time at which they got it. */
  readonly #opening = new Map<string, number>()
  /** Messages since rows were last written. A sender waits for the write, and a program sends one message at a time. */
  readonly #told: ProgramListed[] = []
  #writing: Promise<void> | null = null
  /** What programs told that their rows do not have, by program. */
  readonly #changes = new Map<string, Told>()
  /** The statements that every message runs. Drizzle writes their texts once. */
  #statements: ReturnType<typeof prepare> | null = null
  #dead_dropped_ms = Number.NEGATIVE_INFINITY

  constructor(storage: ActorDatabase, around: Surroundings) {
    this.#storage = storage
    this.#around = around
  }

  /** Resolves when the program is in the index. */
  async told(program: ProgramListed): Promise<void> {
    this.#told.push(program)
    this.#writing ??= this.#writeSoon()
    await this.#writing
  }

  /** Takes the messages of all programs so far, and writes in one commit what is to be written of them. */
  async #writeSoon(): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, GATHER_MS))
    this.#writing = null
    const told = this.#told.splice(0)
    const db = await this.#storage.writable()
    this.#statements ??= prepare(db)
    for (const program of told) this.#take(program, db, this.#statements)
    if (!this.#around.gathers || this.#changes.size >= CHANGES_MAX) this.#writeChanges(db)
    if (this.#changes.size > 0) this.#around.later(CHANGES_WRITTEN_MS)
  }

  #take(program: ProgramListed, db: ActorDb, { known, upsert }: ReturnType<typeof prepare>): void {
    this.#opening.delete(program.program)
    this.#recent.told(program)
    const told = { ...program, told_at_ms: Date.now() }
    const row = known.get({ program: program.program })
    // The same run keeps its place in the order of starts.
    if (row?.run === program.run && row.started_at_ms === program.started_at_ms) {
      this.#changes.set(program.program, told)
      return
    }
    this.#changes.delete(program.program)
    if (row === undefined) this.#makeRoom(db)
    upsert.run(told)
    if (row === undefined && this.#indexed !== null) this.#indexed += 1
  }

  /** Brings the rows up to date. */
  async writeChanges(): Promise<void> {
    if (this.#changes.size > 0) this.#writeChanges(await this.#storage.writable())
  }

  #writeChanges(db: ActorDb): void {
    if (this.#changes.size === 0) return
    this.#statements ??= prepare(db)
    for (const told of this.#changes.values()) this.#statements.update.run({ ...told })
    this.#changes.clear()
  }

  /** Only the ended run leaves the index: the id may have been opened again. */
  async ended(program: string, run: string): Promise<void> {
    this.#opening.delete(program)
    this.#recent.ended(program, run)
    if (this.#changes.get(program)?.run === run) this.#changes.delete(program)
    const db = await this.#storage.stored()
    if (db === null) return
    const gone = db
      .delete(programs)
      .where(and(eq(programs.program, program), eq(programs.run, run)))
      .returning({ program: programs.program })
      .all()
    if (this.#indexed !== null) this.#indexed -= gone.length
  }

  /** Whether the program may run beside the others. It keeps its room for a while. */
  async hasRoom({ program, live_programs_max }: Parameters<TenantRpc['roomForProgram']>[0]): Promise<boolean> {
    const now_ms = Date.now()
    for (const [opened, at_ms] of this.#opening) {
      if (now_ms - at_ms < OPENING_EXPIRY_MS) break
      this.#opening.delete(opened)
    }
    if (this.#opening.has(program)) return true
    const db = await this.#storage.stored()
    const known = db?.select({ run: programs.run }).from(programs).where(eq(programs.program, program)).get()
    if (known !== undefined) return true
    if (db !== null) this.#dropDead(db, now_ms)
    // Programs without a given name do not count against the limit.
    const isNamed = or(isNull(programs.source), ne(programs.source, 'conversation'))
    const named = db?.select({ rows: count() }).from(programs).where(isNamed).get()?.rows ?? 0
    if (named + this.#opening.size >= live_programs_max) return false
    this.#opening.set(program, now_ms)
    return true
  }

  /**
   * A message that was in flight when its ProgramActor died may come after the program's end, and its row would stay. But a
   * running program tells of every change, and without one it goes stale. So a row that was told of before that is dead.
   */
  #dropDead(db: ActorDb, now_ms: number): void {
    if (now_ms - this.#dead_dropped_ms < DEAD_DROPPED_EVERY_MS) return
    this.#dead_dropped_ms = now_ms
    this.#writeChanges(db)
    const { stale_after_ms } = this.#around
    const { told_at_ms, last_arrival_ms, open_calls } = programs
    const told_ms = sql`max(${told_at_ms}, ${last_arrival_ms})`
    const stale_ms = sql`CASE WHEN ${open_calls} > 0 THEN ${STALE_OPEN_FACTOR * stale_after_ms} ELSE ${stale_after_ms} END`
    const gone = db
      .delete(programs)
      .where(sql`${told_ms} + ${stale_ms} + ${DEAD_SLACK_MS} < ${now_ms}`)
      .returning({ program: programs.program, run: programs.run })
      .all()
    for (const { program, run } of gone) this.#recent.ended(program, run)
    if (this.#indexed !== null) this.#indexed -= gone.length
  }

  #makeRoom(db: ActorDb): void {
    if (this.#count(db) < PROGRAMS_INDEXED_MAX) return
    const { program, started_at_ms } = programs
    const oldest = db.select({ program }).from(programs).orderBy(asc(started_at_ms)).limit(PROGRAMS_LEFT_OUT).all()
    const names = oldest.map((row) => row.program)
    for (let from = 0; from < names.length; from += NAMES_PER_STATEMENT) {
      db.delete(programs)
        .where(inArray(program, names.slice(from, from + NAMES_PER_STATEMENT)))
        .run()
    }
    for (const name of names) this.#changes.delete(name)
    this.#indexed = this.#count(db) - names.length
  }

  /** The newest first. Null: the cursor is invalid. */
  async page({ cursor, limit: asked }: Parameters<TenantRpc['running']>[0]): ReturnType<TenantRpc['running']> {
    const after = cursor === null ? null : decodeCursor(cursor, Position)
    if (cursor !== null && after === null) return null
    const db = await this.#storage.stored()
    if (db === null) return { programs: [], next: null }
    const limit = Math.min(asked, RUNNING_PAGE_MAX)
    const rows = db
      .select()
      .from(programs)
      .where(after === null ? undefined : beyond(after))
      .orderBy(desc(programs.started_at_ms), asc(programs.program))
      .limit(limit + 1)
      .all()
    const listed = rows.slice(0, limit)
    const last = listed.at(-1)
    const next = rows.length > limit && last !== undefined ? encodeCursor([last.started_at_ms, last.program]) : null
    return { programs: listed.map((row) => this.#changes.get(row.program) ?? row), next }
  }

  async count(): Promise<number> {
    const db = await this.#storage.stored()
    return db === null ? 0 : this.#count(db)
  }

  #count(db: ActorDb): number {
    this.#indexed ??= db.select({ rows: count() }).from(programs).get()?.rows ?? 0
    return this.#indexed
  }

  /** Output so far of the programs of this class that have open calls. */
  async goingOn(name: string): Promise<SketchBin[]> {
    const sketch = new LogSketch()
    for (const { class: of_class, open_calls, output_tokens } of await this.#recently()) {
      // A program without open calls may be over, although its client has not ended it.
      if (of_class === name && open_calls > 0 && output_tokens > 0) sketch.add(output_tokens)
    }
    return sketch.bins()
  }

  async medianServiceUs(): Promise<number> {
    const services = Array.from(await this.#recently(), ({ service_us }) => service_us).sort((a, b) => a - b)
    return services[Math.floor(services.length / 2)] ?? 0
  }

  async #recently(): Promise<ReturnType<RecentPrograms['all']>> {
    const db = await this.#storage.stored()
    if (db !== null && this.#recent.isToBeRead) this.#writeChanges(db)
    return this.#recent.all(db)
  }
}

type ProgramPage = Awaited<ReturnType<TenantRpc['running']>>

/** One page of what each shard has. Null: the cursor is invalid. */
export function joinedPrograms(pages: readonly ProgramPage[], asked: number): ProgramPage {
  const rows = pages.map((page) => (page === null ? null : { rows: page.programs, next: page.next }))
  const joined = joinedPage<ProgramListed>(rows, Math.min(asked, RUNNING_PAGE_MAX), {
    placeOf: ({ started_at_ms, program }) => [started_at_ms, program],
    directions: ['descending', 'ascending'],
  })
  return joined === null ? null : { programs: [...joined.rows], next: joined.next }
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
