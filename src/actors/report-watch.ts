/**
 * Whether a pool has read what its agents reported. Reports come every STATUS_INTERVAL_MS. If none was read for longer,
 * either no agent is alive, or this object did not run and reports are queued behind the requests for leases. So it reads
 * for a moment before it treats an agent as silent, until it has heard of each.
 */

import { startPauseProofTimer } from '../platform/pause-proof-timer.ts'
import { STATUS_INTERVAL_MS } from '../protocol/index.ts'

/** Longer than the gap between two reports of a living agent. */
export const REPORT_GAP_MS = 1.5 * STATUS_INTERVAL_MS
/**
 * The longest that a lease waits of an object that has run in the gap. While no agent reports, there is one such wait in
 * every REPORT_GAP_MS.
 */
const LISTEN_MS = 250
/**
 * The longest of one that may not have run: nothing came to it in the gap, neither reports nor requests. A busy machine takes
 * long for what has queued up. Once per silence: if it brought no report, the agents are silent and not the object.
 */
export const LISTEN_PAUSED_MS = 5_000

export class ReportWatch {
  #read_ms: number
  /** Anything came. */
  #ran_ms: number
  /** It has listened since the last report. */
  #listened = false
  #listening: { done: Promise<void>; end: () => void; heard: Set<string> } | null = null

  constructor(now_ms: number) {
    this.#read_ms = now_ms
    this.#ran_ms = now_ms
  }

  /** A report of one of so many agents was read. After a gap, reports of the others are probably queued behind it. */
  read(agent: string, agents: number, now_ms: number): void {
    this.#listenAfterGap(now_ms)
    this.#read_ms = now_ms
    this.#listened = false
    this.#listening?.heard.add(agent)
    if (this.#listening !== null && this.#listening.heard.size >= agents) this.#listening.end()
  }

  /** Resolves when the queued reports are read. Null: they are. */
  reading(now_ms: number): Promise<void> | null {
    this.#listenAfterGap(now_ms)
    return this.#listening?.done ?? null
  }

  #listenAfterGap(now_ms: number): void {
    const paused = now_ms - this.#ran_ms > REPORT_GAP_MS
    this.#ran_ms = now_ms
    if (this.#listening !== null || now_ms - this.#read_ms <= REPORT_GAP_MS) return
    const { promise: done, resolve } = Promise.withResolvers<void>()
    this.#read_ms = now_ms
    const end = () => {
      stop()
      this.#listening = null
      resolve()
    }
    const stop = startPauseProofTimer(paused && !this.#listened ? LISTEN_PAUSED_MS : LISTEN_MS, end)
    this.#listened = true
    this.#listening = { done, end, heard: new Set() }
  }
}
