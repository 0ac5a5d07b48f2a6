/**
 * What becomes of the contexts of programs whose tools run, for policies that handle them (order/policy.ts, `handling`). The
 * decision is made before the call runs (LAMPS) or when it ends (InferCept), and is carried out here when the call ends:
 *
 *     preserve   the context stays in its slot, pinned
 *     discard    its blocks are free at once
 *     swap       it is saved as an image of the program, and put back shortly before the tool is expected to return
 *
 * A context that nothing is known of is preserved at first, and decided again as it lasts (InferCept's estimate: a tool lasts
 * as long again as it has lasted). A tool that exceeds its forecast by REVISE_FACTOR is decided again too (LAMPS §4.2, the
 * worst misprediction).
 *
 * What it keeps true:
 * - A pin ends after PRESERVE_US_MAX, and pins have at most PINNED_SHARE_MAX of the blocks.
 * - A pin never stalls a call that asks for room (`pins: 'relieved'`): the context that is needed last is swapped, or its
 *   pin ends, before the call goes without. With `pins: 'firm'`, the reading of LAMPS' figure 3, calls wait for its blocks.
 * - No tenant's forecasts cost another its context. The tenant gives way first whose contexts take most for its weight, and
 *   of its contexts the one that is needed last.
 * - Images have at most the tokens of the store, and none is kept for longer than IMAGE_US_MAX.
 * - A context is put back only into blocks that no call asks for, and its image stays until its program is back, so that taking
 *   it out again costs nothing.
 */

import { expectedTool } from '../../../../src/core/call/forecast.ts'
import { invariant } from '../../invariant.ts'
import { Heap } from '../../order/heap.ts'
import type { ScheduledCall } from '../../scheduled-call.ts'
import type { Image } from '../image-store.ts'
import type { Slot } from '../kv-cache.ts'
import { PREFIX_MATCH_TOKENS_MIN } from '../prefix-index.ts'
import { commonPrefixTokens } from '../token-prefix.ts'
import { ContextDecisions, type DecisionParts } from './context-decisions.ts'
import { ContextImages } from './context-images.ts'
import { HandlingTally, type ToolCounts } from './handling-counts.ts'
import { PinnedContexts } from './pinned-contexts.ts'
import { isDueBefore, isNeededBefore, leftUs, type Next, type ToolContext } from './tool-context.ts'
import {
  curveUs,
  type Handling,
  type HandlingRule,
  leastWaste,
  PRESERVE_US_MAX,
  REVISE_FACTOR,
  reviseAfterUs,
} from './waste.ts'

/** Contexts that are remembered. Past it, the one whose time comes first is given up. */
export const CONTEXTS_MAX = 4096
/** Of all blocks, for pinned contexts together. */
export const PINNED_SHARE_MAX = 0.9
/** No image is kept for longer for a program whose tool runs: a tool that has run for so long does not return. */
export const IMAGE_US_MAX = 3_600_000_000
/** A context is put back so many usual steps, and the time that moving it takes, before its tool is expected to return. */
export const PREFETCH_STEPS = 2
/** A context is decided again no earlier than this. */
export const REVISE_US_MIN = 50_000

interface Parts extends DecisionParts {
  /** Who counts the time that moving the image takes. */
  onImage: (image: Image, owner: { swap_us: number }) => void
}

export class ToolContexts {
  readonly #rule: HandlingRule
  readonly #parts: Parts
  readonly #decisions: ContextDecisions
  readonly #pins: PinnedContexts
  readonly #images: ContextImages
  /** One of each program. */
  readonly #contexts = new Map<string, ToolContext>()
  readonly #due = new Heap<ToolContext>(isDueBefore)
  readonly #tally = new HandlingTally()
  /** Tokens that hide under one step while they are moved. */
  readonly #hidden_tokens: number
  /** Moved since the step began. */
  #moved_tokens = 0
  #number = 0
  #now_us = 0

  constructor(rule: HandlingRule, parts: Parts) {
    this.#rule = rule
    this.#parts = parts
    this.#decisions = new ContextDecisions(rule, parts)
    this.#pins = new PinnedContexts(parts.kv, rule.pins === 'firm')
    this.#images = new ContextImages(parts.kv, parts.images)
    const { swap } = parts.memory.costs
    const spare_us = parts.memory.step_us - (swap?.base_us ?? 0)
    this.#hidden_tokens = swap === null ? 0 : spare_us / Math.max(swap.per_token_us, Number.MIN_VALUE)
  }

