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

/** Upper ends of bins: BIN_MIN_US · √2^bin. */
const BIN_MIN_US = 1_000
const BINS = 36
const BIN_ENDS_US = Array.from({ length: BINS }, (_, bin) => BIN_MIN_US * Math.SQRT2 ** bin)
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

  /** The best time to hold for, up to `buy_us`. `away_us`: for how long each program that is away has been. */
  bestUs(buy_us: number, away_us: Iterable<number>): number {
    const now_us = new Float64Array(BINS)
    for (const us of away_us) addTime(now_us, us)
    let gain = 0
    let best_gain = 0
    let best_us = 0
    let from_us = 0
    for (let bin = 0; bin < BINS && from_us < buy_us; bin++) {
      const end_us = Math.min(BIN_ENDS_US[bin] as number, buy_us)
      const returns = this.#returns[bin] as number
      gain += returns * buy_us - (this.#away_us[bin] as number) - (now_us[bin] as number)
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
