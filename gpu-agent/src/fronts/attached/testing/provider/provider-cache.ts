/**
 * A provider's prompt cache: prefixes of prompts that came lately, found in steps of CACHE_STEP_TOKENS from `min_tokens` on, alive
 * for `life_s` after their last use. Bounded: the prompt that was used longest ago goes first.
 */
import { tokensOf } from './provider-answers.ts'

const CACHE_STEP_TOKENS = 128
const PROMPTS_MAX = 512

export class PromptCache {
  readonly #min_tokens: number
  readonly #life_s: number
  /** Prompt → when it was last used; the oldest first. */
  readonly #prompts = new Map<string, number>()

  constructor(min_tokens: number, life_s: number) {
    this.#min_tokens = min_tokens
    this.#life_s = life_s
  }

  /** Tokens of the prompt that are found, which it adds itself. */
  use(prompt: string, now_s: number): number {
    let bytes = 0
    for (const [known, at_s] of this.#prompts) {
      if (now_s - at_s > this.#life_s) this.#prompts.delete(known)
      else bytes = Math.max(bytes, sharedLength(known, prompt))
    }
    this.#prompts.delete(prompt)
    this.#prompts.set(prompt, now_s)
    for (const oldest of this.#prompts.keys()) {
      if (this.#prompts.size <= PROMPTS_MAX) break
      this.#prompts.delete(oldest)
    }
    const tokens = Math.floor(tokensOf(prompt.slice(0, bytes)) / CACHE_STEP_TOKENS) * CACHE_STEP_TOKENS
    return tokens < this.#min_tokens ? 0 : Math.min(tokens, tokensOf(prompt) - 1)
  }
}

function sharedLength(one: string, other: string): number {
  const most = Math.min(one.length, other.length)
  let low = 0
  let high = most
  while (low < high) {
    const middle = Math.ceil((low + high) / 2)
    if (one.startsWith(other.slice(0, middle))) low = middle
    else high = middle - 1
  }
  return low
}
