/**
 * What programs told of what their calls were charged (core/budget/run-spend.ts), until the tenant's spend has it. Each place, a
 * day, key and model of a run, is counted as if it were a call: what is told of it is one more lease, which is charged in place
 * of the earlier ones. So repeats, restarts and messages that come late are what they are for calls (counted-leases.ts).
 */
import { CHARGE_FIELDS } from '../core/budget/charge.ts'
import type { RunSpendTold, SpendPlace } from '../core/budget/run-spend.ts'
import { logFailure } from '../platform/log.ts'
import { runStartMs } from '../platform/run-id.ts'
import type { CountedLeases } from './counted-leases.ts'
import { type Charged, type ClassesMet, changesOf, lastOf, type SpendChange } from './spend-meter.ts'
import type { ActorTx } from './storage/actor-database.ts'

/** Digits of the number of leases, so that texts of it sort as numbers. */
const LEASES_CHARS = 10

/** Runs that told something, the newest of each. */
export class ToldSpend {
  #runs = new Map<string, RunSpendTold>()

  get size(): number {
    return this.#runs.size
  }

  add(spend: RunSpendTold): void {
    const known = this.#runs.get(spend.run)
    if (known === undefined || spend.leases >= known.leases) this.#runs.set(spend.run, spend)
  }

  take(run: string): RunSpendTold | null {
    const told = this.#runs.get(run) ?? null
    this.#runs.delete(run)
    return told
  }

  takeAll(): RunSpendTold[] {
    const told = [...this.#runs.values()]
    this.#runs.clear()
    return told
  }
}

export interface FreshPlace {
  call: string
  lease: string
  charged: Charged
  /** What it changes of the tenant's spend. */
  changes: SpendChange[]
}

/** The places whose charge is another one than was counted. */
export function newerPlaces(
  db: ActorTx,
  told: readonly RunSpendTold[],
  leases: CountedLeases,
  classes: ClassesMet,
  now_ms: number,
): FreshPlace[] {
  const places = told.flatMap((of) => of.places.map((place) => named(of, place)))
  if (places.length === 0) return []
  const known = leases.of(db, places, now_ms)
  const fresh = new Map<string, FreshPlace>()
  let forgotten = 0
  for (const { call, lease, granted_at_ms, of, place } of places) {
    const before = [...(known.get(call)?.values() ?? [])].map(({ charged }) => charged)
    const begun_ms = Math.max(granted_at_ms, runStartMs(of.run, now_ms))
    // What was counted of it may have been forgotten, so it would be charged twice.
    if (before.length === 0 && begun_ms < leases.remembersSinceMs(db)) {
      forgotten += 1
      continue
    }
    const charged = classes.place(db, { lease, granted_at_ms, place, of })
    const last = lastOf(before)
    if (last !== null && (last.lease >= lease || isSame(last, charged))) continue
    fresh.set(call, { call, lease, charged, changes: changesOf(charged, before) })
  }
  if (forgotten > 0) logFailure('spend_not_counted', `${forgotten} sums of days that are no longer remembered`)
  return [...fresh.values()]
}

function named(of: RunSpendTold, place: SpendPlace) {
  const { day, key, model } = place
  return {
    // No id begins with a space, so no call has such a name.
    call: ` ${JSON.stringify([of.run, day, key, model])}`,
    lease: String(of.leases).padStart(LEASES_CHARS, '0'),
    granted_at_ms: Date.parse(day),
    ...{ of, place },
  }
}

function isSame(one: Charged, other: Charged): boolean {
  return one.class === other.class && CHARGE_FIELDS.every((field) => one.charge[field] === other.charge[field])
}
