/**
 * Rows of a ProgramActor in its own SQLite. Writes are upserts by id, all of one flush in one transaction.
 *
 * Rows written are the largest part of a call's cost on Cloudflare. So a call and its leases are one row, and the tables are
 * WITHOUT ROWID: the primary key is the table and not an extra index that counts as a row of its own. This is set in the
 * migration, since Drizzle cannot express it. A new program has no table but those of runs and calls, without Drizzle's list of migrations.
 */
import { and, eq, getTableName, ne, sql } from 'drizzle-orm'
import { z } from 'zod'
import type { Checkpoint, DirtyRows, LeaseRow, ProgramRows } from '../core/program/program-state.ts'
import { CallRowJson, CheckpointJson, LeaseRowJson, ProgramRowJson } from '../store/program-row-schemas.ts'
import { RetryState } from './archive-retry.ts'
import { isUnreadable, type LoadedRun } from './broken-runs.ts'
import { WaitingEnds } from './class-notifier.ts'
import { Hold } from './program-residency.ts'
import { ActorDatabase, type ActorDb } from './storage/actor-database.ts'
import { programMigrations } from './storage/migrations.gen.ts'
import { calls, leases, runs } from './storage/program-schema.ts'

const HOLD_KEY = 'hold'
const RETRY_KEY = 'retry'
const CLASS_ENDS_KEY = 'class_ends'
const ARCHIVED_KEY = 'archived'
const ArchivedRuns = z.array(z.string())
const LeaseList = z.array(z.unknown())
const StoredCheckpoint = z.object({ checkpoint: CheckpointJson.nullable().default(null) })

interface CallTexts {
  row: string
  /** A list. Null: they are rows of their own. */
  leases: string | null
}

/** Rows of one run, as they are stored. */
interface RunTexts {
  calls: readonly CallTexts[]
  /** Rows of leases that have not changed since an earlier version wrote them. */
  leases: readonly string[]
}

export class ProgramStorage {
  private readonly values: DurableObjectStorage
  private readonly storage: ActorDatabase
  /** Stored runs of which the archive has everything. */
  private archived = new Set<string>()

  constructor(storage: DurableObjectStorage) {
    this.values = storage
    this.storage = new ActorDatabase(storage, programMigrations, { without: [getTableName(leases)] })
  }

  /** Every stored run. A row that is not as it was written is told apart: its run must not go on without it. */
  async load(): Promise<LoadedRun[]> {
    const db = await this.storage.stored()
    if (db === null) return []
    this.archived = new Set(ArchivedRuns.parse((await this.values.get(ARCHIVED_KEY)) ?? []))
    return db
      .select()
      .from(runs)
      .all()
      .map(({ run, row }) => {
        const archived = this.archived.has(run)
        const checkpoint = checkpointOf(row)
        const part = checkpoint === null ? null : readRun(row, namedTexts(db, run, checkpoint))
        // What does not load is looked at with all the rest of the run.
        if (part !== null && part.unreadable.length === 0) return { run, ...part, checkpoint, archived }
        return { run, ...readRun(row, allTexts(db, run)), checkpoint: null, archived }
      })
  }

  /**
   * Every stored call and lease of a run that was loaded from its checkpoint. Null: some do not load. Then the run has no
   * checkpoint any more, and the next load meets them.
   */
  history(run: string): Pick<ProgramRows, 'calls' | 'leases'> | null {
    const db = this.storage.opened()
    const stored = db.select({ row: runs.row }).from(runs).where(eq(runs.run, run)).get()
    if (stored === undefined) return null
    const { rows, unreadable } = readRun(stored.row, allTexts(db, run))
    if (rows !== null && unreadable.length === 0) return rows
    const { checkpoint: _, ...row } = z.looseObject({}).parse(JSON.parse(stored.row))
    db.update(runs)
      .set({ row: JSON.stringify(row) })
      .where(eq(runs.run, run))
      .run()
    return null
  }

