/**
 * Whose turn it is to ask the actors for all viewers of this isolate, and when. The busier the actors are, the longer a refresh
 * takes, and the longer the next one waits: watching calls must not slow them down.
 */

/** A viewer that left while it asked is not waited for any longer than this. */
const REFRESH_MS_MAX = 5_000
/** A refresh takes one part of the time in so many. */
export const REFRESH_PARTS = 10
/** Where the actors are slow, a page is at most this old. */
export const REFRESH_EVERY_MS_MAX = 5_000

export class RefreshTurn {
  #taken_ms = Number.NEGATIVE_INFINITY
  /** Null: somebody is asking. */
  #took_ms: number | null = 0

  /** True: the caller has the turn, and says when it has done. */
  take(now_ms: number, every_ms: number): boolean {
    const since_ms = now_ms - this.#taken_ms
    if (this.#took_ms === null) {
      if (since_ms < REFRESH_MS_MAX) return false
    } else {
      const slow_ms = Math.min(this.#took_ms * REFRESH_PARTS, REFRESH_EVERY_MS_MAX)
      // A viewer's own ticks are a little less than a second apart at times.
      if (since_ms < Math.max(every_ms, slow_ms) * 0.9) return false
    }
    this.#taken_ms = now_ms
    this.#took_ms = null
    return true
  }

  done(now_ms: number): void {
    this.#took_ms = Math.max(0, now_ms - this.#taken_ms)
  }
}
