/**
 * One limit of a provider, as this agent counts it and as the provider tells it. Pure: each method takes the time.
 *
 * Own count: what this agent has let through (window-count.ts). It is a sliding window until three answers in a row told a reset
 * that only a token bucket has (what is used ÷ the limit × the window). From then on it is a bucket, set by what answers tell.
 *
 * The provider's word, `remaining`, is a cap on that: another user of the key takes from the same limit. It may be wrong. A cap
 * that stops work is tried with one call, after TRIAL of a window or half of the time in which a bucket has room for it. When it goes
 * through although no bucket could have had room, the header was wrong, and after LIES_MAX of those it is not read any more. When it
 * is refused, the next trial comes after twice the time. Limits of an hour and more are tried after TRIAL, and also where only the own
 * count stops work, since a provider's day may end before ours. Each of their trials that goes through proves a header wrong.
 *
 * After a refusal calls go for a window as a bucket would be refilled, beginning with what there is room for when the provider says.
 *
 * Shares: several agents with one key cannot talk to each other. Each takes a share of the limit: less by DECREASE when others are
 * seen to use it and little is left, or a call is refused for which there was room by all that is known, and more by INCREASE with
 * time. Such shares become equal (Chiu and Jain, 1989: additive increase, multiplicative decrease).
 */
import { DAY_US, type LimitSpec, MINUTE_US, type Quantity } from './limit-spec.ts'
import { SlidingWindow, TokenBucket } from './window-count.ts'

export const BUCKET_ANSWERS = 3
export const LIES_MAX = 2
const TRIAL = 1 / 60
const TRIAL_MAX = 1 / 2
const TRIAL_DOUBLINGS_MAX = 32
/** Windows from which a provider's end may come before ours. */
const LONG_US = 3600 * 1_000_000
const DECREASE = 0.85
const INCREASE = 0.01
/** Of the window: shares grow once in the first, and shrink at most once in the second. */
const SHARE_STEP = 1 / 12
const SHRINK_STEP = 1 / 4
const SHARE_MIN = 1 / 64
/** Of the limit: others use more than that. Tokens are estimated, and differ from the provider's count by themselves. */
const OTHERS_MIN: Readonly<Record<Quantity, number>> = { requests: 0.1, input: 0.25, output: 0.25, tokens: 0.25 }
const LITTLE_LEFT = 0.08
/** Of the limit: where others take from it too, what answers tell is old by what they took since. */
const RESERVE = 0.04
/** Of the window (RESET_NEAR_US at most) and of the reset: how far a told reset may be from a bucket's. */
const RESET_NEAR = 0.02
const RESET_NEAR_US = 1_200_000
const WINDOWS_US = [MINUTE_US, LONG_US, DAY_US]

export type WindowedLimit = LimitSpec & { quantity: Quantity; window_us: number }

/** What an answer says of one limit. Null: nothing that can be meant. */
export interface LimitNews {
  amount: number | null
  remaining: number | null
  reset_us: number | null
}

/** When so much fits: at once (0), after a time, or never (Infinity). */
export type WaitUs = number

export class ProviderLimit {
  /** Its amount is the smallest of the operator's and the provider's. */
  readonly spec: WindowedLimit
  readonly #by_operator: boolean
  #own: SlidingWindow
  #bucket: TokenBucket | null = null
  /** By window: answers that only a bucket gives, since the first of them, whose reset was at `first_us`. */
  readonly #bucket_answers = new Map<number, { answers: number; first_us: number }>()
  readonly #window_told: boolean
  /** The provider's word, and until when it counts. */
  #cap: { left: number; until_us: number } | null = null
  /** What a provider that tells the truth and refills evenly has at most. Null: it has told nothing. */
  #most: TokenBucket | null = null
  /** Of a long window: when the provider says that it is unused again. */
  #resets_at_us: number | null = null
  #lies = 0
  #trial_at_us: number | null = null
  /** Of the pause before a trial, since trials were refused. */
  #trial_doublings = 0
  /** The last trial was of more than `#most`, or of a window so long that there are few trials. */
  #trial_proves = false
  #blocked_until_us = Number.NEGATIVE_INFINITY
  /** What there is room for after a refusal: a provider may refill evenly. Null: none was refused for a window. */
  #refilled: { until_us: number; bucket: TokenBucket } | null = null
  #share = 1
  #share_at_us: number | null = null
  #shrunk_us = Number.NEGATIVE_INFINITY
  #others = false