  async write(run: string, dirty: DirtyRows): Promise<void> {
    const texts = upserts(await this.storage.writable())
    // Before the rows, so that a crash in between costs no more than another archiving.
    if (this.archived.delete(run)) this.storeArchived()
    this.storage.transaction((upsert) => {
      const { program, checkpoint } = dirty
      if (program !== null) upsert(texts.run, run, JSON.stringify({ ...program, checkpoint }))
      const leasesOf = Map.groupBy(dirty.leases, ({ call }) => call)
      for (const call of dirty.calls) {
        upsert(texts.call, run, call.position, JSON.stringify(call), JSON.stringify(leasesOf.get(call.call) ?? []))
      }
    })
  }

  /** The archive has all of the run, and something else must be done before it is forgotten. */
  async markArchived(run: string): Promise<void> {
    await this.storage.writable()
    this.archived.add(run)
    this.storeArchived()
  }

  private storeArchived(): void {
    if (this.archived.size === 0) this.values.kv.delete(ARCHIVED_KEY)
    else this.values.kv.put(ARCHIVED_KEY, [...this.archived])
  }

  async loadRetry(): Promise<RetryState | null> {
    const stored = (await this.storage.stored()) === null ? undefined : await this.values.get(RETRY_KEY)
    return stored === undefined ? null : RetryState.parse(stored)
  }

  async storeRetry(retry: RetryState | null): Promise<void> {
    await this.storage.writable()
    if (retry === null) await this.values.delete(RETRY_KEY)
    else await this.values.put(RETRY_KEY, retry)
  }

  async loadClassEnds(): Promise<WaitingEnds> {
    const stored = (await this.storage.stored()) === null ? undefined : await this.values.get(CLASS_ENDS_KEY)
    return stored === undefined ? [] : WaitingEnds.parse(stored)
  }

  async storeClassEnds(waiting: WaitingEnds): Promise<void> {
    await this.storage.writable()
    if (waiting.length === 0) await this.values.delete(CLASS_ENDS_KEY)
    else await this.values.put(CLASS_ENDS_KEY, waiting)
  }

  /** What remains of a forgotten run. Reads only if there are tables, so a new object reads nothing more. */
  async loadHold(): Promise<Hold | null> {
    const stored = (await this.storage.stored()) === null ? undefined : await this.values.get(HOLD_KEY)
    return stored === undefined ? null : Hold.parse(stored)
  }

  async storeHold(hold: Hold | null): Promise<void> {
    await this.storage.writable()
    if (hold === null) await this.values.delete(HOLD_KEY)
    else await this.values.put(HOLD_KEY, hold)
  }

  /** Deletes everything, if no run is stored. */
  async clear(): Promise<void> {
    const db = await this.storage.stored()
    if (db === null || db.select({ run: runs.run }).from(runs).limit(1).all().length > 0) return
    await this.storage.clear()
  }

  /** Forgets one run. After the last run it deletes everything, unless the rest must stay. */
  async forget(run: string, rest: 'stays' | 'goes'): Promise<void> {
    const db = await this.storage.stored()
    if (db === null) return
    if (this.archived.delete(run)) this.storeArchived()
    const others = db.select({ run: runs.run }).from(runs).where(ne(runs.run, run)).limit(1).all()
    if (others.length === 0 && rest === 'goes') return this.storage.clear()
    db.transaction((tx) => {
      if (hasLeases(db)) tx.delete(leases).where(eq(leases.run, run)).run()
      tx.delete(calls).where(eq(calls.run, run)).run()
      tx.delete(runs).where(eq(runs.run, run)).run()
    })
  }
}

const callTexts = { row: calls.row, leases: calls.leases }

function allTexts(db: ActorDb, run: string): RunTexts {
  const ofCalls = db.select(callTexts).from(calls).where(eq(calls.run, run)).orderBy(calls.position).all()
  const ofLeases = hasLeases(db) ? db.select({ row: leases.row }).from(leases).where(eq(leases.run, run)).all() : []
  return { calls: ofCalls, leases: ofLeases.map((lease) => lease.row) }
}

