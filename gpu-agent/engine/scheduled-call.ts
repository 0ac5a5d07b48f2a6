/**
 * One open call of the scheduler: its place in the order, its KV, and its part of the step under way. Plain data.
 * memory/placement.ts and scheduler.ts each write the part named below.
 */
import type { HandlingDecision } from '../../src/protocol/handling.ts'
import { PAUSES_MAX, type Pause } from '../../src/protocol/measurement.ts'
import type { Handling } from './memory/handling/waste.ts'
import type { Image } from './memory/image-store.ts'
import type { KvClaimant, Slot } from './memory/kv-cache.ts'
import type { CallState } from './order/call-state.ts'
import type { HeapNode } from './order/heap.ts'
import type { EndReason, EngineCall, Measurement, Outlook } from './types.ts'

/** When a call has been open for too long. */
export interface DeadlineNode extends HeapNode {
  due_us: number
  readonly call: ScheduledCall
}

export class ScheduledCall implements KvClaimant {
  readonly call: EngineCall
  readonly prompt: ArrayLike<number>
  readonly output: number[] = []
  readonly cache_salt: string
  readonly program: string
  readonly deadline: DeadlineNode
  /** Its place in the order. Set as soon as the order has taken it. */
  order!: CallState<ScheduledCall>
  /** What the policy knew of it then. */
  outlook: Outlook = {}

  // KV (memory/placement.ts).
  slot: Slot<ScheduledCall> | null = null
  /** Tokens whose KV is in the slot. */
  computed_tokens = 0
  /** Where its KV is while it has been swapped out. */
  image: Image | null = null
  /** It has KV in a slot, or KV was kept for it. False: it is yet to begin, or has to begin again. */
  started = false
  /** What was decided for the context that it goes on from, and how many tokens that has. Null: nothing was. */
  came_back: { readonly decided: Handling; readonly tokens: number } | null = null
  /** What was decided for its own context when it ended. Null: nothing was. */
  handled: HandlingDecision | null = null
  /** Has sampled since it claimed its slot. Only then may it be evicted, so every claim yields at least one token. */
  settled = false
  /** The last step in which it had a slot and the blocks that it needs. */
  placed_step = -1
  /** It advances from step to step. A call that stops advancing before its end was preempted. */
  running = false
  swapped_out_tokens = 0
  swapped_in_tokens = 0
  /** For how long steps waited for its images. */
  swap_us = 0
  /** Of stays in slots that have ended. */
  #recomputed_tokens = 0
  /** Tokens that were computed when it last lost its slot. */
  #reached_tokens = 0
  /** Tokens that were there when it got a slot again; null: it has not lost one. */
  #resumed_at_tokens: number | null = null
  /** Pauses that are over. */
  readonly #pauses: Pause[] = []
  /** Since when it is preempted, and how much had been moved until then. Null: it is not. */
  #paused: { from_us: number; moved_tokens: number } | null = null

  // The step under way (scheduler.ts).
  step_tokens = 0
  in_flight = false
  ending: EndReason | null = null

  constructor(call: EngineCall, now_us: number) {
    this.call = call
    this.prompt = call.prompt
    this.cache_salt = call.cache_salt
    this.program = call.program
    const due_us = now_us + (call.deadline_us ?? Number.POSITIVE_INFINITY)
    this.deadline = { heap_index: -1, due_us, call: this }
  }

  get known_tokens(): number {
    return this.prompt.length + this.output.length
  }

  /** Prompt tokens still to be computed. Tokens in an image count as computed. */
  get queued_tokens(): number {
    return Math.max(0, this.prompt.length - (this.image?.tokens ?? this.computed_tokens))
  }

  /** It loses its slot. `computed_tokens` are still those in it. */
  losesSlot(): void {
    this.#recomputed_tokens += this.#computedAgain()
    this.#reached_tokens = Math.max(this.#reached_tokens, this.computed_tokens)
    this.#resumed_at_tokens = null
  }

  /** It has a slot, and so many of its tokens in it. */
  getsSlot(kept_tokens: number): void {
    if (this.#reached_tokens > 0) this.#resumed_at_tokens = kept_tokens
  }

  #computedAgain(): number {
    if (this.#resumed_at_tokens === null) return 0
    return Math.max(0, Math.min(this.computed_tokens, this.#reached_tokens) - this.#resumed_at_tokens)
  }

  /** It was preempted. */
  pause(now_us: number): void {
    this.#paused = { from_us: now_us - this.order.arrived_us, moved_tokens: this.#movedTokens }
  }

  /** It advances again, or ends. */
  resume(now_us: number): void {
    const { from_us, moved_tokens } = this.#paused ?? {}
    this.#paused = null
    if (from_us === undefined || this.#pauses.length === PAUSES_MAX) return
    this.#pauses.push([from_us, now_us - this.order.arrived_us, this.#movedTokens !== moved_tokens])
  }

  get #movedTokens(): number {
    return this.swapped_out_tokens + this.swapped_in_tokens
  }

  measurement(ended_us: number): Measurement {
    const { order } = this
    this.resume(ended_us)
    const duration_us = ended_us - order.arrived_us
    return {
      prompt_tokens: this.prompt.length,
      cached_tokens: order.cached_tokens ?? 0,
      output_tokens: order.output_tokens,
      resumed_tokens: 0,
      service_wall_us: order.service_wall_us,
      service_modelled_us: order.service_modelled_us,
      wait_us: duration_us - order.service_wall_us,
      preemptions: order.preemptions,
      swapped_out_tokens: this.swapped_out_tokens,
      swapped_in_tokens: this.swapped_in_tokens,
      recomputed_tokens: this.#recomputed_tokens + this.#computedAgain(),
      swap_us: Math.round(this.swap_us),
      first_token_us: order.first_token_us,
      duration_us,
      ...this.outlook,
      ...(this.#pauses.length === 0 ? {} : { pauses: this.#pauses }),
      ...(this.handled === null ? {} : { handled: this.handled }),
    }
  }
}

export function isOverdueBefore(a: DeadlineNode, b: DeadlineNode): boolean {
  return a.due_us < b.due_us || (a.due_us === b.due_us && a.call.order.sequence < b.call.order.sequence)
}
