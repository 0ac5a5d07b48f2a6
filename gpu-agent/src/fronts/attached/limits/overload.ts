/**
 * How many calls a provider takes at once, where nobody says: as many as the limits let through, until it says that it is
 * overloaded (529, 503) or has too many at once. Then DECREASE of what it had, and more with time. Pure.
 */
import { CONCURRENT_MAX } from '../../../../engine/queue/limits/limit-spec.ts'

const DECREASE = 0.7
/** One overload is told by many calls. */
const SETTLES_US = 1_000_000
const GROWS_US = 2_000_000
const GROWTH = 0.05

export class Overload {
  readonly #max: number
  #limit: number
  #at_us = Number.NEGATIVE_INFINITY

  /** `max`: the operator's, or null. */
  constructor(max: number | null) {
    this.#max = max ?? CONCURRENT_MAX
    this.#limit = this.#max
  }

  limit(now_us: number): number {
    const steps = Math.floor((now_us - this.#at_us) / GROWS_US)
    if (this.#limit < this.#max && steps >= 1) {
      for (let step = 0; step < steps && this.#limit < this.#max; step++) {
        this.#limit = Math.min(this.#max, this.#limit + Math.max(1, Math.floor(this.#limit * GROWTH)))
      }
      this.#at_us += steps * GROWS_US
    }
    return this.#limit
  }

  /** `open`: calls that it had. */
  refused(open: number, now_us: number): void {
    if (now_us - this.#at_us < SETTLES_US) return
    this.#limit = Math.max(1, Math.floor(Math.min(this.limit(now_us), open) * DECREASE))
    this.#at_us = now_us
  }
}
