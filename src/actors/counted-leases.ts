/**
 * The leases that a tenant's sums have, or will have (spend-backlog.ts), so that each counts once, however often its record comes.
 * One is remembered for DAYS_REMEMBERED, and a day more at most, or for less while storage is nearly full. Agents send a record again
 * only until it is acknowledged, which takes seconds unless the control plane is down.
 *
 * A tenant of many calls has a row for each of them, so rows are short and have no index of their times. They are in tables that follow
 * each other, a new one each day or after LEASES_PER_TABLE_MAX. To drop a table is billed as no row, to delete its rows as one for each.
 */
import { and, eq, gt, inArray, type SQL, sql } from 'drizzle-orm'
import { integer, primaryKey, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { z } from 'zod'
import { CHARGE_FIELDS, dayOf, NO_CHARGE } from '../core/budget/charge.ts'
import type { Charged } from './spend-meter.ts'
import type { ActorTx } from './storage/actor-database.ts'
import { countedLeases, spendFolds } from './storage/tenant-schema.ts'

const DAYS_REMEMBERED = 7
const DAY_MS = 24 * 60 * 60 * 1000
/** A restart reads the newest table, in 0.2 s where it has so many. To drop it takes half of that. */
export const LEASES_PER_TABLE_MAX = 500_000
/** No record comes of a lease that took longer, so a call's leases were granted within it. The rest is for clocks that differ. */
const CALL_MS_MAX = DAY_MS + 60 * 60 * 1000
/** A statement of an actor takes at most 100 parameters, and a lease's row has four. */
const LEASES_PER_STATEMENT = 24
const NAMES_PER_STATEMENT = 80
/** Of spend_folds: since when all leases are remembered. */
const REMEMBERED_ROW = 1
/** And the time at which the table was made. */
const PREFIX = 'counted_'

export interface LeaseId {
  call: string
  lease: string
}

/** `granted_at_ms` absent: not known. */
export interface GrantedCall {
  call: string
  granted_at_ms?: number | undefined
}

export interface Counted {
  /** Null: counted before there was spend. */
  charged: Charged | null
  /** The fold that brings it into the sums. 0: they had it before there were folds. */
  fold: number
}

/** By call and lease. */
export type CountedOfCalls = Map<string, Map<string, Counted>>

interface Table {
  since_ms: number
  leases: ReturnType<typeof tableOf>
}

interface Tables {
  /** The oldest first. */
  own: Table[]
  /** Rows of the last one. */
  newest_rows: number
  /** Whether an earlier version left rows in its table, which is older than all of these. */
  has_earlier: boolean
  /** 0: none of these was ever dropped. */
  remembers_since_ms: number
}

export class CountedLeases {
  /** Null: to be read. */
  #tables: Tables | null = null

  /** All counted leases of these calls. */
  of(db: ActorTx, asked: readonly GrantedCall[], now_ms: number): CountedOfCalls {
    const known: CountedOfCalls = new Map()
    const calls = [...new Set(asked.map(({ call }) => call))]
    const since_ms = Math.min(...asked.map(({ granted_at_ms }) => granted_at_ms ?? Number.NEGATIVE_INFINITY))
    const found = ({ call, lease, charged, fold }: { call: string; lease: string; charged: string; fold: number }) => {
      const leases = known.get(call) ?? new Map<string, Counted>()
      known.set(call, leases.set(lease, { charged: readCharged(lease, charged), fold }))
    }
    for (let from = 0; from < calls.length; from += NAMES_PER_STATEMENT) {
      const some = calls.slice(from, from + NAMES_PER_STATEMENT)
      const { own, with_earlier } = this.#since(db, since_ms)
      for (const { leases } of own) db.select().from(leases).where(inArray(leases.call, some)).all().forEach(found)
      if (!with_earlier) continue
      const { call, lease, charged } = countedLeases
      const where = and(isRemembered(now_ms), inArray(call, some))
      for (const row of db.select({ call, lease, charged }).from(countedLeases).where(where).all()) {
        found({ ...row, fold: 0 })
      }
    }
    return known
  }

  /** Whether this lease of a call that has just ended was counted. */
  has(db: ActorTx, lease: LeaseId, now_ms: number): boolean {
    return this.which(db, [lease], now_ms).length > 0
  }

  /** Those of these leases that were counted, of calls that have just ended. */
  which(db: ActorTx, asked: readonly LeaseId[], now_ms: number): string[] {
    const calls = asked.map(({ call }) => ({ call, granted_at_ms: now_ms }))
    const known = this.of(db, calls, now_ms)
    return asked.filter(({ call, lease }) => known.get(call)?.has(lease) ?? false).map(({ lease }) => lease)
  }

  /** Those of these leases that were counted, of calls that ended within a day. Reads all leases of that time: for after a restart. */
  among(db: ActorTx, asked: readonly string[], now_ms: number): string[] {
    const found: string[] = []
    for (let from = 0; from < asked.length; from += NAMES_PER_STATEMENT) {
      const some = asked.slice(from, from + NAMES_PER_STATEMENT)
      const { own, with_earlier } = this.#since(db, now_ms)
      for (const table of [...own.map(({ leases }) => leases), ...(with_earlier ? [countedLeases] : [])]) {
        const rows = db.select({ lease: table.lease }).from(table).where(inArray(table.lease, some)).all()
        found.push(...rows.map(({ lease }) => lease))
      }
    }
    return found
  }

  /** Those that a fold after `folded` brings into the sums, by call. They are in the newest table. */
  after(db: ActorTx, folded: number): CountedOfCalls {
    const newest = this.#read(db).own.at(-1)?.leases
    if (newest === undefined) return new Map()
    const rows = db.select().from(newest).where(gt(newest.fold, folded)).all()
    const calls: CountedOfCalls = new Map()
    for (const { call, lease, charged, fold } of rows) {
      const leases = calls.get(call) ?? new Map<string, Counted>()
      calls.set(call, leases.set(lease, { charged: readCharged(lease, charged), fold }))
    }
    return calls
  }

  /** `may_begin`: the sums have all leases that were counted before, so a new table may follow. */
  remember(
    db: ActorTx,
    counted: readonly (LeaseId & { charged: Charged })[],
    { fold, may_begin, now_ms }: { fold: number; may_begin: boolean; now_ms: number },
  ): void {
    if (counted.length === 0) return
    const { leases } = this.#newest(db, may_begin, now_ms)
    for (let from = 0; from < counted.length; from += LEASES_PER_STATEMENT) {
      const rows = counted.slice(from, from + LEASES_PER_STATEMENT).map(({ call, lease, charged }) => {
        return { call, lease, charged: storeCharged(charged), fold }
      })
      db.insert(leases).values(rows).run()
    }
    this.#read(db).newest_rows += counted.length
  }

  /** Drops the tables whose leases need not be remembered. `is_full`: the oldest of any, which stays only if it is the newest. */
  forget(db: ActorTx, now_ms: number, is_full: boolean): void {
    const tables = this.#read(db)
    const isOver = (until_ms: number) => is_full || until_ms < now_ms - (DAYS_REMEMBERED + 1) * DAY_MS
    const [first] = tables.own
    if (tables.has_earlier && first !== undefined && isOver(first.since_ms)) {
      this.#forgetEarlier(db)
      return
    }
    while (tables.own.length > 1 && isOver(tables.own[1]?.since_ms ?? now_ms)) {
      const oldest = tables.own.shift()
      if (oldest === undefined) return
      db.run(sql`DROP TABLE ${oldest.leases}`)
      this.#forgotBefore(db, tables)
      if (is_full) return
    }
  }

  /** All leases that were counted since then are remembered. */
  remembersSinceMs(db: ActorTx): number {
    return this.#read(db).remembers_since_ms
  }

  /** The oldest table has been dropped. */
  #forgotBefore(db: ActorTx, tables: Tables): void {
    const since_ms = tables.own[0]?.since_ms ?? 0
    tables.remembers_since_ms = since_ms
    db.insert(spendFolds)
      .values({ id: REMEMBERED_ROW, folded: since_ms })
      .onConflictDoUpdate({ target: spendFolds.id, set: { folded: since_ms } })
      .run()
  }

  /** What storage has is read again: a transaction was taken back. */
  reset(): void {
    this.#tables = null
  }

  /** Where leases that were granted since then are, or others of their calls. */
  #since(db: ActorTx, granted_at_ms: number): { own: Table[]; with_earlier: boolean } {
    const { own, has_earlier } = this.#read(db)
    const first = own.findLastIndex(({ since_ms }) => since_ms < granted_at_ms - CALL_MS_MAX)
    return { own: own.slice(Math.max(0, first)), with_earlier: has_earlier && first < 0 }
  }

  #newest(db: ActorTx, may_begin: boolean, now_ms: number): Table {
    const tables = this.#read(db)
    const newest = tables.own.at(-1)
    const is_over =
      newest === undefined || dayOf(newest.since_ms) < dayOf(now_ms) || tables.newest_rows >= LEASES_PER_TABLE_MAX
    if (newest !== undefined && !(is_over && may_begin)) return newest
    const next = { since_ms: Math.max(now_ms, (newest?.since_ms ?? 0) + 1) }
    const table = { ...next, leases: tableOf(PREFIX + next.since_ms) }
    db.run(
      sql`CREATE TABLE ${table.leases} (call text NOT NULL, lease text NOT NULL, charged text NOT NULL, fold integer NOT NULL, PRIMARY KEY (call, lease)) WITHOUT ROWID`,
    )
    tables.own.push(table)
    tables.newest_rows = 0
    return table
  }

  #read(db: ActorTx): Tables {
    if (this.#tables !== null) return this.#tables
    const names = db.all<{ name: string }>(sql`SELECT name FROM sqlite_master WHERE name GLOB ${`${PREFIX}[0-9]*`}`)
    const own = names
      .map(({ name }) => ({ since_ms: Number(name.slice(PREFIX.length)), leases: tableOf(name) }))
      .sort((a, b) => a.since_ms - b.since_ms)
    const newest = own.at(-1)?.leases
    const [rows] = newest === undefined ? [] : db.select({ rows: sql<number>`count(*)` }).from(newest).all()
    const earlier = db.select({ day: countedLeases.day }).from(countedLeases).limit(1).all()
    const since = db.select().from(spendFolds).where(eq(spendFolds.id, REMEMBERED_ROW)).get()
    this.#tables = {
      ...{ own, newest_rows: rows?.rows ?? 0, has_earlier: earlier.length > 0 },
      remembers_since_ms: since?.folded ?? 0,
    }
    return this.#tables
  }

  /** Leaves an empty table, which an earlier version goes on from. */
  #forgetEarlier(db: ActorTx): void {
    const [made] = db.all<{ sql: string }>(sql`SELECT sql FROM sqlite_master WHERE name = 'counted_leases'`)
    db.run(sql`DROP TABLE ${countedLeases}`)
    if (made !== undefined) db.run(sql.raw(made.sql))
    this.#read(db).has_earlier = false
  }
}

