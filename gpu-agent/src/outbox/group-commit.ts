/**
 * One writer for the whole outbox. Operations are applied strictly in the order in which they were given, all that are
 * queued in one transaction, so one commit serves every call that ended in the same turn of the event loop. Hence
 * nothing is on disk before what was queued ahead of it.
 *
 * A transaction that fails (disk full, file held by a reader) is tried again with the same operations: the caller that awaits one
 * waits on. A queue that then grows past its bound is handed to `overflow`, which ends the process: what is on disk by
 * then is consistent, and the next start makes records from it.
 */
import { messageOf, type Report } from '../events.ts'

/** Ledger rows may wait this long for company; an operation that a caller awaits goes in the same turn. */
const FLUSH_DELAY_MS = 5
const FLUSH_RETRY_MS = 200
/** At this many a flush happens at once, in the caller's turn. */
export const OPERATIONS_PER_FLUSH = 4096
const OPERATIONS_MAX = 100_000

export interface Operation {
  apply(): void
  /** Called after the commit, in order. */
  committed?(): void
}

export interface GroupCommitOptions {
  transaction: (body: () => void) => void
  report: Report
  overflow: (message: string) => void
  /** A transaction failed after one that did not; or the other way round. */
  onFailing?: (failing: boolean) => void
  operations_max?: number
  retry_ms?: number
}

export class GroupCommit {
  readonly #options: GroupCommitOptions
  readonly #operations_max: number
  #queue: Operation[] = []
  #delayed: NodeJS.Timeout | null = null
  #soon: NodeJS.Immediate | null = null
  #failing = false
  #overflowed = false
  #closed = false

  constructor(options: GroupCommitOptions) {
    this.#options = options
    this.#operations_max = options.operations_max ?? OPERATIONS_MAX
  }

  /** True while the last transaction failed. */
  get failing(): boolean {
    return this.#failing
  }

  get length(): number {
    return this.#queue.length
  }

  /** `when`: `soon` for what a caller awaits. Both keep the order of calls. */
  push(operation: Operation, when: 'soon' | 'delayed'): void {
    if (this.#closed) return
    if (this.#queue.length >= this.#operations_max) {
      if (!this.#overflowed)
        this.#options.overflow(`more than ${this.#operations_max} outbox operations are waiting for the disk`)
      this.#overflowed = true
      return
    }
    this.#queue.push(operation)
    if (this.#failing) return
    if (this.#queue.length >= OPERATIONS_PER_FLUSH) this.flush()
    else if (when === 'soon') this.#soon ??= setImmediate(() => this.flush())
    else this.#delayed ??= setTimeout(() => this.flush(), FLUSH_DELAY_MS)
  }

  /** Commits what is queued. False if the transaction failed; it is then tried again by itself. */
  flush(): boolean {
    this.#disarm()
    if (this.#queue.length === 0) return true
    const operations = this.#queue
    try {
      this.#options.transaction(() => {
        for (const operation of operations) operation.apply()
      })
    } catch (error) {
      if (!this.#failing) {
        this.#options.report({ event: 'outbox_write_failed', message: messageOf(error), operations: operations.length })
      }
      this.#turned(true)
      this.#delayed = setTimeout(() => this.flush(), this.#options.retry_ms ?? FLUSH_RETRY_MS)
      return false
    }
    this.#turned(false)
    this.#queue = []
    for (const operation of operations) operation.committed?.()
    return true
  }

  /** A last flush; nothing is tried again after it, and what is pushed later is never committed. */
  close(): boolean {
    this.#closed = true
    const flushed = this.flush()
    this.#disarm()
    return flushed
  }

  #turned(failing: boolean): void {
    if (failing === this.#failing) return
    this.#failing = failing
    this.#options.onFailing?.(failing)
  }

  #disarm(): void {
    if (this.#soon !== null) clearImmediate(this.#soon)
    if (this.#delayed !== null) clearTimeout(this.#delayed)
    this.#soon = null
    this.#delayed = null
  }
}
