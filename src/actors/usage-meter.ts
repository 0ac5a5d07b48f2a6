/**
 * Usage of calls that belong to no program, by day, API key and model. Such a call has no process-table entry, so its
 * tenant's actor keeps the sums. Each lease counts once, however often its record comes: its id is remembered for
 * LEASE_REMEMBERED_MS. Agents send a record again only until it is acknowledged.
 */
import { and, desc, eq, inArray, lt, or, sql } from 'drizzle-orm'
import { z } from 'zod'
import type { ProvenRecord } from '../core/program/program-state.ts'
import { Id, MEASURED_SUMS, type MeasuredSums, measuredSums } from '../protocol/index.ts'
import type { UsageListed } from './contracts.ts'
import { decodeCursor, encodeCursor } from './cursor.ts'
import type { ActorDatabase, ActorDb } from './storage/actor-database.ts'
import { meteredLeases, usage } from './storage/tenant-schema.ts'

export const LEASE_REMEMBERED_MS = 7 * 24 * 60 * 60 * 1000
/** Rows of days before that are removed. */
export const USAGE_DAYS_KEPT = 400
export const USAGE_PAGE_MAX = 100
/** From a record to its row: records within this time share a commit. */
const GATHER_MS = 20
/** More than come with them, so that what is to be forgotten does not pile up. */
const FORGOTTEN_PER_RECORD = 2
/** A statement of an actor takes at most 100 parameters, and a lease's row has three. */
const LEASES_PER_STATEMENT = 30
/** In place of the key's id, where a lease was granted before leases named their keys. */
const NO_KEY = ''
const DAY_MS = 24 * 60 * 60 * 1000

/** An actor's database, or a transaction on it. */
type Db = Pick<ActorDb, 'select' | 'insert' | 'delete'>
type Metered = MeasuredSums & { day: string; key: string; model: string; calls: number; leases: number }

/** Day, key and model of the last row of a page. */
const Position = z.tuple([z.iso.date(), z.union([z.literal(NO_KEY), Id]), Id])

export class UsageMeter {
  readonly #storage: ActorDatabase
  /** Since the last commit. */
  readonly #told: ProvenRecord[] = []
  #writing: Promise<void> | null = null

  constructor(storage: ActorDatabase) {
    this.#storage = storage
  }

  /** Resolves when the records are counted. */
  async record(records: readonly ProvenRecord[]): Promise<void> {
    this.#told.push(...records)
    this.#writing ??= this.#writeSoon()
    await this.#writing
  }

  /** The newest day first. Null: the cursor is invalid. */
  async page(request: { cursor: string | null; limit: number }) {
    const after = request.cursor === null ? null : decodeCursor(request.cursor, Position)
    if (request.cursor !== null && after === null) return null
    const db = await this.#storage.stored()
    if (db === null) return { usage: [], next: null }
    const limit = Math.min(request.limit, USAGE_PAGE_MAX)
    const rows = db
      .select()
      .from(usage)
      .where(after === null ? undefined : beyond(after))
      .orderBy(desc(usage.day), desc(usage.key), desc(usage.model))
      .limit(limit + 1)
      .all()
    const listed = rows.slice(0, limit)
    const last = listed.at(-1)
    const next = rows.length > limit && last !== undefined ? encodeCursor([last.day, last.key, last.model]) : null
    return { usage: listed.map((row): UsageListed => ({ ...row, key: row.key === NO_KEY ? null : row.key })), next }
  }

  async #writeSoon(): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, GATHER_MS))
    this.#writing = null
    const told = this.#told.splice(0)
    const db = await this.#storage.writable()
    const now_ms = Date.now()
    // A lease that is remembered is in the sums: both or neither.
    db.transaction((tx) => {
      const fresh = notCounted(tx, told)
      remember(tx, fresh, now_ms)
      for (const sums of summed(fresh, now_ms)) add(tx, sums)
      forget(tx, now_ms, FORGOTTEN_PER_RECORD * told.length)
    })
  }
}

/** The leases that are not counted yet, each once. `first`: no lease of its call was counted. */
function notCounted(db: Db, records: readonly ProvenRecord[]): (ProvenRecord & { first: boolean })[] {
  const leases = new Set<string>()
  const calls = new Set<string>()
  for (let from = 0; from < records.length; from += LEASES_PER_STATEMENT) {
    const some = records.slice(from, from + LEASES_PER_STATEMENT)
    const known = db
      .select({ lease: meteredLeases.lease, call: meteredLeases.call })
      .from(meteredLeases)
      .where(
        inArray(
          meteredLeases.call,
          some.map(({ call }) => call),
        ),
      )
      .all()
    for (const { lease, call } of known) {
      leases.add(lease)
      calls.add(call)
    }
  }
  return records.flatMap((record) => {
    if (leases.has(record.lease)) return []
    leases.add(record.lease)
    const first = !calls.has(record.call)
    calls.add(record.call)
    return { ...record, first }
  })
}

function remember(db: Db, records: readonly ProvenRecord[], at_ms: number): void {
  for (let from = 0; from < records.length; from += LEASES_PER_STATEMENT) {
    const rows = records.slice(from, from + LEASES_PER_STATEMENT).map(({ lease, call }) => ({ lease, call, at_ms }))
    db.insert(meteredLeases).values(rows).run()
  }
}

function summed(records: readonly (ProvenRecord & { first: boolean })[], now_ms: number): Metered[] {
  const sums = new Map<string, Metered>()
  for (const { first, ...record } of records) {
    const { key, granted_at_ms, model } = record
    const place = { day: dayOf(granted_at_ms ?? now_ms), key: key ?? NO_KEY, model }
    const name = JSON.stringify(place)
    const sum = sums.get(name)
    const measured = { ...measuredSums(record), calls: first ? 1 : 0, leases: 1 }
    if (sum === undefined) sums.set(name, { ...place, ...measured })
    else for (const field of SUMMED) sum[field] += measured[field]
  }
  return [...sums.values()]
}

const SUMMED = ['calls', 'leases', ...MEASURED_SUMS] as const

function add(db: Db, sums: Metered): void {
  // A sum beyond the integers that JavaScript can tell apart would not load again.
  const set = Object.fromEntries(
    SUMMED.map((field) => [field, sql`min(${usage[field]} + ${sums[field]}, ${Number.MAX_SAFE_INTEGER})`]),
  )
  const target = [usage.day, usage.key, usage.model]
  db.insert(usage).values(sums).onConflictDoUpdate({ target, set }).run()
}

function forget(db: Db, now_ms: number, leases_max: number): void {
  const expired = db
    .select({ lease: meteredLeases.lease })
    .from(meteredLeases)
    .where(lt(meteredLeases.at_ms, now_ms - LEASE_REMEMBERED_MS))
    .limit(leases_max)
  db.delete(meteredLeases).where(inArray(meteredLeases.lease, expired)).run()
  db.delete(usage)
    .where(lt(usage.day, dayOf(now_ms - USAGE_DAYS_KEPT * DAY_MS)))
    .run()
}

/** UTC. */
function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10)
}

function beyond([day, key, model]: z.infer<typeof Position>) {
  return or(
    lt(usage.day, day),
    and(eq(usage.day, day), lt(usage.key, key)),
    and(eq(usage.day, day), eq(usage.key, key), lt(usage.model, model)),
  )
}
