/**
 * Spend of a tenant by day, key, class and model, and by day and program: what its calls were charged (core/budget/charge.ts),
 * those of programs and those of none. It equals the sum over the records that were acknowledged, to the last unit: a change
 * of a sum and the memory of the lease behind it are one transaction (usage-meter.ts).
 */
import { and, between, eq, lt, or, type SQL, sql } from 'drizzle-orm'
import type { SQLiteColumn } from 'drizzle-orm/sqlite-core'
import { z } from 'zod'
import {
  addCharge,
  CHARGE_FIELDS,
  type Charge,
  chargeOf,
  DAY_CHARS,
  dayOf,
  isLater,
  MONTH_CHARS,
  NO_CHARGE,
} from '../core/budget/charge.ts'
import type { RunSpendTold, SpendPlace } from '../core/budget/run-spend.ts'
import { isAlone } from '../core/program/tenant-shards.ts'
import type { PricedRecord, SpendAsked, SpendListed } from './contracts.ts'
import { decodeCursor, encodeCursor } from './cursor.ts'
import { joinedPage } from './joined-page.ts'
import type { ActorTx } from './storage/actor-database.ts'
import { programSpend, spend } from './storage/tenant-schema.ts'

/** Rows of days before that are removed. */
export const SPEND_DAYS_KEPT = 400
export const PROGRAM_SPEND_DAYS_KEPT = 62
export const SPEND_PAGE_MAX = 100
/** Classes that are told apart in a day. A client names them, so it could name any number. */
export const CLASSES_PER_DAY_MAX = 1_000
/** In place of the class of others, of a key that is not known, and of the program of a call that belongs to none. */
const NOT_TOLD = ''
/** Records come late by hours at most, so this many days are met at a time. */
const DAYS_MET_MAX = 2
const DAY_MS = 24 * 60 * 60 * 1000

/** What a lease was charged, and to whom. */
export interface Charged {
  lease: string
  granted_at_ms: number
  /** UTC, of the grant. */
  day: string
  key: string
  class: string
  program: string
  model: string
  charge: Charge
}

export interface SpendChange {
  of: Charged
  sign: 1 | -1
}

/** What the record of a lease changes, where those of the call's other leases were charged before. */
export function changesOf(fresh: Charged, before: readonly (Charged | null)[]): SpendChange[] {
  const charged = lastOf(before)
  if (charged === null) return [{ of: fresh, sign: 1 }]
  if (!isLater(fresh, charged)) return []
  return [
    { of: charged, sign: -1 },
    { of: fresh, sign: 1 },
  ]
}

/** The one that is charged, of the leases of a call. */
export function lastOf(leases: readonly (Charged | null)[]): Charged | null {
  let last: Charged | null = null
  for (const one of leases) if (one !== null && (last === null || isLater(one, last))) last = one
  return last
}

export function addSpend(db: ActorTx, changes: readonly SpendChange[]): void {
  const days = new Map<string, Charged>()
  const programs = new Map<string, { day: string; program: string; charge: Charge }>()
  for (const { of, sign } of changes) {
    const { day, key, class: of_class, model, program } = of
    const place = JSON.stringify([day, key, of_class, model])
    const own = days.get(place) ?? { ...of, charge: { ...NO_CHARGE } }
    days.set(place, own)
    addCharge(own.charge, of.charge, sign)
    if (program === NOT_TOLD) continue
    const program_place = JSON.stringify([day, program])
    const its = programs.get(program_place) ?? { day, program, charge: { ...NO_CHARGE } }
    programs.set(program_place, its)
    addCharge(its.charge, of.charge, sign)
  }
  for (const { day, key, class: of_class, model, charge } of days.values()) {
    const target = [spend.day, spend.key, spend.class, spend.model]
    const set = Object.fromEntries(CHARGE_FIELDS.map((field) => [field, plus(spend[field], charge[field])]))
    db.insert(spend)
      .values({ day, key, class: of_class, model, ...charge })
      .onConflictDoUpdate({ target, set })
      .run()
  }
  for (const { day, program, charge } of programs.values()) {
    const target = [programSpend.day, programSpend.program]
    const set = Object.fromEntries(CHARGE_FIELDS.map((field) => [field, plus(programSpend[field], charge[field])]))
    db.insert(programSpend)
      .values({ day, program, ...charge })
      .onConflictDoUpdate({ target, set })
      .run()
  }
}

/** Rows of days that are kept no longer. */
export function dropSpend(db: ActorTx, now_ms: number): void {
  db.delete(spend)
    .where(lt(spend.day, dayOf(now_ms - SPEND_DAYS_KEPT * DAY_MS)))
    .run()
  db.delete(programSpend)
    .where(lt(programSpend.day, dayOf(now_ms - PROGRAM_SPEND_DAYS_KEPT * DAY_MS)))
    .run()
}

