/**
 * The images of evicted calls: which calls get one, by `handling/swap-choice.ts`, and their total size. An image is never
 * dropped for another, since its call relies on it. Images of programs whose tools run (handling/tool-contexts.ts) share the
 * room.
 */
import { invariant } from '../invariant.ts'
import type { SwapCosts } from '../types.ts'
import { chooseSwap } from './handling/swap-choice.ts'

/** A call's KV outside the slots. Ids are not used twice. */
export interface Image {
  readonly id: number
  /** Those of them that are its call's. */
  readonly tokens: number
  /** All that are in it. */
  readonly stored_tokens: number
}

export interface SwapConfig {
  costs: SwapCosts
  /** Cost of computing a token's KV again, in a prefill of usual length. */
  recompute_us_per_token: number
  /** Tokens in all images together. */
  image_tokens_max: number
}

export class ImageStore {
  readonly #config: SwapConfig | null
  #used_tokens = 0
  #next_id = 0

  /** Null: nothing is ever saved. */
  constructor(config: SwapConfig | null) {
    this.#config = config
  }

  get used_tokens(): number {
    return this.#used_tokens
  }

  /** An image for `tokens` tokens; null if they should be dropped. */
  take(tokens: number): Image | null {
    return this.pays(tokens) ? this.reserve(tokens) : null
  }

  get free_tokens(): number {
    return (this.#config?.image_tokens_max ?? 0) - this.#used_tokens
  }

  /** Whether images are saved at all. */
  get isOpen(): boolean {
    return this.#config !== null
  }

  /** Whether there is room for such an image, and it spares more than it costs. */
  pays(tokens: number): boolean {
    if (this.#config === null) return false
    const { costs, recompute_us_per_token, image_tokens_max } = this.#config
    const free_room = image_tokens_max - this.#used_tokens
    // Steps wait for every copy here: the costs have it.
    const wish = { tokens, wait_tokens: 0, room: tokens, free_room, images: [] }
    return chooseSwap({ ...costs, recompute_us_per_token }, wish).swap
  }

  /** An image for `tokens` tokens, also where it does not pay. Null: there is no room. */
  reserve(tokens: number): Image | null {
    if (this.#config === null || tokens > this.#config.image_tokens_max - this.#used_tokens) return null
    this.#used_tokens += tokens
    return { id: this.#next_id++, tokens, stored_tokens: tokens }
  }

  give(image: Image): void {
    this.#used_tokens -= image.stored_tokens
    invariant(this.#used_tokens >= 0, 'an image is given back once')
  }
}
