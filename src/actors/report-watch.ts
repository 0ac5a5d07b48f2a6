/**
 * Whether a pool has read what its agents reported. Reports come every STATUS_INTERVAL_MS. If none was read for longer,
 * either no agent is alive, or this object did not run and reports are queued behind the requests for leases. So it reads
 * for a moment before it treats an agent as silent.
 */

import { startPauseProofTimer } from '../platform/pause-proof-timer.ts'
import { STATUS_INTERVAL_MS } from '../protocol/index.ts'

/** Longer than the gap between two reports of a living agent. */
export const REPORT_GAP_MS = 1.5 * STATUS_INTERVAL_MS
/**
 * The longest that a lease waits. While no agent reports, there is one such wait in every REPORT_GAP_MS, of calls that no
 * engine could serve anyway. It is long enough for a busy machine, which reads what lies queued only in part within 40 ms.
 */
const LISTEN_MS = 250

export class ReportWatch {
  #read_ms: number
  #listening: Promise<void> | null = null

  constructor(now_ms: number) {
    this.#read_ms = now_ms
  }

  /** A report was read. After a gap, reports of other agents are probably queued behind it. */
  read(now_ms: number): void {
    this.#listenAfterGap(now_ms)
    this.#read_ms = now_ms
  }

  /** Resolves when the queued reports are read. Null: they are. */
  reading(now_ms: number): Promise<void> | null {
    this.#listenAfterGap(now_ms)
    return this.#listening
  }

  #listenAfterGap(now_ms: number): void {
    if (this.#listening !== null || now_ms - this.#read_ms <= REPORT_GAP_MS) return
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#listening = promise
    this.#read_ms = now_ms
    startPauseProofTimer(LISTEN_MS, () => {
      this.#listening = null
      resolve()
    })
  }
}
