/**
 * Tenants with budgets for a day and a month, for themselves and for their keys, in calls, tokens and money. Programs use one
 * up, and another takes its place: some are so small that each call asks, and some so large that isolates hold chunks.
 */

import type { StatedPrices } from '../../src/core/budget/call-cap.ts'
import { type PeriodLimits, periodLimits, type StatedPeriods } from '../../src/core/budget/period-limits.ts'
import { hashSecret, keyIdOf } from '../../src/store/secrets.ts'
import type { ClientEnd } from './client.ts'
import type { Fleet } from './fleet.ts'
import type { Tenant } from './ledger.ts'
import type { Random } from './random.ts'

/** Of the model, per million tokens. */
export const PRICES: StatedPrices = { prompt_price: 0.15, cached_prompt_price: 0.07, output_price: 0.61 }

/** What a budget's refusal is answered with, for good and for a while. */
export const USED_UP: readonly string[] = ['tenant_budget_exceeded', 'key_budget_exceeded']
export const ALL_RESERVED: readonly string[] = ['tenant_budget_reserved', 'key_budget_reserved']
/** So many refusals in a row by the budgets, of calls of any length and key, and nothing is left. */
const REFUSED_IN_A_ROW = 40
const AGAIN_MS = 1000

/** Each shape in a small and in a large size. */
const SHAPES: readonly { tenant: StatedPeriods; keys: readonly (StatedPeriods | null)[] }[] = [
  { tenant: { day: { tokens: 4_000 } }, keys: [{ day: { calls: 15 } }, null] },
  { tenant: { day: { cost: 0.004 } }, keys: [{ day: { tokens: 3_000 } }, { month: { calls: 60 } }] },
  { tenant: { day: { calls: 60 }, month: { tokens: 20_000 } }, keys: [{ day: { cost: 0.001 } }, null] },
]
const SIZES = [1, 6] as const

export interface LimitedKey extends Tenant {
  key: string
  limits: PeriodLimits | null
}

export interface LimitedTenant {
  tenant: string
  limits: PeriodLimits
  keys: readonly LimitedKey[]
}

export class LimitedTenants {
  readonly #fleet: Fleet
  readonly #random: Random
  readonly #made: LimitedTenant[] = []
  #refused = 0
  #is_over = false

  constructor(fleet: Fleet, random: Random) {
    this.#fleet = fleet
    this.#random = random
  }

  get made(): readonly LimitedTenant[] {
    return this.#made
  }

  /** The tenant that is used up at the moment, with one of its keys. Null: none has been made yet. */
  pick(random: Random): LimitedKey | null {
    const current = this.#made.at(-1)
    return current === undefined ? null : random.pick(current.keys)
  }

  /** Whether the tenant has a budget that is used up, as far as is known. */
  isUsedUp(tenant: string): boolean {
    const index = this.#made.findIndex((one) => one.tenant === tenant)
    return index !== -1 && (index < this.#made.length - 1 || this.#refused >= REFUSED_IN_A_ROW)
  }

  ended(tenant: string, ended: ClientEnd): void {
    if (this.#made.at(-1)?.tenant !== tenant) return
    if (ended.end === 'completed') this.#refused = 0
    if (ended.end === 'refused' && [...USED_UP, ...ALL_RESERVED].includes(ended.code ?? '')) this.#refused += 1
  }

  /** Makes the next tenant when the last one is used up, until it is stopped. */
  async keep(): Promise<void> {
    while (!this.#is_over) {
      const current = this.#made.at(-1)
      if (current === undefined || this.isUsedUp(current.tenant)) {
        // The control plane may be down. What it may have made of a tenant is used by no one.
        await this.#make().catch(() => undefined)
      }
      await new Promise((resolve) => setTimeout(resolve, AGAIN_MS))
    }
  }

  stop(): void {
    this.#is_over = true
  }

  async #make(): Promise<void> {
    const number = this.#made.length
    const shape = SHAPES[number % SHAPES.length]
    if (shape === undefined) return
    const size = this.#random.pick(SIZES)
    const name = `limited-${number}`
    const budget = sized(shape.tenant, size)
    const { tenant } = await this.#fleet.createTenant(name, budget)
    const keys: LimitedKey[] = []
    for (const [index, of_key] of shape.keys.entries()) {
      const stated = of_key === null ? null : sized(of_key, size)
      const apiKey = await this.#fleet.createKey(tenant, { name: `${name}-${index}`, budget: stated })
      const key = keyIdOf(await hashSecret(this.#fleet.secrets.keyPepper, apiKey))
      keys.push({ tenant, apiKey, key, limits: stated === null ? null : periodLimits(stated) })
    }
    this.#refused = 0
    this.#made.push({ tenant, limits: periodLimits(budget), keys })
  }
}

function sized(stated: StatedPeriods, size: number): StatedPeriods {
  const times = (limits: StatedPeriods['day']) =>
    limits && Object.fromEntries(Object.entries(limits).map(([field, limit = 0]) => [field, limit * size]))
  return Object.fromEntries(Object.entries(stated).map(([period, limits]) => [period, times(limits)]))
}
