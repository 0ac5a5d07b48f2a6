/** What the tenant and each of its keys were charged in the day and the month that it is, in memory: the same sums as the rows. */
import { gte, sql } from 'drizzle-orm'
import type { Amounts } from '../core/budget/budget.ts'
import { NOTHING } from '../core/budget/budget.ts'
import { add, type Charged } from '../core/budget/budget-ledger.ts'
import { amountsOf, type Charge, dayOf, MONTH_CHARS } from '../core/budget/charge.ts'
import type { ChargedNow } from './contracts.ts'
import type { SpendBacklog } from './spend-backlog.ts'
import type { SpendChange } from './spend-meter.ts'
import type { ActorDb } from './storage/actor-database.ts'
import { spend } from './storage/tenant-schema.ts'

/** In place of a key: all of them. */
const ALL = null

interface Totals {
  day: Amounts
  month: Amounts
}

export class SpendTotals {
  readonly #backlog: SpendBacklog
  #day = ''
  /** By key. */
  #of = new Map<string | null, Totals>()

  constructor(backlog: SpendBacklog) {
    this.#backlog = backlog
  }

  /** Reads the rows when a day has begun. */
  at(db: ActorDb, now_ms: number): Charged {
    const day = dayOf(now_ms)
    if (day !== this.#day) this.#read(db, day, now_ms)
    return (key, period) => this.#of.get(key)?.[period] ?? NOTHING
  }

  /** The day, and each key with its sums. */
  rows(db: ActorDb, now_ms: number): Omit<ChargedNow, 'counted'> {
    this.at(db, now_ms)
    const of = Array.from(this.#of, ([key, { day, month }]) => ({ key, in_day: { ...day }, in_month: { ...month } }))
    return { day: this.#day, of }
  }

  changed(changes: readonly SpendChange[]): void {
    if (this.#day === '') return
    for (const { of, sign } of changes) this.#count(of.day, of.key, of.charge, sign)
  }

  #read(db: ActorDb, day: string, now_ms: number): void {
    this.#backlog.bring(db, now_ms)
    this.#day = day
    this.#of.clear()
    const sum = (name: keyof Charge) => sql<number>`sum(${spend[name]})`
    const rows = db
      .select({
        ...{ day: spend.day, key: spend.key, calls: sum('calls'), prompt_tokens: sum('prompt_tokens') },
        ...{ cached_tokens: sum('cached_tokens'), output_tokens: sum('output_tokens') },
        ...{ service_us: sum('service_us'), cost_nanos: sum('cost_nanos') },
      })
      .from(spend)
      .where(gte(spend.day, `${day.slice(0, MONTH_CHARS)}-01`))
      .groupBy(spend.day, spend.key)
      .all()
    for (const { day: of_day, key, ...charge } of rows) this.#count(of_day, key, charge, 1)
  }

  #count(day: string, key: string, charge: Charge, sign: 1 | -1): void {
    if (day.slice(0, MONTH_CHARS) !== this.#day.slice(0, MONTH_CHARS)) return
    const amounts = amountsOf(charge)
    for (const name of [key, ALL]) {
      const totals = this.#of.get(name) ?? { day: { ...NOTHING }, month: { ...NOTHING } }
      this.#of.set(name, totals)
      add(totals.month, amounts, sign)
      if (day === this.#day) add(totals.day, amounts, sign)
    }
  }
}
