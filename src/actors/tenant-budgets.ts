/**
 * The ledger of a tenant's budgets (core/budget/budget-ledger.ts) over its storage. What is reserved is stored before an
 * isolate hears of it, so a restart of the actor forgets nothing. What was charged is the tenant's spend (spend-meter.ts).
 *
 * Other shards of the tenant count charges of its calls too (tenant-shards.ts). The ledger is in the first one. A call that has
 * ended stays reserved there until its shard has told of the charge in its sums.
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
import { FIRST_TENANT_SHARD } from '../core/program/tenant-shards.ts'
import type { AwaitedLease, ChargedNow } from './contracts.ts'
import type { CountedLeases, LeaseId } from './counted-leases.ts'
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
const PendingRow = z.object({
  ...{ key: z.string(), amounts: AmountsRow, at_ms: z.number() },
  ...{ call: z.string().optional(), shard: Whole.optional() },
})

/** What other shards told. */
export interface ElsewhereCharged {
  charged(now_ms: number): Charged
  /** Leases whose charge is in those sums, of those that the ledger waits for. */
  takeCounted(): readonly string[]
}

export class TenantBudgets {
  readonly #storage: ActorDatabase
  readonly #leases: CountedLeases
  readonly #totals: SpendTotals
  /** Null until read. */
  #ledger: BudgetLedger | null = null
  /** Names of rows. */
  readonly #stored = new Set<string>()

  constructor(storage: ActorDatabase, leases: CountedLeases, backlog: SpendBacklog) {
    this.#storage = storage
    this.#leases = leases
    this.#totals = new SpendTotals(backlog)
  }

  /** Leases whose charge may be counted in another shard. */
  async awaited(now_ms: number): Promise<AwaitedLease[]> {
    const db = await this.#storage.stored()
    if (db === null) return []
    return [...this.#read(db, now_ms).leases].flatMap(([lease, { call, shard = null }]) =>
      call === undefined || shard === FIRST_TENANT_SHARD ? [] : [{ call, lease, shard }],
    )
  }

  /** `elsewhere`: what calls were charged that are not in this storage. */
  async share(asked: BudgetQuestion, elsewhere: ElsewhereCharged, now_ms: number): Promise<BudgetAnswer | null> {
    const db = await this.#storage.writable()
    const ledger = this.#read(db, now_ms)
    // In one turn: a lease is given up only together with the sums that have its charge.
    for (const lease of elsewhere.takeCounted()) ledger.charged(lease)
    const there = elsewhere.charged(now_ms)
    const here = this.#totals.at(db, now_ms)
    const charged: Charged = (...of) => sumOf(here(...of), there(...of))
    const isCharged = ({ call, lease, shard = FIRST_TENANT_SHARD }: EndedShare) =>
      shard === FIRST_TENANT_SHARD && this.#leases.has(db, { call, lease: lease ?? '' }, now_ms)
    const answer = ledger.answer(asked, charged, isCharged, now_ms)
    if (answer === null) return null
    const holder = ledger.holders.get(asked.holder)
    const rows = asked.ended.flatMap(({ lease }) => {
      const row = lease === null ? undefined : ledger.leases.get(lease)
      return row === undefined || this.#stored.has(LEASE + lease) ? [] : [{ name: LEASE + lease, row }]
    })
    if (holder !== undefined) this.#put(db, HOLDER + asked.holder, holder)
    for (const { name, row } of rows) this.#put(db, name, row)
    this.#dropGone(db, ledger)
    return answer
  }

  /** What calls were charged, of which this storage knows, and which of these leases that has. */
  async charges(awaited: readonly LeaseId[], now_ms: number): Promise<ChargedNow> {
    const db = await this.#storage.stored()
    if (db === null) return { day: dayOf(now_ms), of: [], counted: [] }
    return { ...this.#totals.rows(db, now_ms), counted: this.#leases.which(db, awaited, now_ms) }
  }

  /** These changes of spend are stored, of these leases. */
  charged(db: ActorDb, changes: readonly SpendChange[], leases: readonly string[]): void {
    this.#totals.changed(changes)
    const ledger = this.#ledger
    if (ledger === null || ledger.leases.size === 0) return
    for (const lease of leases) ledger.charged(lease)
    this.#dropGone(db, ledger)
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
    const named: LeaseId[] = []
    const unnamed: string[] = []
    for (const [lease, { call, shard = FIRST_TENANT_SHARD }] of ledger.leases) {
      if (call === undefined) unnamed.push(lease)
      else if (shard === FIRST_TENANT_SHARD) named.push({ call, lease })
    }
    const charged = [...this.#leases.which(db, named, now_ms), ...this.#leases.among(db, unnamed, now_ms)]
    for (const lease of charged) ledger.charged(lease)
    for (const { name } of rows) this.#stored.add(name)
    this.#ledger = ledger
    return ledger
  }

  #put(db: ActorDb, name: string, of: unknown): void {
    const row = JSON.stringify(of)
    db.insert(budgetState).values({ name, row }).onConflictDoUpdate({ target: budgetState.name, set: { row } }).run()
    this.#stored.add(name)
  }

  #dropGone(db: ActorDb, ledger: BudgetLedger): void {
    const { holders, leases } = ledger.takeGone()
    const names = [
      ...holders.filter((name) => !ledger.holders.has(name)).map((name) => HOLDER + name),
      ...leases.filter((id) => !ledger.leases.has(id)).map((id) => LEASE + id),
    ]
    const gone = names.filter((name) => this.#stored.delete(name))
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
