/**
 * The KV cache as the scheduler accounts for it: slots (one sequence each) over one budget of blocks with a hard capacity.
 *
 * A slot is empty, held by an open call, or idle. An idle slot keeps the KV of a call that ended, as a prefix that a later
 * call with the same `cache_salt` may continue (design.md, invariant 3: reuse never crosses salts). Idle slots only use
 * spare room. When a call needs their blocks they lose them from the end, as few as needed, in the order of retention.ts.
 *
 * If the backend copies, a prefix in another slot of equal salt, live or idle, is copied. Its full blocks are shared and
 * count once (block-pool.ts), as in PagedAttention. The copying call pays for the blocks after them. The slots of the
 * backends are contiguous (llama.cpp's sequences are fixed partitions), so the tokens are really copied, and only the
 * budget shares. If the backend does not copy, no two slots share a block.
 *
 * Every change of a slot's contents other than by computing is recorded as a SlotOperation for the backend.
 */
import { invariant } from '../invariant.ts'
import type { SlotOperation } from '../types.ts'
import { BlockPool } from './block-pool.ts'
import { IdlePrefixes } from './idle-prefixes.ts'
import type { Image } from './image-store.ts'
import type { Claim, ClaimOptions, Match, Slot } from './kv-slots.ts'
import { PREFIX_MATCH_TOKENS_MIN, PrefixIndex } from './prefix-index.ts'
import { isContinuation, type KvClaimant, longestMatch } from './prefix-match.ts'
import { LEAST_RECENTLY_USED, type Retention } from './retention.ts'
import { commonPrefixTokens } from './token-prefix.ts'

export type { Claim, KvClaimant, Slot }

export interface KvCacheOptions<H> {
  /** The backend executes `copy`. */
  copies_prefixes?: boolean
  retention?: Retention<H>
  /** Part or all of an idle prefix is gone. */
  onPrefixLost?: (prefix: H) => void
}

/** Most steps have none. */
const NO_OPERATIONS: readonly SlotOperation[] = Object.freeze([])

export class KvCache<H extends KvClaimant> {
  readonly slots: readonly Slot<H>[]
  readonly block_tokens: number
  readonly #pool: BlockPool
  readonly #options: Required<KvCacheOptions<H>>
  #held_slots = 0
  /** Slots with a prefix. */
  readonly #idle: IdlePrefixes<H>
  #operations: SlotOperation[] = []
  /** By the first tokens of what slots hold. */
  readonly #index: PrefixIndex<Slot<H>>
  /** The idle slot that gave blocks last. While nothing that decides who gives has changed, it gives the next ones. */
  #giver: Slot<H> | null = null

  constructor(slots: number, block_tokens: number, capacity_blocks: number, options: KvCacheOptions<H> = {}) {
    this.#options = { copies_prefixes: false, retention: LEAST_RECENTLY_USED, onPrefixLost: () => {}, ...options }
    this.block_tokens = block_tokens
    this.#pool = new BlockPool(capacity_blocks)
    this.#idle = new IdlePrefixes(this.#pool, this.#options.retention)
    this.slots = Array.from({ length: slots }, (_, id) => ({
      id,
      holder: null,
      path: this.#pool.share(null, 0),
      prefix: null,
      resident_tokens: 0,
    }))
    this.#index = new PrefixIndex(this.slots)
  }

  get capacity_blocks(): number {
    return this.#pool.capacity_blocks
  }

  get free_blocks(): number {
    return this.#pool.free_blocks
  }

  /** Blocks of idle prefixes that no open call shares: available to a call that needs them. */
  get idle_blocks(): number {
    return this.#pool.idle_blocks
  }

  /** Blocks reserved by open calls. */
  get held_blocks(): number {
    return this.#pool.held_blocks
  }

  /** Slots that no open call holds. */
  get open_slots(): number {
    return this.slots.length - this.#held_slots
  }

  blocksFor(tokens: number): number {
    return Math.ceil(tokens / this.block_tokens)
  }

  /** Free blocks, and idle ones that are kept for no open call. */
  get spare_blocks(): number {
    const kept = this.#idle.kept()
    for (const { path } of kept) this.#pool.hold(path)
    const spare_blocks = this.free_blocks + this.idle_blocks
    for (const { path } of kept) this.#pool.letGo(path)
    return spare_blocks
  }

