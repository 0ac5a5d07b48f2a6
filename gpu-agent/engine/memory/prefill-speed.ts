/**
 * How fast this engine computes prompts: over its steps that compute many prompt tokens, with the later ones weighing more.
 * `switchyard_vllm/prefill_speed.py` is the same for vLLM.
 */

/** Steps that compute fewer prompt tokens tell nothing of how fast prompts are computed. */
export const PREFILL_STEP_TOKENS = 64
/** What a step leaves of the weight of those before it. */
export const SPEED_DECAY = 0.98

export class PrefillSpeed {
  readonly #step_tokens_min: number
  #tokens = 0
  #us = 0

  /** `chunk_tokens`: an engine whose chunks are small has no step with PREFILL_STEP_TOKENS, unless several prompts are in it. */
  constructor(chunk_tokens: number) {
    this.#step_tokens_min = Math.max(1, Math.min(PREFILL_STEP_TOKENS, chunk_tokens - 1))
  }

  /** Null: no prompt was computed so far. */
  get us_per_token(): number | null {
    return this.#tokens === 0 ? null : this.#us / this.#tokens
  }

  /** A step of `calls` calls has computed `tokens` tokens. */
  computed(tokens: number, calls: number, wall_us: number): void {
    if (tokens - calls < this.#step_tokens_min) return
    this.#tokens = this.#tokens * SPEED_DECAY + tokens
    this.#us = this.#us * SPEED_DECAY + wall_us
  }
}
