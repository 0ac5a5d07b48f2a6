/**
 * The idle prefixes of the KV cache, the least recently used first, and which of them goes when a call needs its blocks or its
 * slot: in the order of retention.ts.
 */
import type { BlockPool } from './block-pool.ts'
import type { Slot } from './kv-slots.ts'
import type { KvClaimant } from './prefix-match.ts'
import type { Retention } from './retention.ts'

export class IdlePrefixes<H extends KvClaimant> {
  readonly #slots = new Set<Slot<H>>()
  readonly #pool: BlockPool
  readonly #retention: Retention<H>

  constructor(pool: BlockPool, retention: Retention<H>) {
    this.#pool = pool
    this.#retention = retention
  }

  get size(): number {
    return this.#slots.size
  }

  add(slot: Slot<H>): void {
    this.#slots.add(slot)
  }

  delete(slot: Slot<H>): void {
    this.#slots.delete(slot)
  }

  /** Those that are kept for a call, and that no open call holds. */
  kept(): Slot<H>[] {
    return Array.from(this.#slots).filter(
      ({ prefix, path }) => !path.held && this.#retention.keptFor(prefix as H) !== null,
    )
  }

  /** The idle slot other than `except` that is kept for no open call and was used least recently. */
  spare(except: Slot<H> | null): Slot<H> | null {
    for (const slot of this.#slots)
      if (slot !== except && this.#retention.keptFor(slot.prefix as H) === null) return slot
    return null
  }

  /**
   * Among the idle slots that may go, the first in the order of retention. `mayGo` is asked about the call for which a slot
   * is kept, for slots that `canGive`.
   */
  firstToGo(canGive: (slot: Slot<H>) => boolean, mayGo: (kept: H | null) => boolean = () => true): Slot<H> | null {
    const retention = this.#retention
    let first: Slot<H> | null = null
    let first_kept: H | null = null
    for (const slot of this.#slots) {
      if (!canGive(slot)) continue
      const kept = retention.keptFor(slot.prefix as H)
      if (kept !== null && first_kept !== null && retention.outlasts(kept, first_kept) !== false) continue
      if (!mayGo(kept)) continue
      if (kept === null) return slot
      first = slot
      first_kept = kept
    }
    return first
  }

  /**
   * The idle slot that is emptied for a call: one that is not pinned and of which other slots hold the most, then the first
   * in the order of retention.
   */
  victimFor(call: H, except: Slot<H> | null, force: boolean): Slot<H> | null {
    const retention = this.#retention
    const shields = !force && retention.shieldsFrom(call)
    const mayGo = (kept: H | null) => !(shields && kept !== null && retention.isShielded(kept, call))
    for (const slot of this.#slots) {
      if (slot === except || 2 * this.#pool.ownBlocks(slot.path) >= slot.path.blocks) continue
      if (retention.isPinned(slot.prefix as H)) continue
      if (mayGo(retention.keptFor(slot.prefix as H))) return slot
    }
    return this.firstToGo((slot) => slot !== except, mayGo)
  }

  /** Those that are shielded from the call, but for the one that it takes. */
  shieldedFrom(call: H, taken: Slot<H> | null): Slot<H>[] {
    return Array.from(this.#slots).filter((slot) => slot !== taken && !slot.path.held && this.isShielded(slot, call))
  }

  /** Whether the call waits instead of taking what the slot is kept for. */
  isShielded(slot: Slot<H>, call: H): boolean {
    const retention = this.#retention
    const kept = retention.keptFor(slot.prefix as H)
    return kept !== null && retention.isShielded(kept, call)
  }
}
