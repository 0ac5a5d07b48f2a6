/** Slots of the KV cache, and what a call asks of it and gets (kv-cache.ts). */
import type { BlockPath } from './block-pool.ts'
import type { Image } from './image-store.ts'
import type { KvClaimant, PrefixMatch, Resident } from './prefix-match.ts'

export interface Slot<H extends KvClaimant> extends Resident<H> {
  readonly id: number
  /** Its blocks: a holder's reservation, or those of an idle prefix. */
  path: BlockPath
}

/** What is resident for a call without a slot: the first `tokens` of its tokens, in `source`. */
export interface Match<H extends KvClaimant> extends PrefixMatch<Slot<H>> {
  /** True: the call continues in `source`. False: it gets another slot and a copy. */
  takes: boolean
}

/** A claim in progress. The blocks that it shares cannot be taken from it. It must be completed or abandoned. */
export interface Claim<H extends KvClaimant> extends Match<H> {
  call: H
  path: BlockPath
  /** Blocks that it lacks. */
  missing_blocks: number
  image: Image | null
  force: boolean
  /** Idle slots whose blocks it may not take: held until it is completed or abandoned. */
  shielded: readonly Slot<H>[]
  /** Theirs, held until the claim ends. By then a slot may have been emptied, and have another path. */
  shielded_paths: readonly BlockPath[]
}

export interface ClaimOptions {
  image?: Image | null
  /** Copies from open calls, too. */
  live?: boolean
  /** No prefix is shielded from the call, since no other call could advance. */
  force?: boolean
}
