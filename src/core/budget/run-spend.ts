/**
 * What the calls of a run were charged, by day, key and model: those whose program tells its tenant, together with what it
 * tells anyway. So a record is no request and no row of the tenant's.
 *
 * Keeps true:
 * - The sums follow from the settled leases alone, in any order. So a program that is restored tells the same again.
 * - `leases` only grows, and the same number stands for the same sums: of two tellings the one with more leases is newer.
 * - A place that was ever told stays, with zeros if its only call was charged elsewhere.
 */
import {
  addCharge,
  CHARGE_FIELDS,
  type Charge,
  type ChargedRecord,
  chargeOf,
  dayOf,
  isLater,
  NO_CHARGE,
} from './charge.ts'

/** What a lease's own row does not tell of its charge. */
export interface LeaseCharge {
  key: string | null
  granted_at_ms: number
  cost_nanos: number
}

/** A lease whose charge the program tells, once it has `charged`. */
export interface ChargeableLease extends Omit<ChargedRecord, 'outcome'> {
  lease: string
  model: string
  outcome: ChargedRecord['outcome'] | null
  charged?: LeaseCharge | undefined
}

export interface SpendPlace {
  /** UTC, of the grant. */
  day: string
  /** Null: not known. */
  key: string | null
  model: string
  charge: Charge
}

export interface RunSpendSums {
  /** Settled leases that the sums are of, those that were charged nothing too. */
  leases: number
  places: SpendPlace[]
}

/** As a program tells it. */
export interface RunSpendTold extends RunSpendSums {
  program: string
  run: string
  /** Of the program. */
  class: string
}

export class RunSpend {
  #leases: number
  readonly #places = new Map<string, SpendPlace>()

  constructor({ leases, places }: RunSpendSums = { leases: 0, places: [] }) {
    this.#leases = leases
    for (const place of places) this.#places.set(nameOf(place), { ...place, charge: { ...place.charge } })
  }

  /** A lease of these, of one call, has settled. `before`: the lease that was charged until then. */
  settled(of_call: readonly ChargeableLease[], settled: ChargeableLease, before: ChargeableLease | null): void {
    if (settled.charged === undefined) return
    this.#leases += 1
    this.#place(settled)
    const now = chargedOf(of_call)
    if (now === before) return
    this.#count(before, -1)
    this.#count(now, 1)
  }

  /** All leases of a call. */
  add(of_call: readonly ChargeableLease[]): void {
    for (const lease of of_call) {
      if (lease.charged === undefined) continue
      this.#leases += 1
      this.#place(lease)
    }
    this.#count(chargedOf(of_call), 1)
  }

  get sums(): RunSpendSums {
    const places = [...this.#places.values()].map((place) => ({ ...place, charge: { ...place.charge } }))
    return { leases: this.#leases, places }
  }

  get isExact(): boolean {
    return [...this.#places.values()].every(({ charge }) =>
      CHARGE_FIELDS.every((field) => Number.isSafeInteger(charge[field])),
    )
  }

  #count(lease: ChargeableLease | null, sign: 1 | -1): void {
    if (lease !== null) addCharge(this.#place(lease).charge, chargeOfLease(lease), sign)
  }

  #place({ model, charged }: ChargeableLease): SpendPlace {
    const { key = null, granted_at_ms = 0 } = charged ?? {}
    const place = { day: dayOf(granted_at_ms), key, model, charge: { ...NO_CHARGE } }
    const name = nameOf(place)
    const known = this.#places.get(name) ?? place
    this.#places.set(name, known)
    return known
  }
}

/** The one that is charged, of the leases of a call. Null: none is, or not by its program. */
export function chargedOf(of_call: readonly ChargeableLease[]): ChargeableLease | null {
  let last: ChargeableLease | null = null
  for (const lease of of_call) {
    if (lease.charged !== undefined && (last === null || isLater(named(lease), named(last)))) last = lease
  }
  return last
}

function named({ lease, charged }: ChargeableLease) {
  return { lease, granted_at_ms: charged?.granted_at_ms ?? 0 }
}

function chargeOfLease({ outcome, charged, ...measured }: ChargeableLease): Charge {
  if (outcome === null || outcome === 'failed') return { ...NO_CHARGE }
  return { ...chargeOf({ ...measured, outcome }, null), cost_nanos: charged?.cost_nanos ?? 0 }
}

function nameOf({ day, key, model }: Omit<SpendPlace, 'charge'>): string {
  return JSON.stringify([day, key, model])
}
