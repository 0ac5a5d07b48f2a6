/**
 * How many lines of a batch are open at a time. A batch should use every seat that is idle and hold few calls that wait: a
 * waiting call occupies the engines' queues and makes them look loaded to online calls.
 *
 * Additive increase, multiplicative decrease (TCP's way), with waiting in place of loss. A line that hardly waited on its
 * engine says that there was room: the window grows by 1. A line
 * that waited for longer than it was served says that the engine is taken: the window shrinks by a quarter, at most once
 * per window of lines, so that calls which waited together count once. A refusal (429, 503) halves it.
 */

export const WINDOW_MIN = 1
export const WINDOW_START = 4
export const WINDOW_MAX = 64
/** Wait as a share of service. */
const SHORT_WAIT = 0.25
const LONG_WAIT = 1
const SHRINK = 0.75
const HALVE = 0.5

export class CallWindow {
  #size = WINDOW_START
  /** Lines that must end before the window may shrink again. */
  #settling = 0

  get size(): number {
    return Math.floor(this.#size)
  }

  /** A line was served. */
  served(wait_s: number, service_s: number): void {
    this.#settling = Math.max(0, this.#settling - 1)
    if (wait_s <= SHORT_WAIT * service_s) this.#set(this.#size + 1)
    else if (wait_s > LONG_WAIT * service_s) this.#shrink(SHRINK)
  }

  /** Engines have become ready: refusals before say nothing of them. */
  restart(): void {
    this.#settling = 0
    this.#set(Math.max(this.#size, WINDOW_START))
  }

  /** An engine had no room for a line. */
  refused(): void {
    this.#shrink(HALVE)
  }

  #shrink(factor: number): void {
    if (this.#settling > 0) return
    this.#set(this.#size * factor)
    this.#settling = this.size
  }

  #set(size: number): void {
    this.#size = Math.min(WINDOW_MAX, Math.max(WINDOW_MIN, size))
  }
}
