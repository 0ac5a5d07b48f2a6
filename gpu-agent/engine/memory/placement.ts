/**
 * Finds slots and KV blocks for seated calls, and takes them from others when there are none.
 *
 * A preempted call is not scheduled, but it keeps its slot and its KV while there is room. A holder is evicted only when a
 * seated call needs the room. Its KV is then saved, and restored later into any free slot, or it is dropped and computed
 * again. The choice is the one that is predicted to take less time (image-store.ts).
 *
 * Why this always makes progress: a claim reserves blocks for all tokens that the call has, so a claimed call reaches its
 * next sample without asking for more. It cannot be evicted before that, and a sampled token is never lost. So each
 * eviction is paid for by at least one token. If the best call finds no room in a step, a protected holder advances instead
 * (`guests`).
 *
 * A newcomer does not take what is kept for a waiting call that runs before it (retention.ts). It waits. If no call
 * advances for that reason, no holder is protected, since it would be a guest. So all holders can be evicted, and the first
 * call is placed without regard to what is kept (`force`). It needs no more than the capacity, so it finds room.
 *
 * The same goes for what is held until a program comes back (program-hold.ts).
 *
 * Under a policy that handles contexts while tools run (handling/tool-contexts.ts) that takes the place of the hold. Such a
 * policy may let calls that begin wait for free room (`evicts: 'for_started'`, as in vLLM). Then a call that waits for room
 * does not keep those from advancing that have theirs: they are what frees it.
 */

import { invariant } from '../invariant.ts'
import type { EngineMemory, Policy } from '../order/policy.ts'
import { compareOrder, runsBefore } from '../order/tenant-queue.ts'
import type { ScheduledCall } from '../scheduled-call.ts'
import type { SlotOperation, StepOutcome } from '../types.ts'
import { NO_TOOLS, type ToolCounts } from './handling/handling-counts.ts'
import { ToolContexts } from './handling/tool-contexts.ts'
import { type HoldTime, usualTime } from './hold-time.ts'
import type { Image, ImageStore } from './image-store.ts'
import { type Claim, KvCache, type Slot } from './kv-cache.ts'
import { PrefillSpeed } from './prefill-speed.ts'
import { type HoldCounts, ProgramHold } from './program-hold.ts'
import { RankRetention } from './rank-retention.ts'
import { LEAST_RECENTLY_USED } from './retention.ts'

interface PlacementConfig {
  slots: number
  block_tokens: number
  capacity_blocks: number
  copies_prefixes: boolean
  prefill_chunk_tokens: number
  hold_kv: boolean
  memory: EngineMemory
  policy: Pick<Policy, 'retention' | 'ties' | 'evicts' | 'handling' | 'handlingOf'>
}

type Tenant = ScheduledCall['order']['tenant']

const NO_CALLS: readonly ScheduledCall[] = Object.freeze([])
const NO_HOLDS: HoldCounts = Object.freeze({
  contexts: 0,
  begun: 0,
  returned: 0,
  given_up: 0,
  expired: 0,
  held_back: 0,
})

export class Placement {
  readonly #kv: KvCache<ScheduledCall>
  readonly #images: ImageStore
  readonly #retention: RankRetention
  readonly #prefill_speed: PrefillSpeed
  /** Null: nothing is held. */
  readonly #hold: ProgramHold | null
  /** Null: contexts are not handled while tools run. */
  readonly #tools: ToolContexts | null
  /** Calls that begin wait for free room. */
  readonly #beginners_wait: boolean
  /** Who counts the time that moving an image takes, until a step has dropped it. */
  readonly #owners = new Map<number, { swap_us: number }>()
  /** Calls without a slot that were swapped out or whose programs lost KV. Bounded by the open calls. */
  readonly #lost = new Set<ScheduledCall>()
  #queued_tokens = 0
  #step = -1
  /** The last step in which a call was held back. */
  #held_back_step = -1
  /** A call waits for room, as of the last step that was planned. */
  #scarce = false

