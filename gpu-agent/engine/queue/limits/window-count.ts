/**
 * What of a limit is used, counted here. Pure: each method takes the time.
 *
 * `SlidingWindow` lets no more than the limit through in any window of its length, wherever it begins. So neither a fixed window
 * nor a token bucket of that size refuses what it lets through, and work that waits uses at least 0.98 of the limit. What was taken
 * counts in slots of a SLOTS-th of the window until the whole slot has left it, and for MARGIN of a window more (at least MARGIN_US_MIN),
 * since calls reach a provider sooner or later than they were sent.
 *
 * `TokenBucket` is for a provider that has been seen to refill evenly: then half of a minute brings half of its limit.
 */

export const SLOTS = 256
const MARGIN = 1 / 256
const MARGIN_US_MIN = 50_000

export interface WindowSize {
  amount: number
  window_us: number
}

interface Slot {
  number: number
  amount: number
}

export class SlidingWindow {
  readonly window_us: number
  readonly #slot_us: number
  /** The oldest first. */
  readonly #slots: Slot[] = []
  #used = 0

  constructor(window_us: number) {
    this.window_us = window_us
    this.#slot_us = window_us / SLOTS
  }

  used(now_us: number): number {
    for (let oldest = this.#slots[0]; oldest !== undefined; oldest = this.#slots[0]) {
      if (this.#leavesAt(oldest) > now_us) break
      this.#used -= oldest.amount
      this.#slots.shift()
    }
    if (this.#slots.length === 0) this.#used = 0
    return this.#used
  }

  take(amount: number, now_us: number): void {
    const number = Math.floor(now_us / this.#slot_us)
    const last = this.#slots.at(-1)
    // A clock that went back takes nothing out of the window early.
    if (last !== undefined && last.number >= number) last.amount += amount
    else this.#slots.push({ number, amount })
    this.#used += amount
  }

  /** What was taken at `taken_us` was less or more. What has left the window stays as it was. */
  correct(by: number, taken_us: number): void {
    const number = Math.floor(taken_us / this.#slot_us)
    const slot = this.#slots.find((one) => one.number >= number)
    if (slot === undefined) return
    const corrected = Math.max(0, slot.amount + by)
    this.#used += corrected - slot.amount
    slot.amount = corrected
  }

  /** When no more than `amount` is used, if nothing more is taken. */
  freeAtUs(amount: number, now_us: number): number {
    let used = this.used(now_us)
    if (used <= amount) return now_us
    for (const slot of this.#slots) {
      used -= slot.amount
      if (used <= amount) return this.#leavesAt(slot)
    }
    return now_us
  }

  clear(): void {
    this.#slots.length = 0
    this.#used = 0
  }

  #leavesAt({ number }: Slot): number {
    return (number + 1) * this.#slot_us + this.window_us + Math.max(MARGIN_US_MIN, this.window_us * MARGIN)
  }
}

export class TokenBucket {
  readonly #size: WindowSize
  #level: number
  #at_us: number

  constructor(size: WindowSize, level: number, now_us: number) {
    this.#size = size
    this.#level = Math.min(size.amount, level)
    this.#at_us = now_us
  }

  /** `share`: of the refill that is ours. */
  level(share: number, now_us: number): number {
    const { amount, window_us } = this.#size
    const gained = (Math.max(0, now_us - this.#at_us) * amount * share) / window_us
    this.#level = Math.min(amount, this.#level + gained)
    this.#at_us = Math.max(this.#at_us, now_us)
    return this.#level
  }

  change(by: number): void {
    this.#level = Math.min(this.#size.amount, this.#level + by)
  }

  set(level: number): void {
    this.#level = Math.min(this.#size.amount, level)
  }

  untilUs(needed: number, share: number, now_us: number): number {
    const { amount, window_us } = this.#size
    const missing = needed - this.level(share, now_us)
    return missing <= 0 ? 0 : (missing * window_us) / (amount * share)
  }
}
