/**
 * The entry point of the order (Autellix, Algorithm 1). Calls arrive, a decision assigns seats, and charges and ends move
 * other calls. It works on events alone and knows nothing of steps, tokens of a step, slots or KV. So it can also order
 * calls in front of a server that has none of them. It reads no clock: each method takes the time.
 *
 * One step is
 * - `decide`: which calls have seats;
 * - the engine's work, and `charge` for each call in it;
 * - `ended` for each call that ends with it;
 * - `settle`: moves calls by what the step cost, and charges the tenants.
 *
 * gpu-agent/vllm has the same in Python. Golden traces and fuzzing compare the two.
 */
import type { ServiceRates, ServiceReading, ServiceTokens } from '../../../src/core/call/service.ts'
import type { QueuePosition } from '../../../src/protocol/queue-position.ts'
import { invariant } from '../invariant.ts'
import type { OrderedCall, Outlook } from '../types.ts'
import { CallState } from './call-state.ts'
import { DrainRate } from './drain-rate.ts'
import { DueCalls } from './due-calls.ts'
import type { Policy } from './policy.ts'
import { ProgramTable } from './program-table.ts'
import { Seating, type SeatingConfig } from './seating.ts'
import { compareOrder, type TenantQueue } from './tenant-queue.ts'

export interface OrderConfig extends SeatingConfig {
  policy: Policy
  /** The reading of service in which tenants and policies are charged. */
  ordering: ServiceReading
  rates: ServiceRates
}

export class ProgramOrder<O> {
  #config: OrderConfig
  readonly #seating: Seating<CallState<O>>
  readonly #programs = new ProgramTable<CallState<O>>()
  #due: DueCalls<O>
  readonly #open = new Set<CallState<O>>()
  #sequence = 0
  #settled = 0
  /** Of all tenants' calls. */
  readonly drain = new DrainRate()

  constructor(config: OrderConfig) {
    this.#config = config
    this.#seating = new Seating(config)
    this.#due = new DueCalls(config.policy)
  }

  get open_calls(): number {
    return this.#open.size
  }

  /** The queue of the call's tenant if it has calls. */
  queueOf(call: Pick<OrderedCall, 'tenant' | 'offline'>): TenantQueue<CallState<O>> | null {
    return this.#seating.queueOf(call)
  }