  /** `holdUs`: for how long contexts are held where `hold_kv` is set. */
  constructor(config: PlacementConfig, images: ImageStore, holdUs: HoldTime = usualTime) {
    this.#images = images
    this.#prefill_speed = new PrefillSpeed(config.prefill_chunk_tokens)
    const costs = { capacity_tokens: config.capacity_blocks * config.block_tokens, slots: config.slots }
    const { policy, memory } = config
    const holds = config.hold_kv && policy.ties === 'program' && policy.handling === undefined
    this.#hold = holds ? new ProgramHold(costs, this.#prefill_speed, holdUs) : null
    this.#beginners_wait = policy.evicts === 'for_started'
    const keepers = { hold: this.#hold, tools: () => this.#tools, beginners_wait: this.#beginners_wait }
    this.#retention = new RankRetention(keepers)
    this.#kv = new KvCache(config.slots, config.block_tokens, config.capacity_blocks, {
      copies_prefixes: config.copies_prefixes,
      retention: config.policy.retention === 'lru' ? LEAST_RECENTLY_USED : this.#retention,
      onPrefixLost: (prefix) => {
        this.#tools?.lost(prefix)
        this.#noteLost(prefix)
      },
    })
    const onImage = (image: Image, owner: { swap_us: number }) => this.#owners.set(image.id, owner)
    const parts = { kv: this.#kv, images, memory, policy, onImage }
    this.#tools = policy.handling === undefined ? null : new ToolContexts(policy.handling, parts)
  }

  get kv(): KvCache<ScheduledCall> {
    return this.#kv
  }

  /** Prompt tokens of open calls whose KV is still to be computed. */
  get queued_tokens(): number {
    return this.#queued_tokens
  }

  /** Contexts held until their programs come back. */
  get holds(): HoldCounts {
    return this.#hold?.counts ?? NO_HOLDS
  }

  /** What became of contexts while tools ran. */
  get tools(): ToolCounts {
    return this.#tools?.counts ?? NO_TOOLS
  }

  /** Blocks of pinned contexts that do not count as held. */
  get pinned_blocks(): number {
    return this.#tools === null || this.#tools.firm ? 0 : this.#tools.pinned_blocks
  }

  /** Calls wait for room that is pinned. */
  get isFirm(): boolean {
    return this.#tools?.firm ?? false
  }

