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

import { type CallForecast, expectedTool } from '../../../../src/core/call/forecast.ts'
import type { HandlingReason } from '../../../../src/protocol/handling.ts'
import { invariant } from '../../invariant.ts'
import { Heap } from '../../order/heap.ts'
import type { EngineMemory, Policy } from '../../order/policy.ts'
import type { ScheduledCall } from '../../scheduled-call.ts'
import type { Image, ImageStore } from '../image-store.ts'
import type { KvCache, Slot } from '../kv-cache.ts'
import { PREFIX_MATCH_TOKENS_MIN } from '../prefix-index.ts'
import { commonPrefixTokens } from '../token-prefix.ts'
import { HandlingTally, type ToolCounts } from './handling-counts.ts'
import {
  heldFor,
  isDueBefore,
  isNeededBefore,
  lastNeeded,
  leftUs,
  type Next,
  type ToolContext,
} from './tool-context.ts'
import {
  type Batch,
  chooseHandling,
  curveUs,
  type Handling,
  type HandlingChoice,
  type HandlingRule,
  leastWaste,
  PRESERVE_US_MAX,
  REVISE_FACTOR,
  reviseAfterUs,
  reviseHandling,
  type Waste,
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

interface Parts {
  kv: KvCache<ScheduledCall>
  images: ImageStore
  memory: EngineMemory
  policy: Pick<Policy, 'handlingOf'>
  /** Who counts the time that moving the image takes. */
  onImage: (image: Image, owner: { swap_us: number }) => void
}

export class ToolContexts {
  readonly #rule: HandlingRule
  readonly #parts: Parts
  readonly #allowed: readonly Handling[]
  /** One of each program. */
  readonly #contexts = new Map<string, ToolContext>()
  readonly #pinned = new Set<ToolContext>()
  /** Those that have an image. */
  readonly #imaged = new Set<ToolContext>()
  readonly #due = new Heap<ToolContext>(isDueBefore)
  readonly #tally = new HandlingTally()
  /** Tokens that hide under one step while they are moved. */
  readonly #hidden_tokens: number
  /** Moved since the step began. */
  #moved_tokens = 0
  #pinned_blocks = 0
  #number = 0
  #now_us = 0

  constructor(rule: HandlingRule, parts: Parts) {
    this.#rule = rule
    this.#parts = parts
    const { swap } = parts.memory.costs
    const swaps = parts.images.isOpen && swap !== null
    this.#allowed = swaps ? rule.allowed : rule.allowed.filter((handling) => handling !== 'swap')
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
    return this.#pinned_blocks
  }

  get firm(): boolean {
    return this.#rule.pins === 'firm'
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
    const { handling, waste } = this.#decide(call, tokens, tool_us ?? 0)
    call.handled = { handling, reason: this.#reasonOf(forecast), waste: rounded(waste) }
    const first = this.#due.peek()
    if (first !== undefined && this.#contexts.size >= CONTEXTS_MAX) this.#forget(first)
    const context: ToolContext = {
      ...{ program: call.program, call, tokens, decided: handling, waste, since_us: now_us, expected_us: tool_us ?? 0 },
      ...{ number: this.#number++, slot: null, image: null, next: 'forget', due_us: 0, heap_index: -1 },
    }
    this.#contexts.set(call.program, context)
    this.#tally.decided(handling)
    this.#pin(context, slot)
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
    if (slot !== null) this.#unpin(context)
    if (image === null) return
    if (slot === null && this.#attach(call, context, image)) {
      context.image = null
      this.#imaged.delete(context)
    } else this.#dropImage(context)
  }

  /** The program goes on elsewhere. */
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
    this.#unpin(context)
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
    if (this.firm || this.#pinned.size === 0) return
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

  /**
   * Drops images for one of `call`, until there is room for so many tokens: those of its tenant's programs that are expected to
   * be away for longer than `left_us`, and those of a tenant whose images take more for its weight.
   */
  makeImageRoom(tokens: number, { call: { tenant } }: ScheduledCall, left_us = 0): void {
    const { images } = this.#parts
    while (images.isOpen && images.free_tokens < tokens) {
      const imaged = Array.from(this.#imaged)
      const own = imaged.filter(({ call }) => call.call.tenant === tenant)
      const first = lastNeeded(imaged, this.#now_us)
      const is_others = first !== null && first.call.call.tenant !== tenant && heldFor(imaged, first) > heldFor(own)
      const away = own.filter(({ slot }) => slot === null)
      const last = is_others ? first : lastNeeded(away, this.#now_us)
      if (last === null || (!is_others && leftUs(last, this.#now_us) <= left_us)) return
      this.#tally.displaced += 1
      this.#dropImage(last)
      if (last.slot === null) this.#wait(last)
    }
  }

  #decide(call: ScheduledCall, tokens: number, tool_us: number): HandlingChoice {
    const { memory, policy } = this.#parts
    const early = policy.handlingOf?.(call.order.place) ?? null
    const choice = early ?? chooseHandling(memory.costs, this.#batch(tokens), tool_us, this.#allowed)
    if (choice.handling !== 'swap' || this.#allowed.includes('swap')) return choice
    return { ...choice, handling: leastWaste(choice.waste, this.#allowed) }
  }

  #reasonOf(forecast: CallForecast | undefined): HandlingReason {
    if (this.#allowed.length === 1) return 'only_choice'
    return forecast === undefined ? 'not_foreseen' : 'least_waste'
  }

  #batch(context_tokens: number): Batch {
    const { kv } = this.#parts
    const running_blocks = kv.held_blocks - (this.firm ? this.#pinned_blocks : 0)
    return { context_tokens, other_tokens: Math.max(0, running_blocks) * kv.block_tokens }
  }

  /** The context lies pinned in its slot. */
  #carryOut(context: ToolContext, handling: Handling): void {
    if (handling === 'preserve') this.#preserve(context)
    else if (handling === 'discard') this.#discard(context)
    else if (!this.#hides(context.tokens)) this.#set(context, 'swap', this.#now_us)
    else if (!this.#swapOut(context)) {
      const is_over = this.#now_us >= context.since_us + PRESERVE_US_MAX
      const others = this.#allowed.filter((other) => other !== 'swap' && !(is_over && other === 'preserve'))
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
      this.#unpin(context)
      this.#parts.kv.drop(slot)
    }
    this.#wait(context)
  }

  /** False: there is no room for its image. */
  #swapOut(context: ToolContext): boolean {
    const { kv, images, onImage } = this.#parts
    const { slot, tokens } = context
    invariant(slot !== null, 'what is swapped out is in a slot')
    this.makeImageRoom(tokens, context.call, leftUs(context, this.#now_us))
    const image = images.reserve(tokens)
    if (image === null) return false
    this.#imaged.add(context)
    this.#moved_tokens += tokens
    this.#unpin(context)
    kv.swapOut(slot, image)
    onImage(image, this.#tally)
    context.image = image
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
    this.#pin(context, slot)
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
    const { costs } = this.#parts.memory
    const { handling } = reviseHandling(costs, this.#batch(tokens), away_us, this.#allowed)
    if (handling !== 'preserve') this.#tally.revised += 1
    this.#carryOut(context, handling)
  }

  /** Past the share of pins, those that are needed last end. */
  #boundShare(): void {
    const blocks_max = PINNED_SHARE_MAX * this.#parts.kv.capacity_blocks
    while (this.#pinned_blocks > blocks_max && this.#relieveOne(null)) {}
  }

  /** Ends the pin of the context that is needed last. False: there is none. */
  #relieveOne(except: Slot<ScheduledCall> | null): boolean {
    const last = lastNeeded(
      Array.from(this.#pinned).filter(({ slot }) => slot !== except),
      this.#now_us,
    )
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
      this.#unpin(context)
      kv.drop(slot)
      this.#wait(context)
    } else if (this.#allowed.includes('swap') && this.#hides(tokens) && images.pays(tokens) && this.#swapOut(context))
      return
    else {
      this.#unpin(context)
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

  #pin(context: ToolContext, slot: Slot<ScheduledCall>): void {
    context.slot = slot
    this.#pinned.add(context)
    this.#pinned_blocks += this.#parts.kv.blocksFor(context.tokens)
    if (this.firm) this.#parts.kv.holdIdle(slot)
  }

  #unpin(context: ToolContext): void {
    const { slot } = context
    invariant(slot !== null, 'a pin ends once')
    context.slot = null
    this.#pinned.delete(context)
    this.#pinned_blocks -= this.#parts.kv.blocksFor(context.tokens)
    if (this.firm && slot.prefix === context.call) this.#parts.kv.letGoIdle(slot)
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
    if (context.slot !== null) this.#unpin(context)
    if (context.image !== null) this.#dropImage(context)
  }

  #dropImage(context: ToolContext): void {
    const { image } = context
    invariant(image !== null, 'an image that is dropped exists')
    this.#parts.kv.dropImage(image)
    this.#parts.images.give(image)
    context.image = null
    this.#imaged.delete(context)
  }

  #remove(context: ToolContext): void {
    this.#contexts.delete(context.program)
    if (context.heap_index !== -1) this.#due.remove(context)
  }
}

/** In whole byte-seconds, as it leaves the engine. */
function rounded({ preserve, discard, swap }: Waste): Waste {
  return {
    preserve: Math.round(preserve),
    discard: Math.round(discard),
    swap: swap === null ? null : Math.round(swap),
  }
}
