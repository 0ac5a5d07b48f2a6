/**
 * What the tenant's records add up to. Usage is of calls that belong to no program, by day, API key and model: such a call has
 * no process-table entry, so its tenant's actor keeps the sums. Spend is of all calls (spend-meter.ts). Each lease counts once,
 * however often its record comes (counted-leases.ts).
 *
 * Most programs tell what all their calls were charged (told-spend.ts), and their records do not come here. What is told waits in
 * memory for a while, unless its run has ended. A program tells all of it again, so a crash loses nothing for good.
 */
import { and, desc, eq, lt, or, sql } from 'drizzle-orm'
import { z } from 'zod'
import { dayOf } from '../core/budget/charge.ts'
import type { RunSpendTold } from '../core/budget/run-spend.ts'
import { isAlone } from '../core/program/tenant-shards.ts'
import { Id, MEASURED_SUMS, type MeasuredSums, measuredSums } from '../protocol/index.ts'
import type { PricedRecord, SpendAsked, TenantRpc, UsageListed } from './contracts.ts'
import type { Counted, CountedLeases, CountedOfCalls } from './counted-leases.ts'
import { decodeCursor, encodeCursor } from './cursor.ts'
import { joinedPage } from './joined-page.ts'
import type { SpendBacklog } from './spend-backlog.ts'
import { type Charged, ClassesMet, changesOf, dropSpend, type SpendChange, spendPage } from './spend-meter.ts'
import type { ActorDatabase, ActorDb, ActorTx } from './storage/actor-database.ts'
import { usage } from './storage/tenant-schema.ts'
import type { TenantBudgets } from './tenant-budgets.ts'
import { newerPlaces, ToldSpend } from './told-spend.ts'

/** Rows of days before that are removed. */
export const USAGE_DAYS_KEPT = 400
export const USAGE_PAGE_MAX = 100
/** From a record to its row: records within this time share a commit. */
const GATHER_MS = 20
/** An actor's SQLite has 10 GB. Past this, leases are forgotten before their time, and the tenant's records go on being counted. */
const BYTES_MAX = 8_000_000_000
/** Runs whose spend waits in memory. Past it, all of it is written at once. */
const TOLD_MAX = 4_096
/** In place of the key's id, where a lease was granted before leases named their keys. */
const NO_KEY = ''
const DAY_MS = 24 * 60 * 60 * 1000

type Metered = MeasuredSums & { day: string; key: string; model: string; calls: number; leases: number }

/** Day, key and model of the last row of a page. */
const Position = z.tuple([z.iso.date(), z.union([z.literal(NO_KEY), Id]), Id])

export interface Counting {
  budgets: Pick<TenantBudgets, 'charged'>
  leases: CountedLeases
  backlog: SpendBacklog
}

export class UsageMeter {
  readonly #storage: ActorDatabase
  /** Since the last commit. */
  readonly #records: PricedRecord[] = []
  /** What programs told of their spend that waits. */
  readonly #told = new ToldSpend()
  /** And what goes into the next commit. */
  readonly #due = new ToldSpend()
  #writing: Promise<void> | null = null
  readonly #classes = new ClassesMet()
  /** A statement that deletes nothing is billed as a row all the same. */
  #dropped_day = ''

  /** Hears of what was stored. */
  readonly #budgets: Pick<TenantBudgets, 'charged'>

  readonly #leases: CountedLeases
  readonly #backlog: SpendBacklog
  readonly #bytes_max: number

  constructor(storage: ActorDatabase, { budgets, leases, backlog }: Counting, bytes_max = BYTES_MAX) {
    this.#storage = storage
    this.#budgets = budgets
    this.#leases = leases
    this.#backlog = backlog
    this.#bytes_max = bytes_max
  }

  /** Resolves when the records are counted. */
  async record(records: readonly PricedRecord[]): Promise<void> {
    this.#records.push(...records)
    this.#writing ??= this.#writeSoon()
    await this.#writing
  }

