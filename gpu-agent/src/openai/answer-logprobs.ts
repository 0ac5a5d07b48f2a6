/**
 * Log probabilities on their way to a client: they go out with the text that their tokens became. Text may be held back (it
 * could be the beginning of a stop string, or half a character), and their tokens with it; of what a stop string cuts off
 * nothing is told.
 */
import type { TokenLogprobs } from '../../engine/types.ts'

interface Alternative {
  token: number
  logprob: number
}

export interface TokenReport {
  token: number
  /** Null: of a prompt's first token, which nothing stands before. */
  logprob: number | null
  /** The likeliest tokens, best first. */
  top: readonly Alternative[]
  /** UTF-16 units of the answer before it. */
  offset: number
}

export class AnswerLogprobs {
  #held: TokenReport[] = []
  /** UTF-16 units that were generated, and that went out. */
  #generated = 0
  #sent = 0

  /** `token` was generated or echoed, and completed `text`. `logprobs` is null for a prompt's first. */
  add(token: number, logprobs: TokenLogprobs | null, text: string): void {
    const { logprob, top } = logprobs ?? { logprob: null, top: [] }
    this.#held.push({ token, logprob, top, offset: this.#generated })
    this.#generated += text.length
  }

  /** Another engine generated it, and told of it. */
  replayed(text: string): void {
    this.#generated += text.length
  }

  /** `text` goes out: the tokens that begin in it. */
  sent(text: string): TokenReport[] {
    this.#sent += text.length
    const first_held = this.#held.findIndex(({ offset }) => offset >= this.#sent)
    return this.#held.splice(0, first_held === -1 ? this.#held.length : first_held)
  }

  /** What was generated so far is no text of the answer. */
  skip(): void {
    this.#held = []
    this.#sent = this.#generated
  }

  /** Nothing follows: tokens that became no text. */
  rest(): TokenReport[] {
    return this.#held.splice(0)
  }
}
