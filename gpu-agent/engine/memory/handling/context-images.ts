/**
 * Images of contexts, and which of them give way to another one: of its tenant's programs those that are expected to be away
 * for longer, and those of a tenant whose images take more for its weight.
 */
import { invariant } from '../../invariant.ts'
import type { ScheduledCall } from '../../scheduled-call.ts'
import type { Image, ImageStore } from '../image-store.ts'
import type { KvCache } from '../kv-cache.ts'
import { heldFor, lastNeeded, leftUs, type ToolContext } from './tool-context.ts'

export class ContextImages {
  readonly #kv: KvCache<ScheduledCall>
  readonly #store: ImageStore
  readonly #imaged = new Set<ToolContext>()

  constructor(kv: KvCache<ScheduledCall>, store: ImageStore) {
    this.#kv = kv
    this.#store = store
  }

  /** An image for all of the context. Null: there is no room. */
  reserve(context: ToolContext): Image | null {
    const image = this.#store.reserve(context.tokens)
    if (image === null) return null
    context.image = image
    this.#imaged.add(context)
    return image
  }

  /** The image is a call's from now on. */
  givesAway(context: ToolContext): void {
    context.image = null
    this.#imaged.delete(context)
  }

  drop(context: ToolContext): void {
    const { image } = context
    invariant(image !== null, 'an image that is dropped exists')
    this.#kv.dropImage(image)
    this.#store.give(image)
    this.givesAway(context)
  }

  /** Drops images for one of `call`, until there is room for so many tokens. Returns those whose images were dropped. */
  makeRoom(tokens: number, { call: { tenant } }: ScheduledCall, left_us: number, now_us: number): ToolContext[] {
    const dropped: ToolContext[] = []
    while (this.#store.isOpen && this.#store.free_tokens < tokens) {
      const imaged = Array.from(this.#imaged)
      const own = imaged.filter(({ call }) => call.call.tenant === tenant)
      const first = lastNeeded(imaged, now_us)
      const is_others = first !== null && first.call.call.tenant !== tenant && heldFor(imaged, first) > heldFor(own)
      const away = own.filter(({ slot }) => slot === null)
      const last = is_others ? first : lastNeeded(away, now_us)
      if (last === null || (!is_others && leftUs(last, now_us) <= left_us)) return dropped
      this.drop(last)
      dropped.push(last)
    }
    return dropped
  }
}