/** A sum beyond the integers that JavaScript can tell apart would not load again. */
function plus(column: SQLiteColumn, of: number): SQL {
  return sql`min(${column} + ${of}, ${Number.MAX_SAFE_INTEGER})`
}

/** Which classes are told apart, by day. */
export class ClassesMet {
  readonly #met = new Map<string, Set<string>>()

  charged(db: ActorTx, record: PricedRecord, now_ms: number): Charged {
    const granted_at_ms = record.granted_at_ms ?? now_ms
    const day = dayOf(granted_at_ms)
    const { lease, model } = record
    const program = isAlone(record) ? NOT_TOLD : record.program
    return {
      ...{ lease, granted_at_ms, day, key: record.key ?? NOT_TOLD, class: this.#toldAs(db, day, record.class) },
      ...{ program, model, charge: chargeOf(record, record.prices) },
    }
  }

  /** What a program told. */
  place(
    db: ActorTx,
    { place, of, ...name }: Pick<Charged, 'lease' | 'granted_at_ms'> & { place: SpendPlace; of: RunSpendTold },
  ): Charged {
    const { day, key, model, charge } = place
    const of_class = this.#toldAs(db, day, of.class)
    return { ...name, day, key: key ?? NOT_TOLD, class: of_class, program: of.program, model, charge }
  }

  #toldAs(db: ActorTx, day: string, name: string): string {
    let met = this.#met.get(day)
    if (met === undefined) {
      const rows = db.selectDistinct({ name: spend.class }).from(spend).where(eq(spend.day, day)).all()
      met = new Set(rows.map((row) => row.name))
      if (this.#met.size >= DAYS_MET_MAX) this.#met.clear()
      this.#met.set(day, met)
    }
    if (!met.has(name) && met.size >= CLASSES_PER_DAY_MAX) return NOT_TOLD
    met.add(name)
    return name
  }
}

const Position = z.tuple([z.string(), z.string()])

/** By day or month, the latest first, and by name. Null: the cursor is invalid. */
export function spendPage(db: ActorTx, asked: SpendAsked): { spend: SpendListed[]; next: string | null } | null {
  const after = asked.cursor === null ? null : decodeCursor(asked.cursor, Position)
  if (asked.cursor !== null && after === null) return null
  const table = asked.by === 'program' ? programSpend : spend
  const period = sql<string>`substr(${table.day}, 1, ${asked.per === 'day' ? DAY_CHARS : MONTH_CHARS})`
  const name = nameOf(asked.by)
  const limit = Math.min(asked.limit, SPEND_PAGE_MAX)
  const rows = db
    .select({ period, name, ...sumsOf(table) })
    .from(table)
    .where(
      and(
        between(table.day, asked.from, asked.to),
        asked.name === null ? undefined : eq(name, asked.name),
        after === null ? undefined : or(lt(period, after[0]), and(eq(period, after[0]), sql`${name} > ${after[1]}`)),
      ),
    )
    .groupBy(sql`1`, sql`2`)
    .orderBy(sql`1 DESC`, sql`2 ASC`)
    .limit(limit + 1)
    .all()
  const listed = rows.slice(0, limit)
  const last = listed.at(-1)
  const next = rows.length > limit && last !== undefined ? encodeCursor([last.period, last.name]) : null
  return { spend: listed.map((row) => ({ ...row, name: row.name === NOT_TOLD ? null : row.name })), next }
}

type SpendPage = ReturnType<typeof spendPage>

/** One page of what each shard has. Null: the cursor is invalid. */
export function joinedSpend(pages: readonly SpendPage[], asked: number): SpendPage {
  const rows = pages.map((page) => (page === null ? null : { rows: page.spend, next: page.next }))
  const joined = joinedPage<SpendListed>(rows, Math.min(asked, SPEND_PAGE_MAX), {
    placeOf: ({ period, name }) => [period, name ?? NOT_TOLD],
    directions: ['descending', 'ascending'],
    add: addCharge,
  })
  return joined === null ? null : { spend: [...joined.rows], next: joined.next }
}

function nameOf(by: SpendAsked['by']): SQL<string> {
  if (by === 'program') return sql<string>`${programSpend.program}`
  return by === 'total' ? sql<string>`''` : sql<string>`${spend[by]}`
}

function sumsOf(table: typeof spend | typeof programSpend): Record<keyof Charge, SQL<number>> {
  const field = (name: keyof Charge): SQL<number> => sql<number>`sum(${table[name]})`
  return {
    ...{ calls: field('calls'), prompt_tokens: field('prompt_tokens'), cached_tokens: field('cached_tokens') },
    ...{ output_tokens: field('output_tokens'), service_us: field('service_us'), cost_nanos: field('cost_nanos') },
  }
}