/** One of the tables. Drizzle makes none while an actor runs, so `#newest` has its columns too. */
function tableOf(name: string) {
  const columns = {
    call: text('call').notNull(),
    lease: text('lease').notNull(),
    /** JSON: what the lease was charged, and to whom. */
    charged: text('charged').notNull(),
    fold: integer('fold').notNull(),
  }
  return sqliteTable(name, columns, (table) => [primaryKey({ columns: [table.call, table.lease] })])
}

/** Of the earlier version's table. A clock that was ahead for a while may have written to the next day. */
function isRemembered(now_ms: number): SQL {
  const today = Math.floor(now_ms / DAY_MS)
  return inArray(
    countedLeases.day,
    Array.from({ length: DAYS_REMEMBERED + 2 }, (_, back) => today + 1 - back),
  )
}

const Amount = z.number().int()
/** Time of the grant, key, class, program, model, and the amounts in the order of CHARGE_FIELDS. */
const StoredCharged = z.tuple([z.number(), z.string(), z.string(), z.string(), z.string()], Amount)
/** As earlier versions stored it. */
const NamedCharged = z.object({
  ...{ granted_at_ms: z.number(), key: z.string(), class: z.string(), program: z.string(), model: z.string() },
  charge: z.object({
    ...{ calls: Amount, prompt_tokens: Amount, cached_tokens: Amount, output_tokens: Amount },
    ...{ service_us: Amount, cost_nanos: Amount },
  }),
})

function storeCharged({ granted_at_ms, key, class: of_class, program, model, charge }: Charged): string {
  return JSON.stringify([granted_at_ms, key, of_class, program, model, ...CHARGE_FIELDS.map((field) => charge[field])])
}

function readCharged(lease: string, stored: string): Charged | null {
  if (stored === '') return null
  const value: unknown = JSON.parse(stored)
  const of = Array.isArray(value) ? named(StoredCharged.parse(value)) : NamedCharged.parse(value)
  return { ...of, lease, day: dayOf(of.granted_at_ms) }
}

function named([granted_at_ms, key, of_class, program, model, ...amounts]: z.infer<typeof StoredCharged>) {
  const charge = { ...NO_CHARGE }
  for (const [at, field] of CHARGE_FIELDS.entries()) charge[field] = amounts[at] ?? 0
  return { granted_at_ms, key, class: of_class, program, model, charge }
}
