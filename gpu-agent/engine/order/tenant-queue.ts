/**
 * One tenant's open calls: those that hold a seat, in order, and heaps of those that do not. `reseat` keeps the seats with
 * the best calls at a cost of O(changes · log waiting calls). A tenant's offline calls are a queue of their own.
 */

import { DrainRate } from './drain-rate.ts'
import type { Place } from './policy.ts'
import { type WaitingCall, WaitingCalls } from './waiting-calls.ts'

/** For a tenant that has come since seats were last shared. */
export const QUOTA_UNSET = -1

/** What a queue needs to know of a call. */
export interface Seatable extends WaitingCall {
  readonly place: Place
  /** Breaks ties of rank between programs: the earlier opened runs first. */
  readonly program_sequence: readonly [opened_at_ms: number, tie: number]
  /** Breaks the remaining ties: lower runs first. Unique. */
  readonly sequence: number
  seated: boolean
  /** Position in the order of seats; lower is served first. */
  seat_index: number
}

/** The part of the policy that decides on seats. */
export interface SeatPolicy {
  /** Whether `worst`, which has a seat, gives it to `best`, which waits and runs before it. */
  yieldsTo(worst: Place, best: Place): boolean
}

/** A tenant's id has no control characters, so that this is none. */
export function shareOf({ tenant, offline = false }: { tenant: string; offline?: boolean }): string {
  return offline ? `${tenant}\noffline` : tenant
}

export class TenantQueue<C extends Seatable = Seatable> {
  /** Whose share of the seats it is. Offline calls have one of their own, so that they cost the tenant's others nothing. */
  readonly share: string
  readonly offline: boolean
  weight: number
  /** Open calls, seated or not: the tenant's demand for seats. */
  calls = 0
  readonly seated: C[] = []
  readonly unseated = new WaitingCalls<C>(runsBefore)
  /** Seats that are the tenant's; may exceed its calls. */
  quota = QUOTA_UNSET
  /** Charges of the step being committed. */
  step_charge_us = 0
  /** The step in which a call of this tenant found no room in memory. Calls behind it do not pass it. */
  blocked_step = -1
  readonly drain = new DrainRate()
  #unsorted = false

  constructor(share: string, weight: number, offline: boolean) {
    this.share = share
    this.weight = weight
    this.offline = offline
  }

  add(call: C): void {
    this.calls += 1
    this.unseated.push(call)
  }

  remove(call: C): void {
    this.calls -= 1
    if (call.seated) {
      this.seated.splice(this.seated.indexOf(call), 1)
      call.seated = false
    } else {
      this.unseated.remove(call)
    }
  }

  /** The call's rank or sequence changed. */
  moved(call: C): void {
    if (call.seated) this.#unsorted = true
    else this.unseated.update(call)
  }

  /** Most of the KV of the call's prompt came to the device, or left it. */
  setHoldsKv(call: C, holds_kv: boolean): void {
    if (call.seated) call.holds_kv = holds_kv
    else this.unseated.setHoldsKv(call, holds_kv)
  }

  /** Seats the best `quota` calls, as far as the limits on preemption allow. False: the next decision has more to do. */
  reseat(quota: number, policy: SeatPolicy, preemptions_max: number): boolean {
    const seated = this.seated
    if (this.#unsorted) seated.sort(compareOrder)
    this.#unsorted = false
    while (seated.length > quota) this.#unseat(seated.pop() as C)
    this.fill(quota)
    for (let preemptions = 0; preemptions < preemptions_max; preemptions++) {
      const best = this.unseated.peek()
      const worst = seated[seated.length - 1]
      if (best === undefined || worst === undefined || !runsBefore(best, worst)) return true
      if (!policy.yieldsTo(worst.place, best.place)) return true
      seated.pop()
      this.#seat(best)
      this.#unseat(worst)
    }
    return false
  }

  /** Gives free seats up to `quota` to the best calls without one, and takes none. Returns the number given. */
  fill(quota: number): number {
    return this.#give(quota, () => this.unseated.peek())
  }

  /** As `fill`, to calls that hold their KV alone. */
  fillHolding(quota: number): number {
    return this.#give(quota, () => this.unseated.peekHolding())
  }

  #give(quota: number, next: () => C | undefined): number {
    const before = this.seated.length
    while (this.seated.length < quota) {
      const call = next()
      if (call === undefined) break
      this.#seat(call)
    }
    return this.seated.length - before
  }

  #seat(call: C): void {
    this.unseated.remove(call)
    call.seated = true
    const seated = this.seated
    let index = seated.length
    while (index > 0 && runsBefore(call, seated[index - 1] as C)) index--
    seated.splice(index, 0, call)
  }

  #unseat(call: C): void {
    call.seated = false
    this.unseated.push(call)
  }
}

/** The order inside a tenant: the policy's rank, then the program's sequence, then arrival. Total, since sequences are unique. */
export function runsBefore(a: Seatable, b: Seatable): boolean {
  return compareOrder(a, b) < 0
}

export function compareOrder(a: Seatable, b: Seatable): number {
  if (a.place.rank !== b.place.rank) return a.place.rank < b.place.rank ? -1 : 1
  const [a_opened_ms, a_tie] = a.program_sequence
  const [b_opened_ms, b_tie] = b.program_sequence
  return a_opened_ms - b_opened_ms || a_tie - b_tie || a.sequence - b.sequence
}
