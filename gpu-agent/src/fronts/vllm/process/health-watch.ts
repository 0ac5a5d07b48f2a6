/**
 * Asks a vLLM's /health from time to time, one question at a time and without holding anybody up. Silence counts from the first
 * question that was not answered well, so a pause of the agent itself is not taken for one of vLLM.
 */
import { askHealth } from '../../attached/ask-server.ts'

/** Its API process answers in milliseconds however busy the engine is. */
export const HEALTH_SILENCE_MS_MAX = 120_000
/** A vLLM whose engine has died ends by itself; longer than this it hangs in doing so. */
export const BROKEN_MS_MAX = 10_000
const HEALTH_MS = 5000

export interface HealthTimes {
  health_ms: number
  silence_ms_max: number
  broken_ms_max: number
}

export const HEALTH_TIMES: HealthTimes = {
  health_ms: HEALTH_MS,
  silence_ms_max: HEALTH_SILENCE_MS_MAX,
  broken_ms_max: BROKEN_MS_MAX,
}

export class HealthWatch {
  readonly #url: string
  readonly #times: HealthTimes
  #asked_ms: number
  #asking = false
  /** Of the first question since the last good answer. */
  #unanswered_ms: number | null = null
  #broken_ms: number | null = null

  constructor(url: string, times: HealthTimes) {
    this.#url = url
    this.#times = times
    this.#asked_ms = performance.now()
  }

  /** Called often. What is wrong for longer than it may be, or null. */
  look(): 'silent' | 'broken' | null {
    const now_ms = performance.now()
    const { health_ms, silence_ms_max, broken_ms_max } = this.#times
    if (!this.#asking && now_ms - this.#asked_ms >= health_ms) void this.#ask(now_ms)
    if (this.#broken_ms !== null && now_ms - this.#broken_ms > broken_ms_max) return 'broken'
    return this.#unanswered_ms !== null && now_ms - this.#unanswered_ms > silence_ms_max ? 'silent' : null
  }

  async #ask(now_ms: number): Promise<void> {
    this.#asking = true
    this.#asked_ms = now_ms
    this.#unanswered_ms ??= now_ms
    const health = await askHealth(this.#url)
    this.#asking = false
    if (health === 'ok') {
      this.#unanswered_ms = null
      this.#broken_ms = null
    } else if (health === 'broken') this.#broken_ms ??= performance.now()
  }
}