  /** Until when nothing that is held, pinned or put back changes. */
  get held_until_us(): number {
    const never = Number.POSITIVE_INFINITY
    return Math.min(this.#hold?.next_expiry_us ?? never, this.#tools?.next_due_us ?? never)
  }

  /** When contexts are due to change although no call is open. Infinity: they are not handled, or nothing is due. */
  get contexts_due_us(): number {
    if (this.#tools === null) return Number.POSITIVE_INFINITY
    return this.#kv.hasOperations ? Number.NEGATIVE_INFINITY : this.#tools.next_due_us
  }

  /** To be called before anything is asked about a call that has come. */
  arrived(call: ScheduledCall, now_us: number): void {
    this.#tools?.arrived(call, now_us)
  }

  /** The program does not come back here. */
  discard(program: string, now_us: number): void {
    this.#tools?.goneElsewhere(program, now_us)
  }

  open(call: ScheduledCall, now_us: number): void {
    this.#hold?.arrived(call, now_us)
    this.#queued_tokens += call.queued_tokens
    this.#retention.opened(call)
  }

  /** To be called before the calls of a step are placed. */
  begin(now_us: number): void {
    this.#hold?.expire(now_us)
    this.#tools?.begin(now_us, this.#scarce)
    this.#scarce = false
  }

  /** A step of `calls` calls has computed `tokens` tokens. */
  stepped(tokens: number, calls: number, wall_us: number): void {
    this.#prefill_speed.computed(tokens, calls, wall_us)
  }

  /** Tokens of a call whose KV is in its slot or its image, or in a prefix that it could continue or copy. */
  residentTokens(call: ScheduledCall): number {
    if (call.slot !== null) return call.computed_tokens
    return call.image?.tokens ?? this.#kv.match(call, call.known_tokens, { force: true }).tokens
  }

  /** Calls without a slot that may have less KV, or less of it in slots, than when it was last looked up. */
  takeLost(): readonly ScheduledCall[] {
    if (this.#lost.size === 0) return NO_CALLS
    const lost = Array.from(this.#lost)
    this.#lost.clear()
    return lost
  }

  /** The first `tokens` tokens of the call have their KV in its slot. */
  computed(call: ScheduledCall, tokens: number): void {
    this.#queued_tokens -= call.queued_tokens
    call.computed_tokens = tokens
    this.#queued_tokens += call.queued_tokens
  }

  /** A stretch of `steps` decodes was taken, whose last tokens `known_tokens` counts already: blocks as for its last step. */
  decoded(call: ScheduledCall, steps: number): void {
    const slot = call.slot as Slot<ScheduledCall>
    this.#kv.reordered()
    invariant(this.#kv.grow(slot, this.#kv.blocksFor(call.known_tokens - 1)), 'a stretch grows into free blocks')
    this.computed(call, call.computed_tokens + steps)
  }

  /** A step carried these operations out. It waited so long for each image. */
  moved(operations: readonly SlotOperation[], moved_us: StepOutcome['moved_us']): void {
    for (const [image, us] of moved_us ?? []) {
      const owner = this.#owners.get(image)
      invariant(owner !== undefined, 'an image that is moved is of a call')
      owner.swap_us += us
    }
    for (const operation of operations) if (operation.op === 'drop_image') this.#owners.delete(operation.image)
  }

  /**
   * The call ends. What it computed stays as a prefix, unless it was swapped out. `answered_us`: when it was answered; null:
   * it was not.
   */
  close(call: ScheduledCall, answered_us: number | null): void {
    this.#queued_tokens -= call.queued_tokens
    this.#retention.closed(call)
    this.#lost.delete(call)
    this.#dropImage(call)
    if (call.order.cached_tokens !== null) this.#tools?.ran(call, call.order.cached_tokens)
    const { slot } = call
    if (slot === null) return
    const tokens = call.computed_tokens
    this.#kv.release(slot, tokens)
    call.slot = null
    if (answered_us === null || tokens === 0 || this.#retention.isOpen(call)) return
    this.#hold?.ended(call, tokens, answered_us)
    this.#tools?.ended(call, slot, tokens, answered_us)
  }

  /** Gives a seated call what it needs to advance in `step`. False: there is no room that it may take. */
  place(call: ScheduledCall, step: number): boolean {
    if (step !== this.#step) this.#kv.reordered()
    this.#step = step
    const placed = call.slot === null ? this.#claim(call, step) : this.#grow(call, call.slot, step)
    if (placed) call.placed_step = step
    else this.#scarce = true
    return placed
  }

  /**
   * As `place`, for the first of the seated calls in a step in which no other call advances. False: it waits for room that
   * is pinned.
   */
  force(call: ScheduledCall, step: number): boolean {
    const claim = this.#prepare(call, step, true)
    if (claim === null) {
      invariant(this.isFirm, 'the first call finds room if nothing is kept from it')
      return false
    }
    this.#complete(claim)
    call.placed_step = step
    return true
  }

  /**
   * Calls without a seat that take the seats of calls for which there was no room: holders, and those whose contexts are
   * kept while others wait for room. Those that must not be evicted come first, since room comes only from them. Guests
   * evict no call.
   */
  guests(seats: number, step: number): ScheduledCall[] {
    const candidates = new Set<ScheduledCall>()
    for (const { holder, prefix } of this.#kv.slots) {
      const call = holder ?? (this.#beginners_wait && prefix !== null ? this.#waitsFor(prefix) : null)
      if (call !== null && !call.order.seated && call.placed_step !== step) candidates.add(call)
    }
    const inOrder = (a: ScheduledCall, b: ScheduledCall) =>
      Number(a.settled) - Number(b.settled) || compareOrder(a.order, b.order)
    const guests: ScheduledCall[] = []
    for (const call of Array.from(candidates).sort(inOrder)) {
      if (guests.length === seats) break
      if (!(call.slot === null ? this.#takeOwn(call) : this.#growOwn(call, call.slot))) continue
      call.placed_step = step
      guests.push(call)
    }
    return guests
  }

  /** The open call without a slot for which the idle prefix is kept. */
  #waitsFor(prefix: ScheduledCall): ScheduledCall | null {
    const call = this.#retention.keptFor(prefix)
    return call !== null && call !== prefix && call.slot === null ? call : null
  }

  #growOwn(call: ScheduledCall, slot: Slot<ScheduledCall>): boolean {
    const blocks = this.#kv.blocksFor(call.known_tokens)
    this.#tools?.makeWay(blocks - slot.path.blocks)
    return this.#kv.grow(slot, blocks)
  }

  /** The call goes on from its own context, in blocks that are free or not reserved. */
  #takeOwn(call: ScheduledCall): boolean {
    const claim = this.#kv.prepare(call, call.known_tokens, { image: call.image })
    if (claim.takes && claim.source?.prefix?.program === call.program && this.#kv.canComplete(claim)) {
      this.#complete(claim)
      return true
    }
    this.#kv.abandon(claim)
    return false
  }

  #claim(call: ScheduledCall, step: number): boolean {
    if (call.order.tenant.blocked_step === step && !(this.#beginners_wait && call.started)) return false
    const claim = this.#prepare(call, step, false)
    if (claim === null) call.order.tenant.blocked_step = step
    else this.#complete(claim)
    return claim !== null
  }

  /** A claim for which there is room. Null if there is none; then no call is evicted. */
  #prepare(call: ScheduledCall, step: number, force: boolean): Claim<ScheduledCall> | null {
    const kv = this.#kv
    const { known_tokens, image } = call
    const claim = kv.prepare(call, known_tokens, { image, force })
    const { source } = claim
    const evicts = force || call.started || !this.#beginners_wait
    const hasRoom = (of: Claim<ScheduledCall>, kept: Slot<ScheduledCall> | null) =>
      evicts ? this.#makeRoom((without) => kv.canComplete(of, without), call, step, kept) : kv.canComplete(of)
    if (hasRoom(claim, source)) return this.#saved(claim, hasRoom)
    this.#countHeldBack(claim, step)
    kv.abandon(claim)
    if (!evicts || source === null || source.holder === null || !isEvictable(source.holder, call, step)) return null
    // The room may come from the call that it would copy from.
    const other = kv.prepare(call, known_tokens, { image, force, live: false })
    if (hasRoom(other, null)) return this.#saved(other, hasRoom)
    kv.abandon(other)
    return null
  }

  /**
   * The claim, for which there is room, or another one for the same call once the pinned context that it would overwrite has
   * been moved out. Null: what it shared with that context is gone, and there is no room for the rest.
   */
  #saved(
    claim: Claim<ScheduledCall>,
    hasRoom: (claim: Claim<ScheduledCall>, kept: Slot<ScheduledCall> | null) => boolean,
  ): Claim<ScheduledCall> | null {
    const { call, takes, source, image, force } = claim
    if (!takes || source === null || !this.#tools?.rescue(source, call)) return claim
    this.#kv.abandon(claim)
    const again = this.#kv.prepare(call, call.known_tokens, { image, force })
    if (hasRoom(again, again.source)) return again
    this.#kv.abandon(again)
    return null
  }

  /** Counts the step, if there would be room for the claim were nothing held. */
  #countHeldBack(claim: Claim<ScheduledCall>, step: number): void {
    const hold = this.#hold
    const { call, force } = claim
    if (hold === null || force || step === this.#held_back_step || !hold.holdsOf(call.call.tenant)) return
    const isHeld = (prefix: ScheduledCall) => hold.holds(prefix) && this.#retention.isShielded(prefix, call)
    if (!this.#kv.couldTake(claim, isHeld)) return
    this.#held_back_step = step
    hold.heldBack()
  }

  #complete(claim: Claim<ScheduledCall>): void {
    const { call } = claim
    this.#tools?.makeWay(claim.missing_blocks, claim.source, !claim.takes)
    call.started = true
    const { slot, kept_tokens } = this.#kv.complete(claim)
    call.slot = slot
    this.#retention.slotChanged(call)
    if (call.image !== null) call.swapped_in_tokens += kept_tokens
    this.#lost.delete(call)
    this.#queued_tokens -= call.queued_tokens
    this.#dropImage(call)
    call.computed_tokens = kept_tokens
    call.getsSlot(kept_tokens)
    this.#queued_tokens += call.queued_tokens
    call.settled = false
  }

  #grow(call: ScheduledCall, slot: Slot<ScheduledCall>, step: number): boolean {
    const kv = this.#kv
    const blocks = kv.blocksFor(call.known_tokens)
    const missing_blocks = blocks - slot.path.blocks
    if (missing_blocks <= 0) return true
    if (!this.#makeRoom((without) => kv.canGive(missing_blocks, without), call, step, slot)) return false
    this.#tools?.makeWay(missing_blocks)
    return kv.grow(slot, blocks)
  }

  /** Evicts holders, except that of `kept`, until `isRoom`. Evicts none if that cannot be reached. */
  #makeRoom(
    isRoom: (without: readonly Slot<ScheduledCall>[]) => boolean,
    call: ScheduledCall,
    step: number,
    kept: Slot<ScheduledCall> | null,
  ): boolean {
    if (isRoom([])) return true
    const evictable = this.#kv.slots.filter(
      (slot) => slot !== kept && slot.holder !== null && isEvictable(slot.holder, call, step),
    )
    if (evictable.length === 0 || !isRoom(evictable)) return false
    do this.#evictWorst(evictable)
    while (!isRoom([]))
    return true
  }

  /** Evicts one of `slots` and removes it from the list. */
  #evictWorst(slots: Slot<ScheduledCall>[]): void {
    const held_slots = new Map<Tenant, number>()
    for (const { holder } of this.#kv.slots) {
      if (holder === null || holder.order.seated) continue
      held_slots.set(holder.order.tenant, (held_slots.get(holder.order.tenant) ?? 0) + 1)
    }
    const heldPerWeight = (tenant: Tenant) => (held_slots.get(tenant) ?? 0) / tenant.weight
    let worst: ScheduledCall | null = null
    for (const { holder } of slots) {
      if (holder === null) continue
      if (worst === null || isEvictedBefore(holder, worst, heldPerWeight)) worst = holder
    }
    invariant(worst !== null && worst.slot !== null, 'a holder that was counted can be evicted')
    slots.splice(slots.indexOf(worst.slot), 1)
    this.#tools?.makeImageRoom(worst.computed_tokens, worst)
    const image = this.#images.take(worst.computed_tokens)
    worst.losesSlot()
    this.#kv.evict(worst.slot, worst.computed_tokens, image)
    worst.slot = null
    this.#retention.slotChanged(worst)
    worst.swapped_out_tokens += image?.tokens ?? 0
    this.#queued_tokens -= worst.queued_tokens
    worst.computed_tokens = 0
    worst.image = image
    this.#queued_tokens += worst.queued_tokens
    if (image === null) {
      worst.started = false
      this.#noteLost(worst)
    } else {
      this.#owners.set(image.id, worst)
      this.#lost.add(worst)
    }
  }

  #noteLost(prefix: ScheduledCall): void {
    this.#hold?.lost(prefix)
    for (const call of this.#retention.callsOf(prefix)) if (call.slot === null) this.#lost.add(call)
  }

  #dropImage(call: ScheduledCall): void {
    if (call.image === null) return
    this.#kv.dropImage(call.image)
    this.#images.give(call.image)
    call.image = null
  }
}

/** Not a holder that this step already counts on, and not one that has yet to sample what it claimed its slot for. */
function isEvictable(holder: ScheduledCall, call: ScheduledCall, step: number): boolean {
  return holder !== call && holder.settled && holder.placed_step !== step
}

/**
 * Unseated calls go first, offline ones before online ones. Among them, the tenant with the most slots without a seat per weight loses its worst call, so no
 * tenant's order of its own programs costs another tenant its KV. Then seated calls go, from the last seat.
 */
function isEvictedBefore(a: ScheduledCall, b: ScheduledCall, heldPerWeight: (tenant: Tenant) => number): boolean {
  if (a.order.seated !== b.order.seated) return b.order.seated
  if (a.order.seated) return a.order.seat_index > b.order.seat_index
  if (a.order.tenant.offline !== b.order.tenant.offline) return a.order.tenant.offline
  if (a.order.tenant === b.order.tenant) return runsBefore(b.order, a.order)
  const a_held = heldPerWeight(a.order.tenant)
  const b_held = heldPerWeight(b.order.tenant)
  return a_held === b_held ? a.order.sequence > b.order.sequence : a_held > b_held
}
