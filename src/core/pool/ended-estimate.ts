/**
 * How many calls of an engine have probably ended since its last report.
 *
 * A pool knows each lease that it granted since a report, and no call that ended since. So between two reports an engine looks
 * fuller than it is, by what it ends in that time. That hardly matters where engines are compared, since all of them look
 * fuller. It matters where a load is held against a bound: an engine with few seats and short calls would pass SPILL_LOAD
 * although it keeps up, and its calls would leave their region.
 *
 * By Little's law a call stays for (mean number of calls) ÷ (calls that end in a millisecond). So of the calls that a report told,
 * time since ÷ stay have ended. An engine that stops is not taken for one that ends calls: time since counts up to one interval.
 *
 * Comparisons of engines do not use the estimate. It errs most for the engine that has just ended many calls at once, which would
 * then get all new ones.
 */
import { STATUS_INTERVAL_MIN_MS, STATUS_LOAD_INTERVAL_MS } from '../../protocol/link.ts'

/** Weight of the last report in the means. */
const LAST_SHARE = 0.2

export class EndedEstimate {
  #calls_mean = 0
  #ended_per_ms = 0
  #reported_calls = 0
  #reported_ms: number | null = null

  /** `calls`: waiting and running; `began`: that this report tells for the first time. */
  reported(calls: number, began: number, now_ms: number): void {
    if (this.#reported_ms !== null) {
      // Reports that queued up on their way are read at once.
      const elapsed_ms = Math.max(STATUS_INTERVAL_MIN_MS, now_ms - this.#reported_ms)
      const ended = Math.max(0, this.#reported_calls + began - calls)
      this.#ended_per_ms += LAST_SHARE * (ended / elapsed_ms - this.#ended_per_ms)
      this.#calls_mean += LAST_SHARE * ((this.#reported_calls + calls) / 2 - this.#calls_mean)
    }
    this.#reported_calls = calls
    this.#reported_ms = now_ms
  }

  /** Of the reported calls; not whole. */
  at(now_ms: number): number {
    if (this.#reported_ms === null || this.#ended_per_ms === 0) return 0
    const elapsed_ms = Math.min(STATUS_LOAD_INTERVAL_MS, Math.max(0, now_ms - this.#reported_ms))
    const stay_ms = this.#calls_mean / this.#ended_per_ms
    return this.#reported_calls * Math.min(1, elapsed_ms / Math.max(1, stay_ms))
  }
}
