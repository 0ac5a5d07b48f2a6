/**
 * The leases that are in a tenant's sums, so that each counts once, however often its record comes. One is remembered
 * for DAYS_REMEMBERED, and a day more at most, or for less while storage is nearly full. Agents send a record again only until
 * it is acknowledged, which takes seconds unless the control plane is down.
 *
 * A tenant of many calls has a row for each of them, so rows are short and have no index of their times.
 */
import { and, eq, inArray, lt, type SQL, sql } from 'drizzle-orm'
import { z } from 'zod'
import { CHARGE_FIELDS, NO_CHARGE } from '../core/budget/charge.ts'
import { type Charged, dayOf } from './spend-meter.ts'
import type { ActorDb } from './storage/actor-database.ts'
import { countedLeases } from './storage/tenant-schema.ts'

const DAYS_REMEMBERED = 7
const DAY_MS = 24 * 60 * 60 * 1000
/** A statement of an actor takes at most 100 parameters, and a lease's row has four. */
const LEASES_PER_STATEMENT = 24
const NAMES_PER_STATEMENT = 80

/** An actor's database, or a transaction on it. */
type Db = Pick<ActorDb, 'select' | 'insert' | 'delete'>

interface CountedLease {
  call: string
  lease: string
}

/** By call: its leases that were counted. Null: before there was spend. */
export function countedOf(
  db: Db,
  ids: readonly CountedLease[],
  now_ms: number,
): Map<string, Map<string, Charged | null>> {
  const known = new Map<string, Map<string, Charged | null>>()
  const calls = [...new Set(ids.map(({ call }) => call))]
  for (let from = 0; from < calls.length; from += NAMES_PER_STATEMENT) {
    const { call, lease, charged } = countedLeases
    const where = and(isRemembered(now_ms), inArray(call, calls.slice(from, from + NAMES_PER_STATEMENT)))
    for (const row of db.select({ call, lease, charged }).from(countedLeases).where(where).all()) {
      const leases = known.get(row.call) ?? new Map<string, Charged | null>()
      known.set(row.call, leases.set(row.lease, readCharged(row.lease, row.charged)))
    }
  }
  return known
}

export function isCounted(db: Db, { call, lease }: CountedLease, now_ms: number): boolean {
  const where = and(isRemembered(now_ms), eq(countedLeases.call, call), eq(countedLeases.lease, lease))
  return db.select({ lease: countedLeases.lease }).from(countedLeases).where(where).get() !== undefined
}

/** Those of these leases that were counted. Reads all that are remembered: for after a restart. */
export function countedAmong(db: Db, leases: readonly string[]): string[] {
  const found: string[] = []
  for (let from = 0; from < leases.length; from += NAMES_PER_STATEMENT) {
    const { lease } = countedLeases
    const where = inArray(lease, leases.slice(from, from + NAMES_PER_STATEMENT))
    found.push(
      ...db
        .select({ lease })
        .from(countedLeases)
        .where(where)
        .all()
        .map((row) => row.lease),
    )
  }
  return found
}

export function remember(db: Db, counted: readonly (CountedLease & { charged: Charged })[], now_ms: number): void {
  const day = dayNumberOf(now_ms)
  for (let from = 0; from < counted.length; from += LEASES_PER_STATEMENT) {
    const rows = counted.slice(from, from + LEASES_PER_STATEMENT).map(({ call, lease, charged }) => {
      return { day, call, lease, charged: storeCharged(charged) }
    })
    db.insert(countedLeases).values(rows).run()
  }
}

/** At most so many of those that need not be remembered. `is_full`: of any, those of the oldest day first. */
export function forget(db: Db, leases_max: number, now_ms: number, is_full: boolean): void {
  const { day, call, lease } = countedLeases
  const expired = db
    .select({ day, call, lease })
    .from(countedLeases)
    .where(is_full ? undefined : lt(day, dayNumberOf(now_ms) - DAYS_REMEMBERED))
    .orderBy(day, call, lease)
    .limit(leases_max)
  db.delete(countedLeases).where(sql`(${day}, ${call}, ${lease}) IN ${expired}`).run()
}

/** A clock that was ahead for a while may have written to the next day. */
function isRemembered(now_ms: number): SQL {
  const today = dayNumberOf(now_ms)
  return inArray(
    countedLeases.day,
    Array.from({ length: DAYS_REMEMBERED + 2 }, (_, back) => today + 1 - back),
  )
}

function dayNumberOf(ms: number): number {
  return Math.floor(ms / DAY_MS)
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