  /** `resident_tokens`: prompt tokens whose KV is on the device. `decide` returns `owner`. */
  arrive(
    call: OrderedCall,
    { prompt_tokens, resident_tokens = 0 }: { prompt_tokens: number; resident_tokens?: number },
    owner: O,
    now_us: number,
  ): CallState<O> {
    const { policy } = this.#config
    const tenant = this.#seating.tenantOf(call)
    const program = this.#programs.open(call.program)
    const state = new CallState(call, prompt_tokens, owner, now_us, tenant, program, this.#sequence++)
    state.tie(policy.ties)
    state.resident_tokens = Math.min(resident_tokens, prompt_tokens)
    state.holds_kv = state.isMostOfPrompt(resident_tokens)
    program.arrived(state)
    state.place = policy.arrive(state, now_us)
    this.#open.add(state)
    this.#seating.add(state)
    this.#due.set(state)
    this.#refreshSiblings(state, now_us)
    return state
  }

  /** What the policy knows of a call that has just arrived. */
  outlook(call: CallState<O>): Outlook {
    return this.#config.policy.outlook?.(call.place) ?? {}
  }

  /** Where the call is in the order at this moment. O(open calls). */
  position(call: CallState<O>): Pick<QueuePosition, 'before' | 'order'> {
    const { policy } = this.#config
    let before = 0
    for (const other of this.#open) {
      if (other.tenant === call.tenant && compareOrder(other, call) < 0) before += 1
    }
    return { before, order: policy.position?.(call.place) ?? `by ${policy.name}` }
  }

  /**
   * The number of the call's prompt tokens whose KV is at hand has changed. `device_tokens`: those of them that are on the
   * device. The rest are swapped out.
   */
  resident(call: CallState<O>, tokens: number, now_us: number, device_tokens = tokens): void {
    const holds_kv = call.isMostOfPrompt(device_tokens)
    if (holds_kv !== call.holds_kv) call.tenant.setHoldsKv(call, holds_kv)
    const resident_tokens = Math.min(tokens, call.prompt_tokens)
    if (resident_tokens === call.resident_tokens) return
    call.resident_tokens = resident_tokens
    this.#refresh(call, now_us)
    this.#due.set(call)
  }

  /**
   * Calls with seats in the next step, in the order in which they are served. The list belongs to the order: do not keep
   * it.
   */
  decide(now_us: number): readonly CallState<O>[] {
    for (const call of this.#due.moved(now_us)) this.#move(call)
    return this.#seating.decide(now_us)
  }

  /**
   * A step of `wall_us` that ended at `ended_us` computed `tokens` for the call. Adds that to the call's sums and to its
   * program's. `settle` lets it move calls. Returns its modelled charge. `quota_us`: what it took of a provider's limits, which no
   * engine here has.
   */
  charge(call: CallState<O>, tokens: ServiceTokens, wall_us: number, ended_us: number, quota_us = 0): number {
    const { ordering, rates } = this.#config
    const modelled_us = call.charge(tokens, wall_us, ended_us, rates)
    const charge = call.step_charge
    charge.wall_us = wall_us
    charge.charge_us = (ordering === 'wall' ? wall_us : modelled_us) + quota_us
    charge.prefill_tokens = tokens.uncached_prompt_tokens
    charge.output_tokens = tokens.output_tokens
    call.charged_us += charge.charge_us
    call.program.charged(call, charge.charge_us, tokens.output_tokens)
    return modelled_us
  }

  /** Lets the policy move the charged calls that go on and other calls of their programs, and charges their tenants. */
  settle(calls: readonly CallState<O>[], now_us: number): void {
    for (const call of calls) call.tenant.step_charge_us += call.step_charge.charge_us
    this.#moveCharged(calls, now_us)
    for (const { tenant } of calls) {
      if (tenant.step_charge_us === 0) continue
      this.#config.shares.charge(tenant.share, tenant.step_charge_us, now_us)
      tenant.step_charge_us = 0
    }
  }

  /**
   * As `settle`, for several steps that ended at `ends_us` and gave each call a token. Tenants are charged step by step,
   * since their charges decay with time.
   */
  settleDecodes(calls: readonly CallState<O>[], started_us: number, ends_us: readonly number[]): void {
    const { shares, ordering, rates } = this.#config
    const of_tenant = new Map<TenantQueue<CallState<O>>, number>()
    for (const { tenant } of calls) of_tenant.set(tenant, (of_tenant.get(tenant) ?? 0) + 1)
    let from_us = started_us
    for (const end_us of ends_us) {
      const charge_us = ordering === 'wall' ? end_us - from_us : rates.decode_us_per_token
      for (const [tenant, number] of of_tenant) shares.charge(tenant.share, charge_us * number, end_us)
      from_us = end_us
    }
    if (calls.every(({ ended }) => ended)) this.#config.policy.stepped?.(ends_us.length - 1)
    this.#moveCharged(calls, from_us)
    this.#seating.skip(ends_us.length - 1)
  }

  ended(call: CallState<O>, now_us: number): void {
    invariant(!call.ended, 'a call ends once')
    call.ended = true
    this.#open.delete(call)
    this.drain.ended(now_us)
    call.tenant.drain.ended(now_us)
    this.#seating.remove(call)
    this.#due.remove(call)
    const { program } = call
    program.ended(call, now_us - call.arrived_us - call.service_wall_us)
    this.#programs.close(program, call.call.sequence !== null)
    // The wait of the program counts for its other calls, and may make them due.
    for (const sibling of program.open) {
      this.#refresh(sibling, now_us)
      this.#due.set(sibling)
    }
  }

  /**
   * Applies another policy or other limits from the next decision on. Each open call gets a place as if it arrived with
   * what its program has received. Calls of one rank keep the order in which they came to their last one.
   */
  reconfigure(config: OrderConfig, now_us: number): void {
    this.#config = config
    this.#seating.reconfigure(config)
    for (const call of this.#open) this.#due.remove(call)
    this.#due = new DueCalls(config.policy)
    for (const call of this.#open) {
      call.tie(config.policy.ties)
      call.place = config.policy.arrive(call, now_us)
      call.program.order_changes += 1
      this.#seating.moved(call)
      this.#due.set(call)
    }
  }

  /** Another number of seats from the next decision on. Of a server whose seats are learned. */
  resize(seats: number): void {
    this.#config = { ...this.#config, seats }
    this.#seating.resize(seats)
  }

  /** Until when the decided seats hold unless a call comes, goes or moves. */
  get steady_until_us(): number {
    return Math.min(this.#seating.steady_until_us, this.#due.next_us)
  }

  get seated_calls(): number {
    return this.#seating.seated_calls
  }

  /** Decisions taken, and whether the step that comes `steps` after the decided one takes one. */
  get decisions(): number {
    return this.#seating.decisions
  }

  decidesIn(steps: number): boolean {
    return this.#seating.decidesIn(steps)
  }

  /** How much more each open call of the program may be charged before the policy must be called. 0: after each step. */
  chargeLeftUs(call: CallState<O>): number {
    const { policy } = this.#config
    if (policy.chargeLeftUs === undefined) return 0
    let left_us = policy.chargeLeftUs(call.place)
    if (policy.refresh === undefined || call.program.open.size === 1) return left_us
    for (const sibling of call.program.open) left_us = Math.min(left_us, policy.chargeLeftUs(sibling.place))
    return left_us
  }

  /** How many more output tokens each open call of the program may have before the policy must be called. */
  outputTokensLeft(call: CallState<O>): number {
    const { policy } = this.#config
    if (policy.outputTokensLeft === undefined) return Number.POSITIVE_INFINITY
    let left = policy.outputTokensLeft(call.place)
    for (const sibling of call.program.open) left = Math.min(left, policy.outputTokensLeft(sibling.place))
    return left
  }

  #moveCharged(calls: readonly CallState<O>[], now_us: number): void {
    const { policy } = this.#config
    for (const call of calls) {
      if (!call.ended && policy.charge(call.place, call.step_charge, now_us)) this.#move(call)
    }
    if (policy.refresh === undefined) return
    const settled = this.#settled++
    for (const { program } of calls) {
      if (program.open.size < 2 || program.settled === settled) continue
      program.settled = settled
      for (const sibling of program.open) this.#refresh(sibling, now_us)
    }
  }

  #refreshSiblings(call: CallState<O>, now_us: number): void {
    if (this.#config.policy.refresh === undefined) return
    for (const sibling of call.program.open) {
      if (sibling === call) continue
      this.#refresh(sibling, now_us)
      // The ticket may know of more wait, which makes the call due sooner.
      this.#due.set(sibling)
    }
  }

  #refresh(call: CallState<O>, now_us: number): void {
    if (this.#config.policy.refresh?.(call.place, now_us)) this.#move(call)
  }

  #move(call: CallState<O>): void {
    call.sequence = this.#sequence++
    call.program.order_changes += 1
    this.#seating.moved(call)
    this.#due.set(call)
  }
}
