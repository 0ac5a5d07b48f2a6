/**
 * When a program's ended runs are tried again, after R2, the archive or the tenant's object refused them. There is no limit on tries:
 * an ended run is never given up. The pause doubles, half of it is random, and it survives eviction, so that a full store
 * is not stormed by every program that ended.
 */
import { z } from 'zod'
import { type BackoffBounds, backoffMs } from '../core/backoff.ts'

export const ARCHIVE_RETRY: BackoffBounds = { min_ms: 15_000, max_ms: 60 * 60_000 }

export const RetryState = z.object({ failures: z.number().int().positive(), due_ms: z.number() })
export type RetryState = z.infer<typeof RetryState>

export class ArchiveRetry {
  #state: RetryState | null = null
  /** Stores the state, or forgets it. */
  readonly #store: (state: RetryState | null) => Promise<void>

  constructor(store: (state: RetryState | null) => Promise<void>) {
    this.#store = store
  }

  /** `state` as stored. */
  restore(state: RetryState | null): void {
    this.#state = state
  }

  /** When an ended run is tried next: always later than `now_ms`. */
  dueMs(now_ms: number): number {
    const due_ms = this.#state?.due_ms ?? 0
    return due_ms > now_ms ? due_ms : now_ms + ARCHIVE_RETRY.min_ms
  }

  async failed(now_ms: number): Promise<void> {
    const failures = (this.#state?.failures ?? 0) + 1
    this.#state = { failures, due_ms: now_ms + backoffMs(failures, ARCHIVE_RETRY, Math.random()) }
    await this.#store(this.#state)
  }

  /** What waits besides is tried soon. */
  async succeeded(): Promise<void> {
    if (this.#state === null) return
    this.#state = null
    await this.#store(null)
  }
}