  /** Whether a slot other than `except` is empty or has a prefix that is kept for no open call. */
  hasSpareSlot(except: Slot<H> | null): boolean {
    return this.#hasEmpty() || this.#idle.spare(except) !== null
  }

  /** Operations are due that no step has taken. */
  get hasOperations(): boolean {
    return this.#operations.length > 0
  }

  /** To be called when calls may have changed their order, before room is asked for again. */
  reordered(): void {
    this.#giver = null
  }

  /** Operations since the last take, in order. */
  takeOperations(): readonly SlotOperation[] {
    if (this.#operations.length === 0) return NO_OPERATIONS
    const operations = this.#operations
    this.#operations = []
    return operations
  }

  /**
   * The useful resident part of the first `tokens` tokens of `call`: the longest common prefix. It is never all of them,
   * since the last token must be computed to sample.
   */
  match(call: H, tokens: number, { live = true, force = false }: ClaimOptions = {}): Match<H> {
    const { block_tokens } = this
    const { copies_prefixes } = this.#options
    const options = { live: live && copies_prefixes, block_tokens }
    const match = { ...longestMatch(this.#index.candidates(call), call, tokens, options), takes: false }
    const { source } = match
    if (source !== null) {
      const idle = source.holder === null
      if (idle && isContinuation(source, match.tokens, call, block_tokens)) return { ...match, takes: true }
      if (copies_prefixes && this.#hasEmpty()) return match
      const takes = idle && this.#isWorthTaking(source, match.tokens, call, force)
      if (takes) return { ...match, takes }
      if (copies_prefixes && (!idle || this.#idle.victimFor(call, source, force) !== null)) return match
    }
    const victim = this.#hasEmpty() ? null : this.#idle.victimFor(call, null, force)
    if (victim?.prefix?.cache_salt !== call.cache_salt) return { source: victim, tokens: 0, takes: victim !== null }
    const victim_tokens = commonPrefixTokens(victim.prefix, victim.resident_tokens, call, tokens - 1)
    return { source: victim, tokens: victim_tokens, takes: true }
  }

  /** Begins to give `call` a slot and blocks for `tokens` tokens. Changes nothing that is resident. */
  prepare(call: H, tokens: number, options: ClaimOptions = {}): Claim<H> {
    const { image = null, force = false } = options
    this.#giver = null
    const match =
      image === null ? this.match(call, tokens, options) : { source: null, tokens: image.tokens, takes: false }
    const shared_blocks = image === null ? Math.floor(match.tokens / this.block_tokens) : 0
    const path = this.#pool.share(match.source?.path ?? null, shared_blocks)
    const missing_blocks = this.blocksFor(tokens) - shared_blocks
    const shields = !force && this.free_blocks < missing_blocks && this.#options.retention.shieldsFrom(call)
    const shielded = shields ? this.#idle.shieldedFrom(call, match.takes ? match.source : null) : []
    const shielded_paths = shielded.map((slot) => slot.path)
    for (const shielded_path of shielded_paths) this.#pool.hold(shielded_path)
    return { ...match, call, path, missing_blocks, image, force, shielded, shielded_paths }
  }

  /** Whether the claim can be completed, if the holders of `without` are evicted first. */
  canComplete({ missing_blocks, takes, call, source, force }: Claim<H>, without: readonly Slot<H>[] = []): boolean {
    const slot = takes || this.#hasEmpty() || without.length > 0
    if (!slot && this.#idle.victimFor(call, source, force) === null) return false
    return this.canGive(missing_blocks, without)
  }

  /** Whether the claim could be completed if these prefixes were not shielded from it. */
  couldTake({ missing_blocks, takes, call, source, shielded }: Claim<H>, mayTake: (prefix: H) => boolean): boolean {
    const isTaken = (slot: Slot<H>) => slot.prefix !== null && mayTake(slot.prefix)
    const taken = shielded.filter(isTaken)
    if (!this.canGive(missing_blocks, taken)) return false
    if (takes || this.#hasEmpty()) return taken.length > 0
    return (
      this.#idle.victimFor(call, source, false) !== null || this.slots.some((slot) => slot !== source && isTaken(slot))
    )
  }

  /** Whether this many blocks can be given to a call, if the holders of `without` are evicted first. */
  canGive(blocks: number, without: readonly Slot<H>[] = []): boolean {
    for (const { path } of without) this.#pool.letGo(path)
    const enough = this.free_blocks + this.idle_blocks >= blocks
    for (const { path } of without) this.#pool.hold(path)
    return enough
  }

  abandon({ path, shielded_paths }: Claim<H>): void {
    for (const shielded_path of shielded_paths) this.#pool.letGo(shielded_path)
    this.#pool.cut(path, 0)
    this.#giver = null
  }

  /** Gives the call a slot, whose first `kept_tokens` tokens are its own. `canComplete` must hold. */
  complete(claim: Claim<H>): { slot: Slot<H>; kept_tokens: number } {
    const { call, source, tokens, takes, path, missing_blocks, image, shielded_paths } = claim
    this.#giver = null
    const slot = takes ? (source as Slot<H>) : this.#emptySlot(claim)
    if (takes) this.#take(slot, tokens, call)
    else if (image !== null) this.#restore(slot, image)
    else if (source !== null) this.#operations.push({ op: 'copy', from: source.id, slot: slot.id, tokens })
    this.#pool.cut(slot.path, 0)
    slot.path = path
    slot.holder = call
    this.#held_slots += 1
    this.#index.add(slot, call)
    this.#free(missing_blocks)
    this.#pool.append(path, missing_blocks)
    for (const shielded_path of shielded_paths) this.#pool.letGo(shielded_path)
    this.#giver = null
    return { slot, kept_tokens: tokens }
  }

  /** A claim that is completed at once; there must be room for it. */
  claim(call: H, tokens: number, options: ClaimOptions = {}): { slot: Slot<H>; kept_tokens: number } {
    return this.complete(this.prepare(call, tokens, { force: true, ...options }))
  }

  dropImage(image: Image): void {
    this.#operations.push({ op: 'drop_image', image: image.id })
  }

  /**
   * Raises a held slot's reservation to `blocks`, taking idle ones as needed. If that is not enough, returns false and
   * changes nothing.
   */
  grow(slot: Slot<H>, blocks: number): boolean {
    const missing_blocks = blocks - slot.path.blocks
    if (missing_blocks <= 0) return true
    if (!this.canGive(missing_blocks)) return false
    this.#free(missing_blocks)
    this.#pool.append(slot.path, missing_blocks)
    return true
  }

  /** The holder leaves. Its first `resident_tokens` tokens stay as an idle prefix. */
  release(slot: Slot<H>, resident_tokens: number): void {
    const holder = this.#letGo(slot)
    this.#pool.cut(slot.path, this.blocksFor(resident_tokens))
    this.#pool.letGo(slot.path)
    if (resident_tokens === 0) {
      this.#empty(slot)
      return
    }
    slot.prefix = holder
    slot.resident_tokens = resident_tokens
    this.#idle.add(slot)
  }

  /** Takes the slot from its holder and saves its KV (`resident_tokens` of it) as `image`, or discards it. */
  evict(slot: Slot<H>, resident_tokens: number, image: Image | null = null): void {
    this.#letGo(slot)
    this.#pool.letGo(slot.path)
    this.#empty(slot)
    if (image !== null) this.#operations.push({ op: 'save', slot: slot.id, image: image.id, tokens: resident_tokens })
    else if (resident_tokens > 0) this.#truncate(slot, 0)
  }

  /** The idle slot's prefix is forgotten, and its blocks are free. */
  drop(slot: Slot<H>): void {
    invariant(slot.prefix !== null, 'a prefix that is dropped lies in an idle slot')
    this.#giver = null
    this.#empty(slot)
    this.#truncate(slot, 0)
  }

  /** Saves the idle slot's prefix as `image`. Its blocks are free. */
  swapOut(slot: Slot<H>, image: Image): void {
    invariant(slot.resident_tokens === image.stored_tokens, 'all of a prefix is saved')
    this.#giver = null
    this.#empty(slot)
    this.#operations.push({ op: 'save', slot: slot.id, image: image.id, tokens: image.stored_tokens })
  }

  /** Puts the image back as the idle prefix of `prefix`, in free blocks and a spare slot. Null: there are none. */
  swapIn(prefix: H, image: Image): Slot<H> | null {
    const blocks = this.blocksFor(image.stored_tokens)
    if (this.free_blocks < blocks) return null
    this.#giver = null
    const slot = this.#hasEmpty() ? this.#firstEmpty() : this.#idle.spare(null)
    if (slot === null) return null
    if (slot.prefix !== null) this.#shorten(slot, slot.prefix, 0)
    this.#pool.cut(slot.path, 0)
    slot.path = this.#pool.share(null, 0)
    this.#pool.append(slot.path, blocks)
    this.#pool.letGo(slot.path)
    slot.prefix = prefix
    slot.resident_tokens = image.stored_tokens
    this.#idle.add(slot)
    this.#index.add(slot, prefix)
    this.#restore(slot, image)
    return slot
  }

  /** No call gets the blocks of an idle prefix until they are let go. */
  holdIdle({ path }: Slot<H>): void {
    this.#giver = null
    this.#pool.hold(path)
  }

  letGoIdle({ path }: Slot<H>): void {
    this.#giver = null
    this.#pool.letGo(path)
  }

  #restore(slot: Slot<H>, { id, tokens, stored_tokens }: Image): void {
    this.#operations.push({ op: 'restore', slot: slot.id, image: id, tokens: stored_tokens })
    if (tokens < stored_tokens) this.#truncate(slot, tokens)
  }

  #letGo(slot: Slot<H>): H {
    const holder = slot.holder
    invariant(holder !== null, 'only a held slot is let go')
    slot.holder = null
    this.#held_slots -= 1
    this.#giver = null
    return holder
  }

  #empty(slot: Slot<H>): void {
    this.#pool.cut(slot.path, 0)
    this.#idle.delete(slot)
    this.#index.remove(slot)
    slot.prefix = null
    slot.resident_tokens = 0
  }

  #truncate(slot: Slot<H>, tokens: number): void {
    const last = this.#operations.at(-1)
    if (last?.op === 'truncate' && last.slot === slot.id) this.#operations.pop()
    this.#operations.push({ op: 'truncate', slot: slot.id, tokens })
  }

  /** An idle slot goes to `call`, which continues its first `tokens` tokens. */
  #take(slot: Slot<H>, tokens: number, call: H): void {
    const { prefix, resident_tokens } = slot
    this.#empty(slot)
    if (tokens < resident_tokens) this.#truncate(slot, tokens)
    if (prefix !== null && (tokens < resident_tokens || prefix.program !== call.program))
      this.#options.onPrefixLost(prefix)
  }

  /** An empty slot for a claim, that of the first prefix to go if need be. */
  #emptySlot({ call, source, force }: Claim<H>): Slot<H> {
    if (this.#hasEmpty()) return this.#firstEmpty()
    const victim = this.#idle.victimFor(call, source, force)
    invariant(victim !== null, 'a claim finds an open slot')
    this.#shorten(victim, victim.prefix as H, 0)
    return victim
  }

  /** Low slots are preferred because llama.cpp splits a batch at every gap in its ascending slots. */
  #firstEmpty(): Slot<H> {
    const empty = this.slots.find(({ holder, prefix }) => holder === null && prefix === null)
    invariant(empty !== undefined, 'a slot that is counted as empty is')
    return empty
  }

  #hasEmpty(): boolean {
    return this.open_slots > this.#idle.size
  }

  /** Takes blocks off the ends of idle prefixes until this many are free. */
  #free(blocks: number): void {
    while (this.free_blocks < blocks) {
      const victim = this.#giver ?? this.#idle.firstToGo(({ path }) => !this.#pool.isEndHeld(path))
      invariant(victim !== null, 'idle blocks are the end of an idle prefix')
      this.#pool.cutIdle(victim.path, blocks - this.free_blocks)
      this.#shorten(victim, victim.prefix as H, victim.path.blocks * this.block_tokens)
      this.#giver = victim.prefix !== null && !this.#pool.isEndHeld(victim.path) ? victim : null
    }
  }

  /** An idle prefix keeps `tokens` tokens. If they are too few to be matched, it keeps none. */
  #shorten(slot: Slot<H>, prefix: H, tokens: number): void {
    if (tokens < PREFIX_MATCH_TOKENS_MIN) {
      this.#empty(slot)
      this.#truncate(slot, 0)
    } else {
      slot.resident_tokens = tokens
      this.#truncate(slot, tokens)
    }
    this.#options.onPrefixLost(prefix)
  }

  /**
   * A program may cut back its own KV. It may cut another program's only if more of it is kept than lost, and if no call
   * that runs before this one waits for it.
   */
  #isWorthTaking(slot: Slot<H>, match_tokens: number, call: H, force: boolean): boolean {
    if (slot.prefix?.program === call.program) return true
    return match_tokens >= slot.resident_tokens - match_tokens && (force || !this.#idle.isShielded(slot, call))
  }
}
