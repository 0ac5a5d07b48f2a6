/** A stretch of work in one event of an actor. The platform bounds what one event asks of others. */

/** A line asks twice or three times. */
export const LINES_PER_SLICE = 250

export class Slice {
  readonly until_ms: number
  #left: number
  readonly #over = Promise.withResolvers<void>()

  constructor(until_ms: number, lines_max = LINES_PER_SLICE) {
    this.until_ms = until_ms
    this.#left = lines_max
  }

  /** Lines that may still be started. */
  get left(): number {
    return this.#left
  }

  get isOver(): boolean {
    return this.#left <= 0 || Date.now() >= this.until_ms
  }

  /** Resolves when no more lines may be started. The time is not watched. */
  get used(): Promise<void> {
    return this.#over.promise
  }

  started(lines: number): void {
    this.#left -= lines
    if (this.#left <= 0) this.#over.resolve()
  }

  /** Nothing more is started in it. */
  end(): void {
    this.started(this.#left)
  }
}