/** Of the rows that the checkpoint names, however many others there are. */
function namedTexts(db: ActorDb, run: string, { live }: Checkpoint): RunTexts {
  const among = (values: readonly (string | number)[]) => sql`(SELECT value FROM json_each(${JSON.stringify(values)}))`
  const positions = among(live.map(({ position }) => position))
  const ofCalls = db
    .select(callTexts)
    .from(calls)
    .where(and(eq(calls.run, run), sql`${calls.position} IN ${positions}`))
    .all()
  if (ofCalls.every((call) => call.leases !== null) || !hasLeases(db)) return { calls: ofCalls, leases: [] }
  const ids = among(live.flatMap((call) => call.leases))
  const ofLeases = db
    .select({ row: leases.row })
    .from(leases)
    .where(and(eq(leases.run, run), sql`${leases.lease} IN ${ids}`))
    .all()
  return { calls: ofCalls, leases: ofLeases.map((lease) => lease.row) }
}

/** Only an earlier version made it. */
function hasLeases(db: ActorDb): boolean {
  return db.all(sql`SELECT 1 FROM sqlite_master WHERE name = ${getTableName(leases)}`).length > 0
}

/** Null: there is none, or it does not load, so that the whole run must be read. */
function checkpointOf(row: string): Checkpoint | null {
  try {
    return StoredCheckpoint.parse(JSON.parse(row)).checkpoint
  } catch (error) {
    if (isUnreadable(error)) return null
    throw error
  }
}

function readRun(row: string, texts: RunTexts): Pick<LoadedRun, 'rows' | 'unreadable'> {
  const unreadable: string[] = []
  const program = readRow(ProgramRowJson, row, unreadable)
  const read = texts.calls.flatMap((call) => readRow(CallRowJson, call.row, unreadable) ?? [])
  const known = new Set(read.map(({ call }) => call))
  const granted = new Map<string, LeaseRow>()
  const ofRows = texts.leases.flatMap((text) => readRow(LeaseRowJson, text, unreadable) ?? [])
  const ofCalls = texts.calls.flatMap((call) => leasesIn(call.leases, unreadable))
  for (const lease of [...ofRows, ...ofCalls]) {
    if (known.has(lease.call)) granted.set(lease.lease, lease)
    else unreadable.push(JSON.stringify(lease))
  }
  const everything = texts.calls.flatMap((call) => [call.row, ...(call.leases === null ? [] : [call.leases])])
  if (program === null) return { rows: null, unreadable: [row, ...everything, ...texts.leases] }
  return { rows: { program, calls: read, leases: [...granted.values()] }, unreadable }
}

function leasesIn(list: string | null, unreadable: string[]): LeaseRow[] {
  const values = list === null ? [] : (readRow(LeaseList, list, unreadable) ?? [])
  return values.flatMap((value) => readValue(LeaseRowJson, value, unreadable) ?? [])
}

/** Null: the text is not such a row, and is added to `unreadable`. */
function readRow<Row>(schema: z.ZodType<Row>, text: string, unreadable: string[]): Row | null {
  try {
    return schema.parse(JSON.parse(text))
  } catch (error) {
    if (!isUnreadable(error)) throw error
    unreadable.push(text)
    return null
  }
}

function readValue<Row>(schema: z.ZodType<Row>, value: unknown, unreadable: string[]): Row | null {
  const read = schema.safeParse(value)
  if (!read.success) unreadable.push(JSON.stringify(value))
  return read.success ? read.data : null
}

interface Upserts {
  run: string
  call: string
}

let written: Upserts | null = null

/** The statements' texts, made once per isolate: having Drizzle make them for every row took about 4 % of a call's CPU. */
function upserts(db: ActorDb): Upserts {
  const set = { row: sql`excluded.row` }
  written ??= {
    run: db.insert(runs).values({ run: '', row: '' }).onConflictDoUpdate({ target: runs.run, set }).toSQL().sql,
    call: db
      .insert(calls)
      .values({ run: '', position: 0, row: '', leases: '' })
      .onConflictDoUpdate({ target: [calls.run, calls.position], set: { ...set, leases: sql`excluded.leases` } })
      .toSQL().sql,
  }
  return written
}