  /** `by`: what the provider tells makes an operator's limit smaller only. `guess`: its window is one. */
  constructor(spec: WindowedLimit, by: 'operator' | 'provider' | 'guess') {
    this.spec = { ...spec }
    this.#by_operator = by === 'operator'
    this.#window_told = by !== 'guess'
    this.#own = new SlidingWindow(spec.window_us)
  }

  /** Of the limit that this agent takes. */
  get share(): number {
    return this.#share
  }

  /** Others have been seen to use the limit. */
  get others(): boolean {
    return this.#others
  }

  /** What the provider tells is not read any more: it was wrong. */
  get distrusted(): boolean {
    return this.#lies >= LIES_MAX
  }

  get isBucket(): boolean {
    return this.#bucket !== null
  }

  /** What may be taken now. */
  room(now_us: number): number {
    this.#grow(now_us)
    if (now_us < this.#blocked_until_us) return 0
    const refilled = this.#refill(now_us)?.level(this.#share, now_us) ?? Number.POSITIVE_INFINITY
    return Math.max(0, Math.min(this.#ownRoom(now_us), this.#capped(now_us), refilled) - this.#reserve)
  }

  get #reserve(): number {
    return this.#others ? this.spec.amount * RESERVE : 0
  }

  waitUs(needed: number, now_us: number): WaitUs {
    if (needed > this.spec.amount) return Number.POSITIVE_INFINITY
    this.#grow(now_us)
    const own_us = this.#ownWaitUs(needed, now_us)
    const capped_us = this.#capped(now_us) >= needed + this.#reserve ? 0 : (this.#cap?.until_us ?? now_us) - now_us
    const blocked_us = Math.max(0, this.#blocked_until_us - now_us)
    const refilled_us = this.#refill(now_us)?.untilUs(needed, this.#share, now_us) ?? 0
    const wait_us = Math.max(own_us, capped_us, blocked_us, refilled_us)
    if (wait_us === 0) this.#trial_at_us = null
    return wait_us === 0 ? 0 : this.#tried(needed, wait_us, own_us > 0 && this.spec.window_us < LONG_US, now_us)
  }

  /** Until so much has fitted, in pieces that are smaller than the limit. */
  drainUs(amount: number, now_us: number): number {
    const missing = amount - this.room(now_us)
    const blocked_us = Math.max(0, this.#blocked_until_us - now_us)
    return Math.max(blocked_us, (missing * this.spec.window_us) / (this.spec.amount * this.#share))
  }

  /** True: there was no room for it by what is known, and its answer shows whether that is so. */
  take(amount: number, now_us: number): boolean {
    const trial = this.#trial_at_us !== null && now_us >= this.#trial_at_us
    if (trial) {
      this.#trial_at_us = now_us + this.#trialPause(amount)
      const isLong = this.spec.window_us >= LONG_US
      this.#trial_proves = isLong || (this.#most !== null && this.#most.level(1, now_us) < amount)
    }
    this.#own.take(amount, now_us)
    for (const bucket of [this.#bucket, this.#most, this.#refilled?.bucket]) bucket?.change(-amount)
    if (this.#cap !== null) this.#cap.left -= amount
    return trial
  }

  /** What was taken at `taken_us` was so much more, or less. */
  correct(by: number, taken_us: number): void {
    this.#own.correct(by, taken_us)
    for (const bucket of [this.#bucket, this.#most, this.#refilled?.bucket]) bucket?.change(-by)
    if (this.#cap !== null) this.#cap.left -= by
  }

  /** A call for which there was no room by what is known has been let in. */
  trialWentThrough(now_us: number): void {
    this.#trial_doublings = 0
    if (this.#capped(now_us) <= 0) {
      if (!this.#trial_proves) return
      this.#lies += 1
      this.#cap = null
      if (!this.distrusted) return
      // It told of others too.
      this.#share = 1
      this.#others = false
    } else if (this.spec.window_us >= LONG_US) this.#own.clear()
  }

  /**
   * What an answer says. `open`: taken by calls that the provider had not counted when it wrote that. `late_us`: how long ago that
   * may be.
   */
  heard(
    { amount: told, remaining, reset_us }: LimitNews,
    { open, late_us }: { open: number; late_us: number },
    now_us: number,
  ): void {
    if (told !== null) this.#amountIs(told)
    if (remaining === null || this.distrusted) return
    const amount = told ?? this.spec.amount
    if (amount === this.spec.amount) this.#learnShape(remaining, reset_us, late_us, now_us)
    const { window_us } = this.spec
    const left = Math.min(remaining, amount) - open
    const until_us = now_us + Math.min(reset_us ?? window_us, window_us)
    if (reset_us !== null && window_us >= LONG_US) this.#resets_at_us = until_us
    this.#bucket?.set(left)
    this.#cap = this.#bucket === null ? { left, until_us } : null
    this.#toldLeft(left, { late_us, now_us })
    const used = this.#own.used(now_us)
    const by_others = amount - remaining - Math.max(0, used - open)
    if (by_others < amount * OTHERS_MIN[this.spec.quantity]) return
    this.#others = true
    if (remaining < amount * LITTLE_LEFT) this.#shrink(now_us)
  }

  /** The provider refused a call of `amount` for this limit, which counts no longer. `until_us`: by its word, or a guess. */
  refused(amount: number, trial: boolean, until_us: number, now_us: number): void {
    const surprise = !trial && this.#ownRoom(now_us) > 0 && this.#capped(now_us) > 0
    if (trial) this.#trial_doublings = Math.min(TRIAL_DOUBLINGS_MAX, this.#trial_doublings + 1)
    this.#blocked_until_us = Math.max(this.#blocked_until_us, until_us)
    this.#bucket?.set(0)
    if (this.spec.window_us >= LONG_US) this.#resets_at_us = until_us
    else if (this.#bucket === null) this.#refilled = this.#refilledAt(until_us, amount, now_us)
    if (surprise) this.#shrink(now_us)
  }

  /**
   * Calls that are on their way together are refused together. If all went again at `until_us`, most would be refused again. Of a
   * fixed window that ends then, an agent takes a little more than it had of the one before.
   */
  #refilledAt(until_us: number, amount: number, now_us: number): { until_us: number; bucket: TokenBucket } {
    const { amount: size, window_us } = this.spec
    const gained = ((until_us - now_us) * size) / window_us
    const had = this.#own.used(now_us) + (size * INCREASE) / SHARE_STEP
    const level = Math.max(amount, Math.min(gained, had))
    return { until_us: until_us + window_us, bucket: new TokenBucket(this.spec, level, until_us) }
  }

  #refill(now_us: number): TokenBucket | null {
    if (this.#refilled !== null && now_us >= this.#refilled.until_us) this.#refilled = null
    return this.#refilled?.bucket ?? null
  }

  #toldLeft(left: number, { late_us, now_us }: { late_us: number; now_us: number }): void {
    if (left > 0) this.#lies = 0
    const gained = (late_us * this.spec.amount) / this.spec.window_us
    // A part of a request that is left is told as none.
    const most = Math.max(0, left) + 1 + gained
    if (this.#most === null) this.#most = new TokenBucket(this.spec, most, now_us)
    else this.#most.set(Math.min(most, this.#most.level(1, now_us)))
  }

  #amountIs(told: number): void {
    const { amount } = this.spec
    if (told === amount || (this.#by_operator && told > amount)) return
    this.spec.amount = told
    this.#bucket = null
    this.#most = null
    this.#refilled = null
    this.#bucket_answers.clear()
  }

  #ownRoom(now_us: number): number {
    const { amount } = this.spec
    if (this.#resets_at_us !== null && now_us >= this.#resets_at_us) {
      this.#resets_at_us = null
      this.#own.clear()
    }
    if (this.#bucket !== null) return this.#bucket.level(this.#share, now_us)
    return amount * this.#share - this.#own.used(now_us)
  }

  #ownWaitUs(needed: number, now_us: number): number {
    const { amount } = this.spec
    if (this.#bucket !== null)
      return this.#bucket.untilUs(Math.min(amount, needed + this.#reserve), this.#share, now_us)
    if (this.#ownRoom(now_us) >= needed) return 0
    // A call that is larger than the share goes when nothing else is counted.
    const most = Math.max(0, amount * this.#share - needed)
    const free_us = this.#own.freeAtUs(most, now_us)
    return Math.min(free_us, this.#resets_at_us ?? free_us) - now_us
  }

  #capped(now_us: number): number {
    if (this.#cap !== null && now_us >= this.#cap.until_us) this.#cap = null
    return this.#cap?.left ?? Number.POSITIVE_INFINITY
  }

  /** Half of the time in which a bucket is refilled for it, so that a call that goes through tells more than that. */
  #trialPause(needed: number): number {
    const { amount, window_us } = this.spec
    const refill_us = window_us >= LONG_US ? window_us : (window_us * needed) / amount
    const pause_us = Math.min(window_us * TRIAL, refill_us / 2)
    return Math.min(pause_us * 2 ** this.#trial_doublings, window_us * TRIAL_MAX)
  }

  /** `certain`: our own count says so, and providers' windows are no shorter. */
  #tried(needed: number, wait_us: number, certain: boolean, now_us: number): number {
    if (certain || now_us < this.#blocked_until_us) return wait_us
    this.#trial_at_us ??= now_us + this.#trialPause(needed)
    const trial_us = Math.max(0, this.#trial_at_us - now_us)
    // A call is told of a day that is used up at once, and the next one after the pause is the trial.
    return trial_us > 0 && this.spec.window_us >= LONG_US ? wait_us : Math.min(wait_us, trial_us)
  }

  /**
   * The window of which so many answers in a row had the reset of a bucket. An answer whose reset is the same instant as the first
   * one's proves nothing: a fixed window that is used up at once looks alike.
   */
  #learnShape(remaining: number, reset_us: number | null, late_us: number, now_us: number): void {
    const { amount, window_us } = this.spec
    if (this.#bucket !== null || reset_us === null || remaining >= amount) return
    const at_us = now_us - late_us + reset_us
    for (const window of this.#window_told ? [window_us] : [window_us, ...WINDOWS_US]) {
      const refilled_us = ((amount - remaining) / amount) * window
      const near_us = Math.max(Math.min(window * RESET_NEAR, RESET_NEAR_US), refilled_us * RESET_NEAR)
      // An instant that is told is nearer by the time that the answer took.
      const isBucket = reset_us <= refilled_us + near_us && reset_us >= refilled_us - near_us - late_us
      const before = isBucket ? this.#bucket_answers.get(window) : undefined
      const { answers, first_us } = before ?? { answers: 0, first_us: at_us }
      const moved = isBucket && Math.abs(at_us - first_us) > 2 * near_us + late_us
      this.#bucket_answers.set(window, { answers: answers + (moved ? 1 : 0), first_us })
      if (answers + (moved ? 1 : 0) >= BUCKET_ANSWERS) {
        this.#isBucketOf(window, now_us)
        return
      }
    }
  }

  #isBucketOf(window_us: number, now_us: number): void {
    const { amount } = this.spec
    this.#bucket = new TokenBucket({ amount, window_us }, 0, now_us)
    this.#refilled = null
    if (window_us === this.spec.window_us) return
    this.spec.window_us = window_us
    this.#own = new SlidingWindow(window_us)
  }

  #shrink(now_us: number): void {
    if (now_us - this.#shrunk_us < this.spec.window_us * SHRINK_STEP) return
    this.#shrunk_us = now_us
    this.#share_at_us = now_us
    this.#share = Math.max(SHARE_MIN, this.#share * DECREASE)
  }

  #grow(now_us: number): void {
    const step_us = this.spec.window_us * SHARE_STEP
    const since_us = now_us - (this.#share_at_us ?? now_us)
    this.#share_at_us ??= now_us
    const steps = Math.floor(since_us / step_us)
    if (steps <= 0) return
    this.#share_at_us += steps * step_us
    this.#share = Math.min(1, this.#share + steps * INCREASE)
  }
}
