/**
 * Everything that the order remembers of one open call: its place, its seat and its sums. Its KV and its tokens belong to
 * its owner, the scheduler (`ScheduledCall`) or a front.
 */
import { modelledServiceUs, type ServiceRates, type ServiceTokens } from '../../../src/core/call/service.ts'
import type { OrderedCall } from '../types.ts'
import type { HeapNode } from './heap.ts'
import type { Charge, Place, PolicyCall, Ties } from './policy.ts'
import type { ProgramCall, ProgramSums } from './program-table.ts'
import type { Seatable, TenantQueue } from './tenant-queue.ts'

/** When the policy must look at the call again. Kept in a separate heap, beside the one that the call waits in. */
export interface DueNode<O> extends HeapNode {
  due_us: number
  readonly call: CallState<O>
}

/** The same for every call when programs do not count, so that it orders none. */
const NO_SEQUENCE = [0, 0] as const

const NO_TOKENS: ServiceTokens = Object.freeze({
  uncached_prompt_tokens: 0,
  cached_prompt_tokens: 0,
  output_tokens: 0,
})

export class CallState<O = unknown> implements Seatable, PolicyCall, ProgramCall {
  readonly call: OrderedCall
  readonly prompt_tokens: number
  /** The owner of the call. The order does not read it. */
  readonly owner: O
  readonly arrived_us: number
  readonly tenant: TenantQueue<CallState<O>>
  readonly program: ProgramSums<CallState<O>>
  ended = false

  // Order (seating.ts, due-calls.ts).
  /** Set by the policy once the program knows of the call. */
  place!: Place
  program_sequence: readonly [opened_at_ms: number, tie: number] = NO_SEQUENCE
  readonly #own_sequence: readonly [number, number]
  sequence: number
  heap_index = -1
  readonly due: DueNode<O>
  seated = false
  seat_index = 0
  holds_kv = false

  // Sums (program-order.ts).
  /** The program's path when the call arrived. */
  path_before_us = 0
  /** Charged so far, in the ordering reading. */
  charged_us = 0
  /** Prompt tokens whose KV is at hand: on the device, or swapped out. */
  resident_tokens = 0
  /** Prompt tokens found resident in the call's first step. Null before that step. */
  cached_tokens: number | null = null
  #cached_charged = false
  /** Prompt tokens computed at least once or found resident. Recomputing them after an eviction is not charged again. */
  #prompt_reached_tokens = 0
  output_tokens = 0
  service_wall_us = 0
  service_modelled_us = 0
  preemptions = 0
  first_token_us: number | null = null
  /** Of the step being charged. */
  readonly step_charge: Charge = { wall_us: 0, charge_us: 0, prefill_tokens: 0, output_tokens: 0 }

  constructor(
    call: OrderedCall,
    prompt_tokens: number,
    owner: O,
    now_us: number,
    tenant: TenantQueue<CallState<O>>,
    program: ProgramSums<CallState<O>>,
    sequence: number,
  ) {
    this.call = call
    this.prompt_tokens = prompt_tokens
    this.owner = owner
    this.arrived_us = now_us
    this.tenant = tenant
    this.program = program
    this.sequence = sequence
    this.#own_sequence = [now_us / 1000, sequence]
    this.due = { heap_index: -1, due_us: Number.POSITIVE_INFINITY, call: this }
  }

  /** A call without a program counts as one of its own, which opened when it arrived. */
  tie(ties: Ties): void {
    this.program_sequence = ties === 'call' ? NO_SEQUENCE : (this.call.sequence ?? this.#own_sequence)
  }

  /** Whether so many tokens on the device are most of its prompt: it can run without a long prefill or a transfer. */
  isMostOfPrompt(device_tokens: number): boolean {
    return 2 * device_tokens > this.prompt_tokens
  }

  /** Notes that a step computes tokens [from, to) of the call. Returns the tokens that are charged in that step. */
  reached(from_tokens: number, to_tokens: number): ServiceTokens {
    if (this.#cached_charged && this.#prompt_reached_tokens === this.prompt_tokens) return NO_TOKENS
    const resident_tokens = Math.min(from_tokens, this.prompt_tokens)
    this.cached_tokens ??= resident_tokens
    // Tokens that a resumed call finds resident were computed by another call, so they are not charged either.
    const reached_before_tokens = Math.max(this.#prompt_reached_tokens, resident_tokens)
    const uncached_prompt_tokens = Math.max(0, Math.min(to_tokens, this.prompt_tokens) - reached_before_tokens)
    this.#prompt_reached_tokens = reached_before_tokens + uncached_prompt_tokens
    const cached_prompt_tokens = this.#cached_charged ? 0 : this.cached_tokens
    this.#cached_charged = true
    return { uncached_prompt_tokens, cached_prompt_tokens, output_tokens: 0 }
  }

  /** Adds a step, or a stretch of steps, of `wall_us` that ended at `ended_us` to the sums. Returns its modelled charge. */
  charge(tokens: ServiceTokens, wall_us: number, ended_us: number, rates: ServiceRates): number {
    const modelled_us = modelledServiceUs(tokens, rates)
    this.service_wall_us += wall_us
    this.service_modelled_us += modelled_us
    this.output_tokens += tokens.output_tokens
    if (tokens.output_tokens > 0) this.first_token_us ??= ended_us - this.arrived_us
    return modelled_us
  }
}

export function isDueBefore<O>(a: DueNode<O>, b: DueNode<O>): boolean {
  return a.due_us < b.due_us || (a.due_us === b.due_us && a.call.sequence < b.call.sequence)
}
