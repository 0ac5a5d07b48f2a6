/** Budgets in a chaos run: what their tenants are refused with, and what they were charged, while it runs and at its end. */

import type { Fleet } from './fleet.ts'
import { settled } from './invariants.ts'
import type { LedgerBook, Tenant } from './ledger.ts'
import type { LimitedTenants } from './limited-tenants.ts'
import type { Ended } from './load.ts'
import { overLimit, stillReserved, unequalSpend } from './spend-checks.ts'

export interface BudgetsSeen {
  tenants: number
  /** Calls that were refused by the budget of a tenant, a key or a program, by status and code. */
  refused: Record<string, number>
  /** How often a tenant was asked whether it was charged more than it may use. */
  asked: number
  /** Sums of spend that were compared with the records. */
  sums_compared: number
}

export class BudgetWatch {
  readonly #fleet: Fleet
  readonly #limited: LimitedTenants
  readonly #violate: (invariant: 'budgets' | 'conservation', what: string) => void
  readonly #seen: Omit<BudgetsSeen, 'tenants'> = { refused: {}, asked: 0, sums_compared: 0 }

  constructor(
    fleet: Fleet,
    limited: LimitedTenants,
    violate: (invariant: 'budgets' | 'conservation', what: string) => void,
  ) {
    this.#fleet = fleet
    this.#limited = limited
    this.#violate = violate
  }

  get seen(): BudgetsSeen {
    return { ...this.#seen, tenants: this.#limited.made.length }
  }

  /** A budget refuses for good with 402, and for a while with 429 and when to come again. */
  ended({ tenant, program, ended }: Ended): void {
    this.#limited.ended(tenant.tenant, ended)
    if (ended.end !== 'refused') return
    const { status, code, retry_after_s } = ended
    if (status !== 402 && !/_budget_(exceeded|reserved)$/.test(code ?? '')) return
    const { refused } = this.#seen
    const what = `${status} ${code}`
    refused[what] = (refused[what] ?? 0) + 1
    const is_documented =
      /^402 (program|tenant|key)_budget_exceeded$/.test(what) ||
      (/^429 (program|tenant|key)_budget_reserved$/.test(what) && retry_after_s !== null)
    if (is_documented) return
    this.#violate('budgets', `${tenant.tenant} ${program}: refused with ${what}, Retry-After ${retry_after_s}`)
  }

  async sample(): Promise<void> {
    const current = this.#limited.made.at(-1)
    if (current === undefined) return
    // The control plane may be down.
    const over = await overLimit(this.#fleet, current).catch(() => null)
    if (over === null) return
    this.#seen.asked += 1
    for (const what of over) this.#violate('budgets', what)
  }

  /** Last, since the control plane's clock is set. `tenants`: those without budgets. */
  async check(tenants: readonly Tenant[], book: LedgerBook, progress: (text: string) => void): Promise<void> {
    const { made } = this.#limited
    progress('using up what is left of budgets')
    for (const what of await stillReserved(this.#fleet, made)) this.#violate('budgets', what)
    for (const what of await settled(this.#fleet)) this.#violate('conservation', what)
    for (const one of made) for (const what of await overLimit(this.#fleet, one)) this.#violate('budgets', what)
    const ledgers = Map.groupBy(book.read(), ({ tenant }) => tenant)
    const all = [...tenants, ...made.flatMap(({ keys }) => keys.slice(0, 1))]
    for (const [index, one] of all.entries()) {
      progress(`spend of ${index} of ${all.length} tenants compared`)
      const { compared, unequal } = await unequalSpend(this.#fleet, one, ledgers.get(one.tenant) ?? [])
      this.#seen.sums_compared += compared
      for (const what of unequal) this.#violate('conservation', what)
    }
  }
}
