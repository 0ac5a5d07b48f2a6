/**
 * The ledger of a tenant's budgets (core/budget/budget-ledger.ts) over its storage. What is reserved is stored before an
 * isolate hears of it, so a restart of the actor forgets nothing. What was charged is the tenant's spend (spend-meter.ts).
 */
import { inArray } from 'drizzle-orm'
import { z } from 'zod'
import type { Amounts } from '../core/budget/budget.ts'
import {
  add,
  type BudgetAnswer,
  BudgetLedger,
  type BudgetQuestion,
  type Charged,
  type EndedShare,
} from '../core/budget/budget-ledger.ts'
import { dayOf } from '../core/budget/charge.ts'
import type { ChargedNow } from './contracts.ts'
import type { CountedLeases } from './counted-leases.ts'
import type { SpendBacklog } from './spend-backlog.ts'
import type { SpendChange } from './spend-meter.ts'
import { SpendTotals } from './spend-totals.ts'
import type { ActorDatabase, ActorDb } from './storage/actor-database.ts'
import { budgetState } from './storage/tenant-schema.ts'

const HOLDER = 'holder:'
const LEASE = 'lease:'
/** A statement of an actor takes at most 100 parameters. */
const NAMES_PER_STATEMENT = 90

const Whole = z.number().int()
const AmountsRow = z.object({ calls: Whole, tokens: Whole, service_us: Whole, cost_nanos: Whole })
const HolderRow = z.object({
  key: z.string(),
  seq: z.number(),
  reserved: AmountsRow,
  free: AmountsRow,
  heard_ms: z.number(),
})
const PendingRow = z.object({ key: z.string(), amounts: AmountsRow, at_ms: z.number() })

export class TenantBudgets {
  readonly #storage: ActorDatabase
  readonly #leases: CountedLeases
  readonly #totals: SpendTotals
  /** Null until read. */
  #ledger: BudgetLedger | null = null
  /** Names of rows. */
  #stored = new Set<string>()

  constructor(storage: ActorDatabase, leases: CountedLeases, backlog: SpendBacklog) {
    this.#storage = storage
    this.#leases = leases
    this.#totals = new SpendTotals(backlog)
  }

  /** `elsewhere`: what calls were charged that are not in this storage. */
  async share(asked: BudgetQuestion, elsewhere: Charged, now_ms: number): Promise<BudgetAnswer | null> {
    const db = await this.#storage.writable()
    const ledger = this.#read(db, now_ms)
    const here = this.#totals.at(db, now_ms)
    const charged: Charged = (...of) => sumOf(here(...of), elsewhere(...of))
    const isCharged = ({ call, lease }: EndedShare) => this.#leases.has(db, { call, lease: lease ?? '' }, now_ms)
    const answer = ledger.answer(asked, charged, isCharged, now_ms)
    if (answer === null) return null
    const holder = ledger.holders.get(asked.holder)
    const rows = asked.ended.flatMap(({ lease }) => {
      const row = lease === null ? undefined : ledger.leases.get(lease)
      return row === undefined || this.#stored.has(LEASE + lease) ? [] : [{ name: LEASE + lease, row }]
    })
    if (holder !== undefined) put(db, HOLDER + asked.holder, holder)
    for (const { name, row } of rows) put(db, name, row)
    this.#dropGone(db, ledger)
    this.#stored = namesOf(ledger)
    return answer
  }

  /** What calls were charged, of which this storage knows. */
  async charges(now_ms: number): Promise<ChargedNow> {
    const db = await this.#storage.stored()
    return db === null ? { day: dayOf(now_ms), of: [] } : this.#totals.rows(db, now_ms)
  }

  /** These changes of spend are stored, of these leases. */
  charged(db: ActorDb, changes: readonly SpendChange[], leases: readonly string[]): void {
    this.#totals.changed(changes)
    const ledger = this.#ledger
    if (ledger === null || ledger.leases.size === 0) return
    for (const lease of leases) ledger.charged(lease)
    this.#dropGone(db, ledger)
    this.#stored = namesOf(ledger)
  }

  /** Rows are read when they are first asked for. A lease that was charged before that is found by its record. */
  #read(db: ActorDb, now_ms: number): BudgetLedger {
    if (this.#ledger !== null) return this.#ledger
    const ledger = new BudgetLedger()
    const rows = db.select().from(budgetState).all()
    const holders: [string, z.infer<typeof HolderRow>][] = []
    for (const { name, row } of rows) {
      const read: unknown = JSON.parse(row)
      if (name.startsWith(HOLDER)) holders.push([name.slice(HOLDER.length), HolderRow.parse(read)])
      else ledger.pending(name.slice(LEASE.length), PendingRow.parse(read))
    }
    // In the order in which they are given up.
    for (const [name, row] of holders.sort(([, a], [, b]) => a.heard_ms - b.heard_ms)) ledger.holder(name, row)
    for (const lease of this.#leases.among(db, [...ledger.leases.keys()], now_ms)) ledger.charged(lease)
    this.#stored = new Set(rows.map(({ name }) => name))
    this.#ledger = ledger
    return ledger
  }

  #dropGone(db: ActorDb, ledger: BudgetLedger): void {
    const names = namesOf(ledger)
    const gone = [...this.#stored].filter((name) => !names.has(name))
    for (let from = 0; from < gone.length; from += NAMES_PER_STATEMENT) {
      db.delete(budgetState)
        .where(inArray(budgetState.name, gone.slice(from, from + NAMES_PER_STATEMENT)))
        .run()
    }
  }
}

function sumOf(one: Readonly<Amounts>, other: Readonly<Amounts>): Amounts {
  const sum = { ...one }
  add(sum, other)
  return sum
}

function namesOf({ holders, leases }: BudgetLedger): Set<string> {
  return new Set([
    ...Array.from(holders.keys(), (name) => HOLDER + name),
    ...Array.from(leases.keys(), (id) => LEASE + id),
  ])
}

function put(db: ActorDb, name: string, of: unknown): void {
  const row = JSON.stringify(of)
  db.insert(budgetState).values({ name, row }).onConflictDoUpdate({ target: budgetState.name, set: { row } }).run()
}
