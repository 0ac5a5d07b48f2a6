/**
 * Which calls have seats in the next step: tenants' shares first, then each policy's order within a tenant (design.md,
 * invariant 5). This file knows nothing of slots or memory. memory/placement.ts finds those for the seated calls.
 *
 * Offline calls come after the online ones of every tenant: their tenants share the seats that online calls leave, and the
 * next decision takes a seat back for an online call that waits. Where a step takes longer for each call in it, as on a CPU, they would slow online
 * calls even so: `offline_beside_online_max` keeps them from running beside online ones. The Python order has no such limit, since a GPU decodes a
 * batch in nearly the time of one call.
 *
 * A decision holds until something that it depends on changes: a call comes, goes or moves, or the shares' interval passes.
 * So most steps of a steady batch cost nothing here. Quotas hold longer, since a seat that changes tenants preempts a call.
 * They are set again only where a seat would stay empty, for a tenant that has none yet, and at the interval.
 *
 * With `steps_per_decision` N > 1 seats are taken from calls only at every Nth step (Autellix §4.2.2, multi-step
 * scheduling). In between, a freed seat goes to a standby call: the tenant's own, otherwise any tenant's, so that no seat is
 * empty while a call waits. By default that is the call that is next in order. With `standby: 'resident_first'` it is the
 * next one that holds its KV, as in Autellix, and one that does not only if no such call may take the seat. A tenant's own
 * seats still go to its own calls first, with KV or without. docs/kv-swap.md has what both cost.
 */
import type { TenantShares } from '../../../src/core/pool/tenant-shares.ts'
import { invariant } from '../invariant.ts'
import { QUOTA_UNSET, type Seatable, type SeatPolicy, shareOf, TenantQueue } from './tenant-queue.ts'

/** How seats go to tenants. */
export type SeatShares = Pick<TenantShares, 'charge' | 'allocate'>

/** Which call gets a seat that falls free between two decisions. */
export type Standby = 'in_order' | 'resident_first'

export interface SeatingConfig {
  policy: SeatPolicy
  shares: SeatShares
  /** Calls in one step, at most. vLLM's `max_num_seqs`. */
  seats: number
  /** Seats are shared between tenants again when their demand changes, and otherwise this often. */
  shares_interval_us: number
  /** N: seats are given and taken at every Nth step. In between, only freed seats are given. */
  steps_per_decision: number
  standby: Standby
  /** Seats that one decision may move between calls of one tenant. A tenant's shares may take more. */
  preemptions_per_decision_max: number
  /** Offline calls that have seats while any online call is open. Left out: as many as there are seats left. */
  offline_beside_online_max?: number
}

/** A call that knows the queue of its tenant. */
interface TenantsCall<C extends Seatable> extends Seatable {
  readonly tenant: TenantQueue<C>
}

/** What of a call decides on its queue. */
interface TenantOfCall {
  tenant: string
  offline?: boolean
}

export class Seating<C extends TenantsCall<C>> {
  #config: SeatingConfig
  /** Tenants with open online calls by their shares, so bounded by the open calls. */
  readonly #online = new Map<string, TenantQueue<C>>()
  /** The same of offline calls. */
  readonly #offline = new Map<string, TenantQueue<C>>()
  readonly #groups = [this.#online, this.#offline] as const
  readonly #order: C[] = []
  #open_calls = 0
  #demand_changed = false
  #order_changed = false
  #quotas_until_us = Number.POSITIVE_INFINITY

  /** Steps planned since seats were last decided. */
  #decided_steps = 0
  #decisions = 0

  constructor(config: SeatingConfig) {
    this.#config = config
  }

