/**
 * Results of lines end in any order and are written in the order of the input. A result waits here until those before it
 * have come. Lines are named by their place among the requests of the batch, from 0.
 */

export class ResultOrder<R> {
  #next: number
  readonly #waiting = new Map<number, R>()

  constructor(next: number) {
    this.#next = next
  }

  /** The first request whose result is missing. */
  get next(): number {
    return this.#next
  }

  get waiting(): number {
    return this.#waiting.size
  }

  /** Those that wait. */
  values(): Iterable<R> {
    return this.#waiting.values()
  }

  has(request: number): boolean {
    return request < this.#next || this.#waiting.has(request)
  }

  /** A second result of a request is dropped. */
  add(request: number, result: R): void {
    if (!this.has(request)) this.#waiting.set(request, result)
  }

  /** Removes and returns the results that are next in order. */
  *take(): Generator<R> {
    for (;;) {
      const result = this.#waiting.get(this.#next)
      if (result === undefined) return
      this.#waiting.delete(this.#next)
      this.#next += 1
      yield result
    }
  }

  /** As `take`, of all results that are there, whatever is missing between them. Nothing can be added afterwards. */
  *takeAll(): Generator<R> {
    const requests = [...this.#waiting.keys()].sort((a, b) => a - b)
    for (const request of requests) {
      const result = this.#waiting.get(request) as R
      this.#waiting.delete(request)
      this.#next = request + 1
      yield result
    }
  }
}
