/**
 * How long programs of one class stay away while their tools run, and for how long it pays to hold their contexts.
 *
 * Each time that a program is away is looked at in bins of time, four to a factor of four. A bin knows for how long programs
 * were away in it, and how many came back in it. If recomputing a context costs as much as holding it for `buy_us`, then
 * holding every context until `t` gains
 *
 *     G(t) = Σ over bins up to t of (returns · buy_us − time away)
 *
 * against holding none, and the best t is where G is largest. Programs that are away right now count for as long as they
 * have been, so what has ended without a word shows before its time is over. With nothing known all contexts are held for
 * `buy_us`: rent or buy (hold-time.ts). If programs come back within a second or not at all, they are held for little more
 * than a second. If most do not come back in time, none is held.
 */

/** Upper ends of bins: BIN_MIN_US · √2^bin, each twice that of two bins before, so that every language has the same. */
const BIN_MIN_US = 1_000
const BINS = 36
const BIN_ENDS_US = Array.from(
  { length: BINS },
  (_, bin) => BIN_MIN_US * 2 ** Math.floor(bin / 2) * (bin % 2 === 0 ? 1 : Math.SQRT2),
)
/** What a program leaves of the weight of those before it. */
export const RETURN_DECAY = 0.99
/** What is assumed counts like so many programs. They come back at twice the rate at which holding starts to pay. */
const PRIOR_PROGRAMS = 2

export class ReturnTimes {
  readonly #returns = new Float64Array(BINS)
  readonly #away_us = new Float64Array(BINS)

  /** A program came back after so long, or it had not come back when it was given up. */
  seen(away_us: number, returned: boolean): void {
    for (let bin = 0; bin < BINS; bin++) {
      this.#returns[bin] = (this.#returns[bin] as number) * RETURN_DECAY
      this.#away_us[bin] = (this.#away_us[bin] as number) * RETURN_DECAY
    }
    const last = addTime(this.#away_us, away_us)
    if (returned) this.#returns[last] = (this.#returns[last] as number) + 1
  }

  /** The best time to hold for, up to `buy_us`. `away`: the programs that are away at `now_us`. */
  bestUs(buy_us: number, away: AwayPrograms, now_us: number): number {
    const away_us = away.binsAt(now_us)
    let gain = 0
    let best_gain = 0
    let best_us = 0
    let from_us = 0
    for (let bin = 0; bin < BINS && from_us < buy_us; bin++) {
      const end_us = Math.min(BIN_ENDS_US[bin] as number, buy_us)
      const returns = this.#returns[bin] as number
      gain += returns * buy_us - (this.#away_us[bin] as number) - (away_us[bin] as number)
      gain += PRIOR_PROGRAMS * (end_us - from_us)
      if (gain >= best_gain) {
        best_gain = gain
        best_us = end_us
      }
      from_us = end_us
    }
    return best_us
  }
}

/**
 * Since when the programs of a class that are away have been so. Each is looked at once for the bins of all, and only as a
 * difference: some microseconds for a thousand.
 */
export class AwayPrograms {
  /** Ascending. Whole microseconds. */
  readonly #since_us: number[] = []

  add(since_us: number): void {
    this.#since_us.splice(this.#countUntil(since_us), 0, since_us)
  }

  remove(since_us: number): void {
    const at = this.#countUntil(since_us) - 1
    if (this.#since_us[at] === since_us) this.#since_us.splice(at, 1)
  }

  /** The time that they have been away, by the bins through which it goes. */
  binsAt(now_us: number): Float64Array {
    const bins = new Float64Array(BINS)
    let from_us = 0
    // Those before `later` have been away for at least `from_us`.
    let later = this.#since_us.length
    for (let bin = 0; bin < BINS && later > 0; bin++) {
      const end_us = BIN_ENDS_US[bin] as number
      let longer = later
      let sum_us = 0
      while (longer > 0 && now_us - (this.#since_us[longer - 1] as number) < end_us) {
        longer -= 1
        sum_us += now_us - (this.#since_us[longer] as number)
      }
      bins[bin] = sum_us - (later - longer) * from_us + longer * (end_us - from_us)
      later = longer
      from_us = end_us
    }
    return bins
  }

  /** How many have been away since then or longer. */
  #countUntil(since_us: number): number {
    let least = 0
    let most = this.#since_us.length
    while (least < most) {
      const middle = (least + most) >> 1
      if ((this.#since_us[middle] as number) <= since_us) least = middle + 1
      else most = middle
    }
    return least
  }
}

/** Adds a time to the bins through which it goes. Returns the last of them. */
function addTime(bins: Float64Array, us: number): number {
  let from_us = 0
  for (let bin = 0; bin < BINS; bin++) {
    const end_us = BIN_ENDS_US[bin] as number
    bins[bin] = (bins[bin] as number) + Math.min(us, end_us) - from_us
    if (us < end_us) return bin
    from_us = end_us
  }
  return BINS - 1
}
