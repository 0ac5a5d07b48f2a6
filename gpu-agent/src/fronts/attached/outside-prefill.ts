/**
 * How fast a server computes prompts, as seen from outside. The time to the first token is its waiting there and its prefill, so
 * the calls that had it soonest for their uncached tokens tell most. QUANTILE of the last calls counts.
 */

/** Calls with fewer uncached tokens tell of other things. */
export const UNCACHED_TOKENS_MIN = 32
const CALLS_MAX = 64
const QUANTILE = 0.2

export class OutsidePrefill {
  readonly #us_per_token: number[] = []

  /** Null: no call has told. */
  get us_per_token(): number | null {
    const sorted = this.#us_per_token.toSorted((a, b) => a - b)
    return sorted[Math.floor(sorted.length * QUANTILE)] ?? null
  }

  /** A call's time to its first token at the server. */
  seen(ttft_us: number, uncached_tokens: number): void {
    if (uncached_tokens < UNCACHED_TOKENS_MIN) return
    this.#us_per_token.push(ttft_us / uncached_tokens)
    if (this.#us_per_token.length > CALLS_MAX) this.#us_per_token.shift()
  }

  /** How much of its time to the first token a call spent in prefill. */
  prefillUs(ttft_us: number, uncached_tokens: number): number {
    const us_per_token = this.us_per_token
    return us_per_token === null ? 0 : Math.min(ttft_us, Math.round(uncached_tokens * us_per_token))
  }
}
