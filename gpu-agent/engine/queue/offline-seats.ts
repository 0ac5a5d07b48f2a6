/**
 * How many offline calls may run on a server that cannot be told to stop one for an online call. Each of them may keep its
 * place for its whole length, so they leave as many places free as online calls have had open of late, and at least
 * ONLINE_SEATS_MIN. The peak of online calls halves in PEAK_HALF_LIFE_US: offline calls return as online ones stay away.
 *
 * One offline call may always run where nothing else does, or a server of one place would serve none.
 */

export const PEAK_HALF_LIFE_US = 10_000_000
const ONLINE_SEATS_MIN = 1

export class OfflineSeats {
  #peak = 0
  #at_us = 0

  /** `online`: open online calls, whether they run or wait. */
  noted(online: number, now_us: number): void {
    this.#peak = Math.max(online, this.#peakAt(now_us))
    this.#at_us = now_us
  }

  /** Of `seats`. */
  max(seats: number, now_us: number): number {
    const peak = this.#peakAt(now_us)
    const reserved = Math.max(ONLINE_SEATS_MIN, Math.ceil(peak - 0.5))
    return Math.max(peak < 0.5 ? 1 : 0, seats - reserved)
  }

  #peakAt(now_us: number): number {
    return this.#peak * 2 ** (-Math.max(0, now_us - this.#at_us) / PEAK_HALF_LIFE_US)
  }
}
