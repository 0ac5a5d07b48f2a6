/** The streams of a chaos run, and which of them ended because the control plane did: no stream outlives that. */
import type { Fleet } from './fleet.ts'
import type { LedgerBook } from './ledger.ts'
import type { Ended } from './load.ts'
import { countStreams, resumedCalls, type StreamCounts, type StreamEnd, streamEnd } from './stream-counts.ts'

const WATCH_EVERY_MS = 500
/** From the end of a control plane until its clients and this tester have noticed. */
const NOTICED_MS = 5000

type TimedEnd = StreamEnd & { began_ms: number; ended_ms: number }

export class StreamWatch {
  readonly #fleet: Fleet
  readonly #ends: TimedEnd[] = []
  /** When another workerd was seen to run, or that none runs. */
  readonly #changes_ms: number[] = []
  #is_over = false

  constructor(fleet: Fleet) {
    this.#fleet = fleet
  }

  ended({ api, stream, is_slow, took_ms, ended }: Ended): void {
    if (!stream) return
    const ended_ms = performance.now()
    this.#ends.push({ ...streamEnd(api, ended, { is_slow }), began_ms: ended_ms - took_ms, ended_ms })
  }

  /** Miniflare starts a workerd that crashed again, by itself. */
  async watch(): Promise<void> {
    let running = await this.#running()
    while (!this.#is_over) {
      await new Promise((resolve) => setTimeout(resolve, WATCH_EVERY_MS))
      const now_running = await this.#running()
      if (now_running !== running) this.#changes_ms.push(performance.now())
      running = now_running
    }
  }

  async #running(): Promise<string> {
    return (await this.#fleet.runningWorkerds()).join()
  }

  stop(): void {
    this.#is_over = true
  }

  counts(book: LedgerBook): StreamCounts {
    const ends = this.#ends.map(({ began_ms, ended_ms, ...stream }) => {
      const changed = this.#changes_ms.some((at_ms) => at_ms >= began_ms && at_ms <= ended_ms + NOTICED_MS)
      return { ...stream, with_control_plane: changed && stream.end === 'broken' }
    })
    return countStreams(ends, resumedCalls(book))
  }
}