  /** What a run was charged so far. Returns whether it waits in memory for `countTold`. Otherwise it is counted. */
  async told(spend: RunSpendTold, may_wait: boolean): Promise<boolean> {
    this.#told.add(spend)
    if (may_wait && this.#told.size < TOLD_MAX) return true
    const due = may_wait ? this.#told.takeAll() : [this.#told.take(spend.run) ?? spend]
    for (const one of due) this.#due.add(one)
    this.#writing ??= this.#writeSoon()
    await this.#writing
    return false
  }

  /** Counts what waits in memory. */
  async countTold(): Promise<void> {
    if (this.#told.size === 0) return
    const db = await this.#storage.writable()
    this.#write(db, [], this.#told.takeAll())
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

  /** Null: the cursor is invalid. */
  async spend(asked: SpendAsked): Promise<ReturnType<typeof spendPage>> {
    await this.countTold()
    const db = await this.#storage.stored()
    if (db === null) return { spend: [], next: null }
    this.#backlog.bring(db, Date.now())
    return spendPage(db, asked)
  }

  async #writeSoon(): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, GATHER_MS))
    this.#writing = null
    const records = this.#records.splice(0)
    const told = this.#due.takeAll()
    this.#write(await this.#storage.writable(), records, told)
  }

  /** If it throws, nothing is counted, and its senders tell it again. */
  #write(db: ActorDb, records: readonly PricedRecord[], told: readonly RunSpendTold[]): void {
    const now_ms = Date.now()
    const is_full = this.#storage.bytes > this.#bytes_max
    const { changes, leases } = this.#backlog.whole(db, (tx) => {
      const fold = this.#backlog.next(tx, now_ms)
      const fresh = notCounted(tx, records, this.#leases.of(tx, records, now_ms), this.#classes, now_ms)
      const places = newerPlaces(tx, told, this.#leases, this.#classes, now_ms)
      const counted = fresh.map(({ record: { call, lease }, charged }) => ({ call, lease, charged }))
      this.#leases.remember(tx, [...counted, ...places], { fold, may_begin: this.#backlog.isEmpty, now_ms })
      for (const sums of summed(fresh)) add(tx, sums)
      const changes = [...fresh, ...places].flatMap((one) => one.changes)
      this.#backlog.add(tx, changes, now_ms)
      this.#leases.forget(tx, now_ms, is_full)
      if (this.#dropped_day !== dayOf(now_ms)) dropDays(tx, now_ms)
      return { changes, leases: fresh.map(({ record }) => record.lease) }
    })
    this.#dropped_day = dayOf(now_ms)
    this.#budgets.charged(db, changes, leases)
  }
}

/** A record that is not counted yet. `first`: no lease of its call was counted. */
interface Fresh {
  record: PricedRecord
  first: boolean
  charged: Charged
  /** What it changes of the tenant's spend. */
  changes: SpendChange[]
}

/** Each lease once. */
function notCounted(
  db: ActorTx,
  records: readonly PricedRecord[],
  known: CountedOfCalls,
  classes: ClassesMet,
  now_ms: number,
): Fresh[] {
  const counted = new Map([...known].map(([call, leases]) => [call, chargedOf(leases)]))
  return records.flatMap((record) => {
    const leases = counted.get(record.call) ?? new Map<string, Charged | null>()
    counted.set(record.call, leases)
    if (leases.has(record.lease)) return []
    const charged = classes.charged(db, record, now_ms)
    const fresh = { record, first: leases.size === 0, charged, changes: changesOf(charged, [...leases.values()]) }
    leases.set(record.lease, charged)
    return [fresh]
  })
}

function chargedOf(leases: ReadonlyMap<string, Counted>): Map<string, Charged | null> {
  return new Map([...leases].map(([lease, { charged }]) => [lease, charged]))
}

type UsagePage = Awaited<ReturnType<TenantRpc['usage']>>

/** One page of what each shard has. Null: the cursor is invalid. */
export function joinedUsage(pages: readonly UsagePage[], asked: number): UsagePage {
  const rows = pages.map((page) => (page === null ? null : { rows: page.usage, next: page.next }))
  const joined = joinedPage<UsageListed>(rows, Math.min(asked, USAGE_PAGE_MAX), {
    placeOf: ({ day, key, model }) => [day, key ?? NO_KEY, model],
    directions: ['descending', 'descending', 'descending'],
    add: (to, row) => {
      for (const field of SUMMED) to[field] += row[field]
    },
  })
  return joined === null ? null : { usage: [...joined.rows], next: joined.next }
}

function summed(fresh: readonly Fresh[]): Metered[] {
  const sums = new Map<string, Metered>()
  for (const { first, record, charged } of fresh) {
    if (!isAlone(record)) continue
    const { day, key, model } = charged
    const place = { day, key, model }
    const name = JSON.stringify(place)
    const sum = sums.get(name)
    const measured = { ...measuredSums(record), calls: first ? 1 : 0, leases: 1 }
    if (sum === undefined) sums.set(name, { ...place, ...measured })
    else for (const field of SUMMED) sum[field] += measured[field]
  }
  return [...sums.values()]
}

const SUMMED = ['calls', 'leases', ...MEASURED_SUMS] as const

function add(db: ActorTx, sums: Metered): void {
  // A sum beyond the integers that JavaScript can tell apart would not load again.
  const set = Object.fromEntries(
    SUMMED.map((field) => [field, sql`min(${usage[field]} + ${sums[field]}, ${Number.MAX_SAFE_INTEGER})`]),
  )
  const target = [usage.day, usage.key, usage.model]
  db.insert(usage).values(sums).onConflictDoUpdate({ target, set }).run()
}

function dropDays(db: ActorTx, now_ms: number): void {
  dropSpend(db, now_ms)
  db.delete(usage)
    .where(lt(usage.day, dayOf(now_ms - USAGE_DAYS_KEPT * DAY_MS)))
    .run()
}

function beyond([day, key, model]: z.infer<typeof Position>) {
  return or(
    lt(usage.day, day),
    and(eq(usage.day, day), lt(usage.key, key)),
    and(eq(usage.day, day), eq(usage.key, key), lt(usage.model, model)),
  )
}
