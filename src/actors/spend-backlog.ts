/**
 * Changes of a tenant's spend that its sums do not have yet. The row of each counted lease has them (counted-leases.ts), so nothing is
 * lost, and a row of a sum is written for many calls in place of each: rows are what spend costs on Cloudflare. A fold brings
 * them in: FOLD_AFTER_MS after the first at the next record, and whenever the sums are read.
 *
 * Keeps true:
 * - The sums have exactly the leases of the folds until `folded`, which one transaction changes with them.
 * - Leases of later folds are in the newest table, so that a restart finds them there.
 */
import { eq } from 'drizzle-orm'
import type { CountedLeases, CountedOfCalls } from './counted-leases.ts'
import { addSpend, changesOf, lastOf, type SpendChange } from './spend-meter.ts'
import type { ActorDb, ActorTx } from './storage/actor-database.ts'
import { spendFolds } from './storage/tenant-schema.ts'

export const FOLD_AFTER_MS = 5 * 60_000
const CHANGES_MAX = 4_096
/** Of the last fold. */
const ROW = 0

export class SpendBacklog {
  readonly #leases: CountedLeases
  /** Null: to be read. */
  #folded: number | null = null
  #changes: SpendChange[] = []
  #since_ms = 0

  constructor(leases: CountedLeases) {
    this.#leases = leases
  }

  /** Whether the sums have all that was counted. */
  get isEmpty(): boolean {
    return this.#changes.length === 0
  }

  /** The fold of leases that are counted now. Brings in what another object left. To be read in a transaction. */
  next(db: ActorTx, now_ms: number): number {
    if (this.#folded !== null) return this.#folded + 1
    const folded = db.select().from(spendFolds).where(eq(spendFolds.id, ROW)).get()?.folded ?? 0
    this.#folded = folded
    this.#changes = left(db, this.#leases, folded, now_ms)
    this.#fold(db)
    return this.#folded + 1
  }

  /** Of leases whose rows are written. Folds if it is time. */
  add(db: ActorTx, changes: readonly SpendChange[], now_ms: number): void {
    if (this.isEmpty) this.#since_ms = now_ms
    this.#changes.push(...changes)
    // A clock that was set back must not put it off.
    const is_due = Math.abs(now_ms - this.#since_ms) >= FOLD_AFTER_MS
    if (is_due || this.#changes.length >= CHANGES_MAX) this.#fold(db)
  }

  /** Brings the sums up to date, for one who reads them. */
  bring(db: ActorDb, now_ms: number): void {
    if (this.#folded !== null && this.isEmpty) return
    this.whole(db, (tx) => {
      this.next(tx, now_ms)
      this.#fold(tx)
    })
  }

  /** All of it or nothing. */
  whole<T>(db: ActorDb, work: (tx: ActorTx) => T): T {
    try {
      return db.transaction(work)
    } catch (error) {
      this.#reset()
      throw error
    }
  }

  #fold(db: ActorTx): void {
    if (this.isEmpty || this.#folded === null) return
    const folded = this.#folded + 1
    addSpend(db, this.#changes)
    db.insert(spendFolds)
      .values({ id: ROW, folded })
      .onConflictDoUpdate({ target: spendFolds.id, set: { folded } })
      .run()
    this.#folded = folded
    this.#changes = []
  }

  /** What storage has is read again: a transaction was taken back. */
  #reset(): void {
    this.#folded = null
    this.#changes = []
    this.#leases.reset()
  }
}

/** What the leases of folds after `folded` change. */
function left(db: ActorTx, leases: CountedLeases, folded: number, now_ms: number): SpendChange[] {
  const added = leases.after(db, folded)
  const all = leases.of(db, calledIn(added), now_ms)
  return [...added.keys()].flatMap((call) => {
    const charged = [...(all.get(call)?.values() ?? [])]
    const now = lastOf(charged.map((one) => one.charged))
    const before = charged.filter(({ fold }) => fold <= folded).map((one) => one.charged)
    return now === null ? [] : changesOf(now, before)
  })
}

function calledIn(counted: CountedOfCalls) {
  return [...counted].map(([call, leases]) => {
    const granted = [...leases.values()].map(({ charged }) => charged?.granted_at_ms ?? 0)
    return { call, granted_at_ms: Math.min(...granted) }
  })
}