  /** Applies other limits from the next decision on, which comes at once. The number of seats stays the same. */
  reconfigure(config: SeatingConfig): void {
    invariant(config.seats === this.#config.seats, 'an engine keeps its seats')
    this.#config = config
    this.#decided_steps = 0
    this.#order_changed = true
  }

  /** Another number of seats from the next decision on, which comes at once. Calls beyond it lose theirs. */
  resize(seats: number): void {
    invariant(Number.isSafeInteger(seats) && seats > 0, 'there is at least one seat')
    if (seats === this.#config.seats) return
    this.#config = { ...this.#config, seats }
    this.#decided_steps = 0
    this.#demand_changed = true
    this.#quotas_until_us = Number.NEGATIVE_INFINITY
  }

  get open_calls(): number {
    return this.#open_calls
  }

  /** The queue of the call's tenant, which is kept only while it has calls. */
  tenantOf(call: TenantOfCall & { tenant_weight: number }): TenantQueue<C> {
    const { tenant_weight, offline = false } = call
    const tenant = this.queueOf(call) ?? new TenantQueue<C>(shareOf(call), tenant_weight, offline)
    tenant.weight = tenant_weight
    return tenant
  }

  /** The queue of the call's tenant if it has calls. */
  queueOf(call: TenantOfCall): TenantQueue<C> | null {
    return (call.offline === true ? this.#offline : this.#online).get(shareOf(call)) ?? null
  }

  add(call: C): void {
    this.#groupOf(call).set(call.tenant.share, call.tenant)
    call.tenant.add(call)
    this.#open_calls += 1
    this.#demand_changed = true
  }

  /** The call has ended and holds no slot. */
  remove(call: C): void {
    call.tenant.remove(call)
    if (call.tenant.calls === 0) this.#groupOf(call).delete(call.tenant.share)
    this.#open_calls -= 1
    this.#demand_changed = true
  }

  moved(call: C): void {
    call.tenant.moved(call)
    this.#order_changed = true
  }

  /** Until when the steps after the decided one keep its seats, unless a call comes, goes or moves. */
  get steady_until_us(): number {
    const changing = this.#demand_changed || this.#order_changed
    return changing ? Number.NEGATIVE_INFINITY : this.#quotas_until_us
  }

  get seated_calls(): number {
    return this.#order.length
  }

  /** Decisions so far. */
  get decisions(): number {
    return this.#decisions
  }

  /** Whether the step that comes `steps` after this one begins with a decision. */
  decidesIn(steps: number): boolean {
    return (this.#decided_steps - 1 + steps) % this.#config.steps_per_decision === 0
  }

  /** `steps` more steps were made while seats were steady. */
  skip(steps: number): void {
    const done_steps = this.#decided_steps - 1 + steps
    this.#decisions += Math.floor(done_steps / this.#config.steps_per_decision)
    this.#decided_steps = (done_steps % this.#config.steps_per_decision) + 1
  }

  /** Seated calls, in the order in which they are served. */
  decide(now_us: number): readonly C[] {
    const decided = this.#decided_steps > 0 && this.#decided_steps < this.#config.steps_per_decision
    if (decided && this.#seatedCalls() > 0) {
      this.#decided_steps += 1
      if (this.#demand_changed) this.#fillFreed()
      return this.#order
    }
    this.#decided_steps = 1
    this.#decisions += 1
    const quotas_due = now_us >= this.#quotas_until_us
    if (!quotas_due && !this.#demand_changed && !this.#order_changed) return this.#order
    if (quotas_due || (this.#demand_changed && !this.#quotasFit())) this.#setQuotas(now_us)
    const { policy, preemptions_per_decision_max } = this.#config
    let done = true
    for (const tenant of this.#queues()) {
      done = tenant.reseat(tenant.quota, policy, preemptions_per_decision_max) && done
    }
    this.#deal()
    this.#demand_changed = false
    this.#order_changed = !done
    return this.#order
  }

  /** Runs between decisions: no call loses a seat. The next decision looks at the changes again. */
  #fillFreed(): void {
    const free_seats = this.#config.seats - this.#seatedCalls()
    const left = free_seats - this.#fillGroup(this.#online, free_seats)
    let offline_seated = 0
    for (const { seated } of this.#offline.values()) offline_seated += seated.length
    this.#fillGroup(this.#offline, Math.max(0, Math.min(left, this.#offlineMax() - offline_seated)))
    this.#deal()
  }

  /** Returns the number of seats that were given. */
  #fillGroup(group: ReadonlyMap<string, TenantQueue<C>>, seats: number): number {
    const resident_first = this.#config.standby === 'resident_first'
    let free_seats = seats
    for (const tenant of group.values()) {
      const quota = Math.min(tenant.quota, tenant.seated.length + free_seats)
      if (resident_first) free_seats -= tenant.fillHolding(quota)
      free_seats -= tenant.fill(quota)
    }
    for (const tenant of group.values()) {
      if (resident_first && free_seats > 0) free_seats -= tenant.fillHolding(tenant.seated.length + free_seats)
    }
    for (const tenant of group.values()) {
      if (free_seats > 0) free_seats -= tenant.fill(tenant.seated.length + free_seats)
    }
    return seats - free_seats
  }

  #groupOf({ tenant }: C): Map<string, TenantQueue<C>> {
    return tenant.offline ? this.#offline : this.#online
  }

  *#queues(): Generator<TenantQueue<C>> {
    for (const group of this.#groups) yield* group.values()
  }

  #seatedCalls(): number {
    let seated_calls = 0
    for (const { seated } of this.#queues()) seated_calls += seated.length
    return seated_calls
  }

  /** The quotas were set under contention, fill the seats, every tenant has one, and no offline call has an online one's. */
  #quotasFit(): boolean {
    if (this.#quotas_until_us === Number.POSITIVE_INFINITY) return false
    let filled_seats = 0
    let offline_seats = 0
    let online_waits = false
    for (const { quota, calls, offline } of this.#queues()) {
      if (quota === QUOTA_UNSET) return false
      filled_seats += Math.min(quota, calls)
      if (offline) offline_seats += Math.min(quota, calls)
      else online_waits ||= calls > quota
    }
    return filled_seats === this.#config.seats && !(online_waits && offline_seats > 0)
  }

  #setQuotas(now_us: number): void {
    this.#quotas_until_us = Number.POSITIVE_INFINITY
    const { seats } = this.#config
    const left = seats - this.#setGroupQuotas(this.#online, seats, now_us)
    this.#setGroupQuotas(this.#offline, Math.min(left, this.#offlineMax()), now_us)
  }

  /** Seats that offline calls may have. */
  #offlineMax(): number {
    const { seats, offline_beside_online_max = seats } = this.#config
    return this.#online.size === 0 ? seats : offline_beside_online_max
  }

  /** Returns how many of the `seats` the group has. */
  #setGroupQuotas(group: ReadonlyMap<string, TenantQueue<C>>, seats: number, now_us: number): number {
    const { shares, shares_interval_us } = this.#config
    let calls = 0
    for (const tenant of group.values()) calls += tenant.calls
    if (calls <= seats) {
      for (const tenant of group.values()) tenant.quota = tenant.calls
      return calls
    }
    if (seats === 0 || group.size === 1) {
      for (const tenant of group.values()) tenant.quota = seats
    } else {
      const quotas = shares.allocate(group, seats, now_us)
      for (const tenant of group.values()) tenant.quota = quotas.get(tenant.share) ?? 0
      this.#quotas_until_us = now_us + shares_interval_us
    }
    return seats
  }

  /**
   * Each tenant's first online call, then each one's second, and so on, then the offline ones alike. Memory and prefill
   * tokens are given out in this order.
   */
  #deal(): void {
    this.#order.length = 0
    for (const group of this.#groups) this.#dealGroup(group)
  }

  #dealGroup(group: ReadonlyMap<string, TenantQueue<C>>): void {
    const order = this.#order
    for (let round = 0; ; round++) {
      const before = order.length
      for (const tenant of group.values()) {
        const call = tenant.seated[round]
        if (call === undefined) continue
        call.seat_index = order.length
        order.push(call)
      }
      if (order.length === before) return
    }
  }
}
