/**
 * Stages of one call on the Worker, for the Server-Timing header: identify, admit, lease, dispatch, and the first data
 * event where it came before the headers. Milliseconds of the Worker's clock, which in production stands still between
 * I/O (a defence against timing attacks), so that a stage without I/O reads 0. Service and wait are the agent's to measure.
 */

export type Stage = 'identify' | 'admit' | 'lease' | 'dispatch' | 'first_data'

export class StageTimes {
  readonly #now: () => number
  readonly #durations = new Map<Stage, number>()

  constructor(now: () => number) {
    this.#now = now
  }

  /** Begins a stage; the first call of what it gives back ends it. Of a stage that runs several times the durations add up. */
  start(stage: Stage): () => void {
    const start_ms = this.#now()
    let running = true
    return () => {
      if (!running) return
      running = false
      this.#durations.set(stage, (this.#durations.get(stage) ?? 0) + this.#now() - start_ms)
    }
  }

  async measure<T>(stage: Stage, work: () => Promise<T>): Promise<T> {
    const stop = this.start(stage)
    try {
      return await work()
    } finally {
      stop()
    }
  }

  header(): string {
    return [...this.#durations].map(([stage, ms]) => `${stage};dur=${Math.max(0, ms)}`).join(', ')
  }
}
