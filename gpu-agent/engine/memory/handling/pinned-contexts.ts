/** Contexts that are pinned in their slots, the blocks that they have, and which of them gives way first. */
import { invariant } from '../../invariant.ts'
import type { ScheduledCall } from '../../scheduled-call.ts'
import type { KvCache, Slot } from '../kv-cache.ts'
import { lastNeeded, type ToolContext } from './tool-context.ts'

export class PinnedContexts {
  /** Calls wait for pinned blocks instead of ending pins. */
  readonly firm: boolean
  readonly #kv: KvCache<ScheduledCall>
  readonly #all = new Set<ToolContext>()
  #blocks = 0

  constructor(kv: KvCache<ScheduledCall>, firm: boolean) {
    this.#kv = kv
    this.firm = firm
  }

  get size(): number {
    return this.#all.size
  }

  get blocks(): number {
    return this.#blocks
  }

  pin(context: ToolContext, slot: Slot<ScheduledCall>): void {
    context.slot = slot
    this.#all.add(context)
    this.#blocks += this.#kv.blocksFor(context.tokens)
    if (this.firm) this.#kv.holdIdle(slot)
  }

  unpin(context: ToolContext): void {
    const { slot } = context
    invariant(slot !== null, 'a pin ends once')
    context.slot = null
    this.#all.delete(context)
    this.#blocks -= this.#kv.blocksFor(context.tokens)
    if (this.firm && slot.prefix === context.call) this.#kv.letGoIdle(slot)
  }

  /** Null: none is pinned but in `except`. */
  lastNeeded(except: Slot<ScheduledCall> | null, now_us: number): ToolContext | null {
    const others = Array.from(this.#all).filter(({ slot }) => slot !== except)
    return lastNeeded(others, now_us)
  }
}
