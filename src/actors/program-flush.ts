/**
 * When a ProgramActor's rows reach its storage, and when its alarm is set.
 *
 * Keeps true:
 * - Every change is followed by a flush in a later event.
 * - A caller that waits for a flush also waits for the one under way.
 * - Rows that storage refused are dirty again.
 * - The alarm is set no later than the first thing that is due.
 */
import { type BackoffBounds, backoffMs } from '../core/backoff.ts'
import type { ProgramEntry } from '../core/program/program-entry.ts'
import { staleAtMs } from '../core/program/staleness.ts'
import { logFailure } from '../platform/log.ts'
import type { ArchiveRetry } from './archive-retry.ts'
import type { ClassNotifier } from './class-notifier.ts'
import { Mutex } from './mutex.ts'
import type { ProgramResidency } from './program-residency.ts'
import type { ProgramStorage } from './program-storage.ts'
import type { RunTable } from './run-table.ts'

/**
 * From the first change to its flush, unless a settlement flushes before. It is long enough that a short call is written
 * once, with its record, and short enough to lose little in a crash.
 */
export const FLUSH_DELAY_MS = 250
/** After flushes that failed. */
const FLUSH_RETRY: BackoffBounds = { min_ms: 1_000, max_ms: 60_000 }

interface Surroundings {
  readonly runs: RunTable
  readonly storage: ProgramStorage
  readonly residency: ProgramResidency
  readonly retry: ArchiveRetry
  readonly classes: ClassNotifier
  readonly stale_after_ms: number
  setAlarm(at_ms: number): Promise<void>
  /** The run's rows are stored. */
  flushed(entry: ProgramEntry): void
}

export class ProgramFlush {
  readonly #around: Surroundings
  readonly #turns = new Mutex()
  #timer: ReturnType<typeof setTimeout> | null = null
  #failures = 0
  /** Null: not known to be set. */
  #alarm_at_ms: number | null = null

  constructor(around: Surroundings) {
    this.#around = around
  }

  /** Something changed. */
  soon(): void {
    this.#after(FLUSH_DELAY_MS)
  }

  /** Writes the changes. If storage refuses, the rows are dirty again and it throws. */
  now(): Promise<void> {
    return this.#turns.run(async () => {
      if (this.#timer !== null) clearTimeout(this.#timer)
      this.#timer = null
      const { runs, storage, flushed } = this.#around
      for (const { entry } of runs.all) {
        if (!entry.isDirty) continue
        const taken = entry.takeDirty()
        try {
          await storage.write(entry.run, taken)
        } catch (error) {
          entry.giveBack(taken)
          throw error
        }
        flushed(entry)
      }
      await this.setAlarm()
    })
  }

  /** Removes the rows of a run that D1 has from storage. */
  forget(entry: ProgramEntry): Promise<void> {
    this.#alarm_at_ms = null
    return this.#turns.run(async () => {
      const { storage, residency, classes } = this.#around
      await storage.forget(entry.run, residency.isHeld || !classes.isEmpty ? 'stays' : 'goes')
      await this.setAlarm()
    })
  }

  alarmFired(): void {
    this.#alarm_at_ms = null
  }

  /** An alarm that is set too early fires for nothing and sets itself again. That is cheaper than a write per call. */
  async setAlarm(): Promise<void> {
    const { runs, residency, classes, retry, stale_after_ms, setAlarm } = this.#around
    let due_ms = Math.min(residency.due_ms, classes.due_ms)
    for (const { entry } of runs.all) {
      const at_ms = entry.state === 'ended' ? retry.dueMs(Date.now()) : staleAtMs(entry, stale_after_ms)
      due_ms = Math.min(due_ms, at_ms)
    }
    if (due_ms === Number.POSITIVE_INFINITY || (this.#alarm_at_ms !== null && this.#alarm_at_ms <= due_ms)) return
    this.#alarm_at_ms = due_ms
    await setAlarm(due_ms)
  }

  #after(delay_ms: number): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = null
      this.now().then(
        () => {
          this.#failures = 0
        },
        (error: unknown) => {
          logFailure('flush_failed', error)
          this.#failures += 1
          this.#after(backoffMs(this.#failures, FLUSH_RETRY, Math.random()))
        },
      )
    }, delay_ms)
  }
}