  get counts(): ToolCounts {
    return this.#tally.counts(this.#contexts.size)
  }

  /** When `begin` does something. Infinity: never, as things are. */
  get next_due_us(): number {
    return this.#due.peek()?.due_us ?? Number.POSITIVE_INFINITY
  }

  get pinned_blocks(): number {
    return this.#pins.blocks
  }

  get firm(): boolean {
    return this.#pins.firm
  }

  /** The idle prefix that `call` left is pinned. */
  isPinned(call: ScheduledCall): boolean {
    const context = this.#contexts.get(call.program)
    return context?.call === call && context.slot !== null
  }

  /** Of two pinned prefixes, whether `kept` is needed before `other`. */
  returnsBefore(kept: ScheduledCall, other: ScheduledCall): boolean {
    const [a, b] = [this.#contexts.get(kept.program), this.#contexts.get(other.program)]
    return a !== undefined && b !== undefined && isNeededBefore(a, b, this.#now_us)
  }

  /** `call` was answered, `tokens` of it stay in `slot`, and no call of its program is open. */
  ended(call: ScheduledCall, slot: Slot<ScheduledCall>, tokens: number, now_us: number): void {
    this.#now_us = now_us
    const { forecast, sequence } = call.call
    // A call without a sequence is a program of its own, which does not come back.
    if (sequence === null) return
    const tool_us = forecast === undefined ? null : (expectedTool(forecast)?.duration_us ?? null)
    if (forecast !== undefined && tool_us === null) return
    invariant(!this.#contexts.has(call.program), 'a program whose call ended was told to have come back')
    const { handling, waste, told } = this.#decisions.ofEnded(call, tokens, tool_us ?? 0, this.#firm_blocks)
    call.handled = told
    const first = this.#due.peek()
    if (first !== undefined && this.#contexts.size >= CONTEXTS_MAX) this.#forget(first)
    const context: ToolContext = {
      ...{ program: call.program, call, tokens, decided: handling, waste, since_us: now_us, expected_us: tool_us ?? 0 },
      ...{ number: this.#number++, slot: null, image: null, next: 'forget', due_us: 0, heap_index: -1 },
    }
    this.#contexts.set(call.program, context)
    this.#tally.decided(handling)
    this.#pins.pin(context, slot)
    this.#carryOut(context, handling)
    this.#boundShare()
  }

  /** A call of the program has come. What its context left is the call's from now on. */
  arrived(call: ScheduledCall, now_us: number): void {
    this.#now_us = now_us
    const context = this.#contexts.get(call.program)
    if (context === undefined) return
    this.#remove(context)
    this.#tally.returned(context.decided)
    call.came_back = context
    call.started = context.slot !== null
    const { slot, image } = context
    if (slot !== null) this.#pins.unpin(context)
    if (image === null) return
    if (slot === null && this.#attach(call, context, image)) this.#images.givesAway(context)
    else this.#images.drop(context)
  }

  /** The program goes on elsewhere or has ended. */
  goneElsewhere(program: string, now_us: number): void {
    this.#now_us = now_us
    const context = this.#contexts.get(program)
    if (context === undefined) return
    const { slot } = context
    this.#forget(context)
    if (slot?.prefix === context.call) this.#parts.kv.drop(slot)
  }

  /** A call that had come back from its tool ends, having found so many tokens of its prompt. */
  ran({ came_back, prompt }: ScheduledCall, cached_tokens: number): void {
    if (came_back === null) return
    const tokens = Math.min(came_back.tokens, prompt.length - 1)
    this.#tally.found(came_back.decided, tokens, Math.min(cached_tokens, tokens))
  }

  /** Part or all of an idle prefix is gone. */
  lost(prefix: ScheduledCall): void {
    const context = this.#contexts.get(prefix.program)
    if (context?.call !== prefix || context.slot === null) return
    if (context.slot.prefix === prefix && context.slot.resident_tokens >= context.tokens) return
    this.#pins.unpin(context)
    this.#wait(context)
  }

  /** Before the calls of a step are placed. `scarce`: in the step before, a call waited for room. */
  begin(now_us: number, scarce: boolean): void {
    this.#now_us = now_us
    this.#moved_tokens = 0
    const due: ToolContext[] = []
    for (let first = this.#due.peek(); first !== undefined && first.due_us <= now_us; first = this.#due.peek()) {
      this.#due.remove(first)
      due.push(first)
    }
    for (const context of due) {
      if (context.next === 'forget') this.#forget(context)
      else if (context.next === 'prefetch') this.#prefetch(context, scarce)
      else if (context.next === 'swap') this.#carryOut(context, 'swap')
      else this.#revise(context)
    }
  }

  /** Ends pins, but not that of `except`, until so many blocks, and a slot if asked, can be given to a call or no pin is left. */
  makeWay(blocks: number, except: Slot<ScheduledCall> | null = null, slot = false): void {
    const { kv } = this.#parts
    if (this.firm || this.#pins.size === 0) return
    const lacksSlot = () => slot && !kv.hasSpareSlot(except)
    if (kv.free_blocks >= blocks && !lacksSlot()) return
    while ((kv.spare_blocks < blocks || lacksSlot()) && this.#relieveOne(except)) {}
  }

  /** Before `call` overwrites what is in `slot`. True: it was another program's pinned context, and has been moved out. */
  rescue(slot: Slot<ScheduledCall>, call: ScheduledCall): boolean {
    const { prefix } = slot
    const context = prefix === null ? undefined : this.#contexts.get(prefix.program)
    if (this.firm || context === undefined || context.slot !== slot || context.program === call.program) return false
    this.#tally.relieved += 1
    this.#relieve(context)
    return slot.prefix === null
  }

  /** Drops images for one of `call`, until there is room for so many tokens or none gives way. */
  makeImageRoom(tokens: number, call: ScheduledCall, left_us = 0): void {
    for (const dropped of this.#images.makeRoom(tokens, call, left_us, this.#now_us)) {
      this.#tally.displaced += 1
      if (dropped.slot === null) this.#wait(dropped)
    }
  }

  /** Blocks that count as held, and that no call has. */
  get #firm_blocks(): number {
    return this.firm ? this.#pins.blocks : 0
  }

  /** The context lies pinned in its slot. */
  #carryOut(context: ToolContext, handling: Handling): void {
    if (handling === 'preserve') this.#preserve(context)
    else if (handling === 'discard') this.#discard(context)
    else if (!this.#hides(context.tokens)) this.#set(context, 'swap', this.#now_us)
    else if (!this.#swapOut(context)) {
      const is_over = this.#now_us >= context.since_us + PRESERVE_US_MAX
      const others = this.#decisions.allowed.filter((other) => other !== 'swap' && !(is_over && other === 'preserve'))
      this.#carryOut(context, leastWaste(context.waste, others))
    }
  }

  #preserve(context: ToolContext): void {
    const { since_us, expected_us } = context
    const away_us = this.#now_us - since_us
    const after_us = this.#rule.revises
      ? Math.max(REVISE_US_MIN, reviseAfterUs(expected_us), REVISE_FACTOR * away_us)
      : PRESERVE_US_MAX
    this.#set(context, 'revise', since_us + Math.max(away_us + 1, Math.min(PRESERVE_US_MAX, after_us)))
  }

  #discard(context: ToolContext): void {
    const { slot } = context
    if (slot !== null) {
      this.#pins.unpin(context)
      this.#parts.kv.drop(slot)
    }
    this.#wait(context)
  }

  /** False: there is no room for its image. */
  #swapOut(context: ToolContext): boolean {
    const { kv, onImage } = this.#parts
    const { slot, tokens } = context
    invariant(slot !== null, 'what is swapped out is in a slot')
    this.makeImageRoom(tokens, context.call, leftUs(context, this.#now_us))
    const image = this.#images.reserve(context)
    if (image === null) return false
    this.#moved_tokens += tokens
    this.#pins.unpin(context)
    kv.swapOut(slot, image)
    onImage(image, this.#tally)
    const lead_us = PREFETCH_STEPS * this.#parts.memory.step_us + this.#moveUs(tokens)
    this.#putBack(context, Math.max(this.#now_us, Math.floor(context.since_us + context.expected_us - lead_us)))
    return true
  }

  /** At that time, if the tool is not expected back by then, and the image is kept for so long. */
  #putBack(context: ToolContext, at_us: number): void {
    const { since_us, expected_us } = context
    if (at_us < Math.min(since_us + expected_us, since_us + IMAGE_US_MAX)) this.#set(context, 'prefetch', at_us)
    else this.#wait(context)
  }

  #prefetch(context: ToolContext, scarce: boolean): void {
    const { kv, memory, onImage } = this.#parts
    const { image, tokens, since_us, expected_us } = context
    invariant(image !== null, 'what is put back is in an image')
    const late = this.#now_us >= since_us + expected_us
    const slot = late || scarce || !this.#hides(tokens) ? null : kv.swapIn(context.call, image)
    if (slot === null) {
      this.#putBack(context, this.#now_us + memory.step_us)
      return
    }
    this.#moved_tokens += tokens
    onImage(image, this.#tally)
    this.#tally.prefetched += 1
    this.#pins.pin(context, slot)
    const kept_us = Math.min(PRESERVE_US_MAX, Math.max(REVISE_US_MIN, expected_us))
    this.#set(context, 'revise', this.#now_us + kept_us)
    this.#boundShare()
  }

  /** Its tool has lasted for longer than expected. */
  #revise(context: ToolContext): void {
    if (context.image !== null) {
      this.#tally.revised += 1
      this.#relieve(context)
      return
    }
    const { since_us, tokens } = context
    const away_us = this.#now_us - since_us
    const handling = this.#decisions.ofLasting(tokens, away_us, this.#firm_blocks)
    if (handling !== 'preserve') this.#tally.revised += 1
    this.#carryOut(context, handling)
  }

  /** Past the share of pins, those that are needed last end. */
  #boundShare(): void {
    const blocks_max = PINNED_SHARE_MAX * this.#parts.kv.capacity_blocks
    while (this.#pins.blocks > blocks_max && this.#relieveOne(null)) {}
  }

  /** Ends the pin of the context that is needed last. False: there is none. */
  #relieveOne(except: Slot<ScheduledCall> | null): boolean {
    const last = this.#pins.lastNeeded(except, this.#now_us)
    if (last === null) return false
    this.#tally.relieved += 1
    this.#relieve(last)
    return true
  }

  /** It is swapped if that pays, and otherwise left as a prefix like any other. */
  #relieve(context: ToolContext): void {
    const { slot, image, tokens } = context
    const { kv, images } = this.#parts
    invariant(slot !== null, 'a pinned context is in a slot')
    if (image !== null) {
      this.#pins.unpin(context)
      kv.drop(slot)
      this.#wait(context)
    } else if (
      this.#decisions.allowed.includes('swap') &&
      this.#hides(tokens) &&
      images.pays(tokens) &&
      this.#swapOut(context)
    )
      return
    else {
      this.#pins.unpin(context)
      this.#wait(context)
    }
  }

  /** Whether moving it hides under the step, as far as the rule asks for that. What is larger than a step goes alone. */
  #hides(tokens: number): boolean {
    if (!this.#rule.hidden_swaps || this.#moved_tokens === 0) return true
    return this.#moved_tokens + tokens <= this.#hidden_tokens
  }

  #moveUs(tokens: number): number {
    const { swap } = this.#parts.memory.costs
    return swap === null ? 0 : curveUs(swap, tokens)
  }

  /** The call takes the image, if its prompt begins with it. */
  #attach(call: ScheduledCall, { call: before, tokens }: ToolContext, image: Image): boolean {
    const { kv, onImage } = this.#parts
    if (before.cache_salt !== call.cache_salt || tokens > call.known_tokens) return false
    const common_tokens = commonPrefixTokens(before, tokens, call, call.known_tokens - 1)
    if (
      common_tokens < PREFIX_MATCH_TOKENS_MIN ||
      common_tokens < kv.match(call, call.known_tokens, { force: true }).tokens
    )
      return false
    call.image = { ...image, tokens: common_tokens }
    call.started = true
    onImage(image, call)
    return true
  }

  /** Nothing more is done for it until its program is back. */
  #wait(context: ToolContext): void {
    this.#set(context, 'forget', context.since_us + IMAGE_US_MAX)
  }

  #set(context: ToolContext, next: Next, due_us: number): void {
    context.next = next
    context.due_us = due_us
    if (context.heap_index === -1) this.#due.push(context)
    else this.#due.update(context)
  }

  #forget(context: ToolContext): void {
    this.#remove(context)
    this.#tally.expired += 1
    if (context.slot !== null) this.#pins.unpin(context)
    if (context.image !== null) this.#images.drop(context)
  }

  #remove(context: ToolContext): void {
    this.#contexts.delete(context.program)
    if (context.heap_index !== -1) this.#due.remove(context)
  }
}
