/**
 * How many FLOPs a run has computed by when, and for how long it has computed. The search asks for any time between (a stage ends when its first model does), and an answer within a
 * fraction of a percent is enough, so only every RECORD_EVERY-th event is kept and what lies between is taken for linear.
 */

const RECORD_EVERY = 16

export class WorkTimeline {
  readonly #times_s: number[]
  readonly #flops: number[] = [0]
  readonly #busy_s: number[] = [0]
  #events = 0
  #last_s: number
  #total = 0
  #total_busy_s = 0

  constructor(start_s: number) {
    this.#times_s = [start_s]
    this.#last_s = start_s
  }

  /** Iterations of so many seconds and FLOPs ended. */
  add(end_s: number, flops: number, busy_s: number): void {
    this.#total += flops
    this.#total_busy_s += busy_s
    this.#last_s = end_s
    this.#events += 1
    if (this.#events % RECORD_EVERY !== 0) return
    this.#times_s.push(end_s)
    this.#flops.push(this.#total)
    this.#busy_s.push(this.#total_busy_s)
  }

  flopsBy(at_s: number): number {
    return this.#by(at_s, this.#flops, this.#total)
  }

  busyBy(at_s: number): number {
    return this.#by(at_s, this.#busy_s, this.#total_busy_s)
  }

  #by(at_s: number, values: readonly number[], total: number): number {
    if (at_s >= this.#last_s) return total
    const times_s = this.#times_s
    if (at_s <= (times_s[0] as number)) return 0
    let [below, above] = [0, times_s.length]
    while (above - below > 1) {
      const middle = (below + above) >> 1
      if ((times_s[middle] as number) <= at_s) below = middle
      else above = middle
    }
    const [from_s, from] = [times_s[below] as number, values[below] as number]
    const [to_s, to] = [times_s[above] ?? this.#last_s, values[above] ?? total]
    return from + ((to - from) * (at_s - from_s)) / (to_s - from_s)
  }
}
