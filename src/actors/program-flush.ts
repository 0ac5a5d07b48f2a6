/**
 * When a ProgramActor's rows reach its storage, and when its alarm is set.
 *
 * Most calls are written once, with their record. What is known of a call before that is written OPENING_DELAY_MS after the
 * first change, by an alarm or by a timer. A timer keeps the object in memory, and on Cloudflare that time is billed: it costs
 * several times what the alarm's row does. On a machine of one's own time costs nothing, but every alarm is two more commits
 * on its disk.
 *
 * Keeps true:
 * - Every change is followed by a flush in a later event, after OPENING_DELAY_MS and what the alarm or timer is late.
 * - A caller that waits for a flush also waits for the one under way.
 * - Rows that storage refused are dirty again.
 * - The alarm is set no later than the first thing that is due.
 */
import { type BackoffBounds, backoffMs } from '../core/backoff.ts'
import type { RunSpendTold } from '../core/budget/run-spend.ts'
import type { ProgramEntry } from '../core/program/program-entry.ts'
import { staleAtMs } from '../core/program/staleness.ts'
import { logFailure } from '../platform/log.ts'
import type { ArchiveRetry } from './archive-retry.ts'
import type { ClassNotifier } from './class-notifier.ts'
import { Mutex } from './mutex.ts'
import { OPENING_DELAY_MS, type OpeningWrite } from './opening-write.ts'
import type { ProgramResidency } from './program-residency.ts'
import type { ProgramStorage } from './program-storage.ts'
import type { RunTable } from './run-table.ts'
import type { TenantNotifier } from './tenant-notifier.ts'

/** An alarm may fire a little early by the object's clock. */
const ALARM_EARLY_MS = 100
/** After flushes that failed. */
const FLUSH_RETRY: BackoffBounds = { min_ms: 1_000, max_ms: 60_000 }

/** The platform takes no alarm before it. */
const ALARM_MS_MIN = 1

/** Holds back no answer. If it is lost in a crash, so is what it was set for. */
const UNCONFIRMED = { allowUnconfirmed: true }

interface Surroundings {
  readonly runs: RunTable
  readonly storage: Pick<ProgramStorage, 'write' | 'forget'>
  readonly residency: Pick<ProgramResidency, 'due_ms' | 'isHeld'>
  readonly retry: Pick<ArchiveRetry, 'dueMs'>
  readonly classes: Pick<ClassNotifier, 'due_ms' | 'isEmpty'>
  readonly notifier: Pick<TenantNotifier, 'due_ms'>
  readonly stale_after_ms: number
  /** What writes a change that nothing else has written after OPENING_DELAY_MS. */
  readonly opening_write: OpeningWrite
  setAlarm(at_ms: number, options?: DurableObjectSetAlarmOptions): Promise<void>
  /** The run's rows are stored. `spend`: what they say of its charges. */
  flushed(entry: ProgramEntry, spend: RunSpendTold | null): void
}

export class ProgramFlush {
  readonly #around: Surroundings
  readonly #turns = new Mutex()
  #timer: ReturnType<typeof setTimeout> | null = null
  #failures = 0
  /** Null: not known to be set. */
  #alarm_at_ms: number | null = null
  /** First change that no flush has taken. Null: none. */
  #changed_at_ms: number | null = null
  /**
   * When the next alarm fires, where calls follow each other quickly: in a steady pace, for each call would set one of its own. The
   * object has just been used, so it is not dropped before. Null: the alarm is set for what is due.
   */
  #paced_ms: number | null = null
  /** The last two calls. */
  #called_at_ms: readonly [before: number, last: number] = [Number.NEGATIVE_INFINITY, Number.NEGATIVE_INFINITY]

  constructor(around: Surroundings) {
    this.#around = around
  }

  /** A call came. */
  called(now_ms: number): void {
    this.#called_at_ms = [this.#called_at_ms[1], now_ms]
  }

