/**
 * How long this machine did not run what was due: other work had its processors. A call that was slow meanwhile is no fault
 * of the system. Measured in the tester's own process, by a timer that comes late. The processes of the system share the
 * processors with it and are held up as long.
 */

const TICK_MS = 100

export class HostStalls {
  #stalled_ms = 0
  #due_ms = performance.now() + TICK_MS
  readonly #timer = setInterval(() => this.#tick(), TICK_MS)

  /** Since the start. */
  get stalled_ms(): number {
    return this.#stalled_ms
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  #tick(): void {
    const now_ms = performance.now()
    this.#stalled_ms += Math.max(0, now_ms - this.#due_ms)
    this.#due_ms = now_ms + TICK_MS
  }
}