  /** Something changed. Its alarm is set, or its timer runs out, in a later event. */
  soon(): void {
    this.#changed_at_ms ??= Date.now()
    if (this.#timer !== null) return
    if (this.#byTimer) this.#after(Math.max(0, this.#openingDueMs - Date.now()), () => this.now())
    else if (!this.#isSetBy(this.#paced(this.#openingDueMs))) this.#after(0, () => this.setAlarm(UNCONFIRMED))
  }

  /** What changed must not wait, except for storage that has just refused. */
  atOnce(): void {
    this.#changed_at_ms = Number.NEGATIVE_INFINITY
    if (this.#byTimer && this.#failures === 0) this.#stopTimer()
    this.soon()
  }

  /** Writes the changes that have waited for OPENING_DELAY_MS. After a failure they are tried again. */
  async due(): Promise<void> {
    if (this.#openingDueMs > Date.now() + ALARM_EARLY_MS) return
    try {
      await this.now()
    } catch (error) {
      this.#failed(error)
    }
  }

  /** Writes the changes. If storage refuses, the rows are dirty again and it throws. */
  now(): Promise<void> {
    return this.#turns.run(async () => {
      this.#stopTimer()
      const changed_at_ms = this.#changed_at_ms
      this.#changed_at_ms = null
      const { runs, storage, flushed } = this.#around
      for (const { entry } of runs.all) {
        if (!entry.isDirty) continue
        const taken = entry.takeDirty()
        const { spend } = entry
        try {
          await storage.write(entry.run, taken)
        } catch (error) {
          entry.giveBack(taken)
          this.#changed_at_ms = changed_at_ms
          throw error
        }
        flushed(entry, spend)
      }
      await this.setAlarm()
    })
  }

  /** Removes the rows of a run that the archive has from storage. */
  forget(entry: ProgramEntry): Promise<void> {
    this.#alarm_at_ms = null
    return this.#turns.run(async () => {
      const { storage, residency, classes } = this.#around
      if (this.#around.runs.size === 0) this.#changed_at_ms = null
      await storage.forget(entry.run, residency.isHeld || !classes.isEmpty ? 'stays' : 'goes')
      await this.setAlarm()
    })
  }

  alarmFired(): void {
    this.#alarm_at_ms = null
    this.#paced_ms = this.#expectsCall(Date.now()) ? Date.now() + this.#delay_ms : null
  }

  /** An alarm that is set too early fires for nothing and sets itself again. That is cheaper than a write per call. */
  async setAlarm(options?: DurableObjectSetAlarmOptions): Promise<void> {
    const due_ms = this.#dueMs()
    if (due_ms === Number.POSITIVE_INFINITY || this.#isSetBy(due_ms)) return
    await this.#setAlarm(due_ms, options)
  }

  /** At exactly what is due, in place of an alarm that was set for what is done. */
  async resetAlarm(): Promise<void> {
    if (!this.#expectsCall(Date.now())) this.#paced_ms = null
    const due_ms = this.#dueMs()
    if (due_ms !== Number.POSITIVE_INFINITY && this.#alarm_at_ms !== due_ms) await this.#setAlarm(due_ms)
  }

  #dueMs(): number {
    const { runs, residency, classes, notifier, retry, stale_after_ms } = this.#around
    const opening_ms = this.#byTimer ? Number.POSITIVE_INFINITY : this.#openingDueMs
    let due_ms = Math.min(residency.due_ms, classes.due_ms, this.#paced(Math.min(notifier.due_ms, opening_ms)))
    for (const { entry } of runs.all) {
      due_ms = Math.min(due_ms, entry.state === 'ended' ? retry.dueMs(Date.now()) : lookAtMs(entry, stale_after_ms))
    }
    return due_ms
  }

  /** When what is due then has its alarm. */
  #paced(due_ms: number): number {
    return this.#paced_ms === null || due_ms === Number.NEGATIVE_INFINITY ? due_ms : this.#paced_ms
  }

  #expectsCall(now_ms: number): boolean {
    const [before_ms, last_ms] = this.#called_at_ms
    const { running } = this.#around.runs
    if (this.#byTimer || running === null) return false
    return last_ms - before_ms <= this.#delay_ms && now_ms - last_ms <= this.#delay_ms
  }

  get #delay_ms(): number {
    return OPENING_DELAY_MS[this.#around.opening_write]
  }

  get #byTimer(): boolean {
    return this.#around.opening_write === 'timer'
  }

  get #openingDueMs(): number {
    return this.#changed_at_ms === null ? Number.POSITIVE_INFINITY : this.#changed_at_ms + this.#delay_ms
  }

  #isSetBy(due_ms: number): boolean {
    return this.#alarm_at_ms !== null && this.#alarm_at_ms <= due_ms
  }

  async #setAlarm(due_ms: number, options?: DurableObjectSetAlarmOptions): Promise<void> {
    this.#alarm_at_ms = due_ms
    try {
      await this.#around.setAlarm(Math.max(ALARM_MS_MIN, due_ms), options)
    } catch (error) {
      this.#alarm_at_ms = null
      throw error
    }
  }

  #failed(error: unknown): void {
    logFailure('flush_failed', error)
    this.#failures += 1
    this.#after(backoffMs(this.#failures, FLUSH_RETRY, Math.random()), () => this.now())
  }

  #stopTimer(): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
  }

  #after(delay_ms: number, work: () => Promise<void>): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = null
      work().then(
        () => {
          this.#failures = 0
        },
        (error: unknown) => this.#failed(error),
      )
    }, delay_ms)
  }
}

/**
 * When a running program is looked at: once it would be stale without its open calls, and from then on when it is. So the alarm
 * need not be set again whenever its last open call ends.
 */
function lookAtMs({ last_activity_ms, open_calls }: ProgramEntry, stale_after_ms: number): number {
  const at_rest_ms = staleAtMs({ last_activity_ms, open_calls: 0 }, stale_after_ms)
  return Date.now() < at_rest_ms ? at_rest_ms : staleAtMs({ last_activity_ms, open_calls }, stale_after_ms)
}
