/**
 * A program's messages to its TenantActor. They go in order, so a run that ended cannot come back into the index. They go
 * at most once per interval, so that not every flush of every program writes to the tenant's object. The first message goes
 * at once. So what a running program has called and used is known there with that delay at most. The older a program is,
 * the less a call more changes of it, and the longer its interval is.
 *
 * What waits is told by a timer or by the object's alarm, as openings are written (program-flush.ts), and for the same reason.
 */
import { type BackoffBounds, backoffMs } from '../core/backoff.ts'
import type { RunSpendTold } from '../core/budget/run-spend.ts'
import type { ProgramEntry } from '../core/program/program-entry.ts'
import { FIRST_TENANT_SHARD, runShard } from '../core/program/tenant-shards.ts'
import { logFailure } from '../platform/log.ts'
import type { ProgramListed, TenantRpc } from './contracts.ts'
import { Mutex } from './mutex.ts'
import { OPENING_DELAY_MS, type OpeningWrite } from './opening-write.ts'

/** An alarm is due anyway when a call was opened so long ago. */
const INTERVAL_MS: Record<OpeningWrite, { min: number; max: number }> = {
  timer: { min: 2_000, max: 2_000 },
  alarm: { min: OPENING_DELAY_MS.alarm, max: 2 * OPENING_DELAY_MS.alarm },
}
/** After messages that failed. */
const RETRY: BackoffBounds = { min_ms: 5_000, max_ms: 60_000 }

export class TenantNotifier {
  private readonly tenantOf: (tenant: string, shard: number) => TenantRpc
  private readonly by: OpeningWrite
  private readonly order = new Mutex()
  /** The run to report next. */
  private pending: ProgramEntry | null = null
  /** What storage has of its charges. */
  private pending_spend: RunSpendTold | null = null
  private pending_since_ms = 0
  private timer: ReturnType<typeof setTimeout> | null = null
  private told_at_ms = 0
  private interval_ms = 0
  private failures = 0
  private retry_ms = 0

  constructor(tenantOf: (tenant: string, shard: number) => TenantRpc, by: OpeningWrite) {
    this.tenantOf = tenantOf
    this.by = by
  }

  /** When an alarm must fire for what waits, unless one that fires after `next_ms` has told it before. */
  get due_ms(): number {
    if (this.pending === null || this.timer !== null) return Number.POSITIVE_INFINITY
    const since_ms = Math.min(this.pending_since_ms, Date.now())
    return Math.max(this.next_ms, since_ms + INTERVAL_MS[this.by].min)
  }

  /**
   * Reports soon. A failure is logged and retried. Meanwhile the index is behind, and the tenant's spend. `stored`: what
   * storage has of the run's charges. The tenant must not hear of more, since a crash would take that back.
   */
  changed(entry: ProgramEntry, stored: RunSpendTold | null): void {
    // `ended` reports a run that has ended. A timer would only keep the object in memory.
    if (entry.state === 'ended') return
    const now_ms = Date.now()
    if (this.pending === null) this.pending_since_ms = now_ms
    this.pending = entry
    this.pending_spend = stored
    const wait_ms = this.next_ms - now_ms
    // A report fails outside of a flush, so nothing would set an alarm for the next try.
    if (this.by === 'alarm' && wait_ms > 0 && this.failures === 0) return
    this.timer ??= setTimeout(
      () => {
        this.timer = null
        void this.tellPending()
      },
      Math.max(0, wait_ms),
    )
  }

  /** Reports what waits, if the last report was long enough ago. */
  async due(now_ms: number): Promise<void> {
    if (this.timer === null && this.next_ms <= now_ms) await this.tellPending()
  }

  private get next_ms(): number {
    // A clock that was set back must not put it off.
    this.told_at_ms = Math.min(this.told_at_ms, Date.now())
    return this.told_at_ms + (this.failures === 0 ? this.interval_ms : this.retry_ms)
  }

  private async tellPending(): Promise<void> {
    const { pending, pending_spend } = this
    this.pending = null
    if (pending === null) return
    try {
      await this.tell(pending, pending_spend)
    } catch (error) {
      logFailure('tenant_not_told', error)
      if (this.pending === null) this.changed(pending, pending_spend)
      else this.changed(this.pending, this.pending_spend)
    }
  }

  /** Reports at once. Rejects if the tenant cannot be reached. */
  tell(entry: ProgramEntry, stored: RunSpendTold | null): Promise<void> {
    return this.order.run(async () => {
      if (entry.state === 'ended') return
      this.told_at_ms = Date.now()
      const message = listed(entry)
      const { min, max } = INTERVAL_MS[this.by]
      this.interval_ms = Math.max(min, Math.min(max, (this.told_at_ms - message.started_at_ms) / 2))
      try {
        await this.tenantOf(entry.tenant, runShard(entry.run)).programFlushed(message, stored)
      } catch (error) {
        this.failures += 1
        this.retry_ms = backoffMs(this.failures, RETRY, Math.random())
        throw error
      }
      this.failures = 0
    })
  }

  /** A run of which nothing loads is gone. If the tenant cannot be reached, its row expires there. */
  async forgotten({ tenant, program }: { tenant: string; program: string }, run: string): Promise<void> {
    await this.order
      .run(() => this.tenantOf(tenant, runShard(run)).programEnded(program, run))
      .catch((error: unknown) => {
        logFailure('tenant_not_told', error)
        return null
      })
  }

  /** What a run was charged that had ended before. Rejects if the tenant cannot be reached. */
  async charged(tenant: string, spend: RunSpendTold): Promise<void> {
    await this.order.run(() => this.tenantOf(tenant, runShard(spend.run)).charged(spend))
  }

  /**
   * `ended_class`: the class of which the run tells; null: none. `spend`: what it was charged, as the archive has it. Returns the class for which it counts. Rejects if the
   * tenant cannot be reached; the caller keeps the run until it can.
   */
  ended(entry: ProgramEntry, ended_class: string | null, spend: RunSpendTold | null): Promise<string | null> {
    if (this.pending?.state === 'ended') {
      this.pending = null
      if (this.timer !== null) clearTimeout(this.timer)
      this.timer = null
    }
    const { tenant, program, run } = entry
    return this.order.run(async () => {
      const shard = runShard(run)
      // The first shard has the tenant's classes.
      const ends_there = shard === FIRST_TENANT_SHARD ? ended_class : null
      const counts_for = await this.tenantOf(tenant, shard).programEnded(program, run, ends_there, spend)
      if (ended_class === ends_there || ended_class === null) return counts_for
      return this.tenantOf(tenant, FIRST_TENANT_SHARD).classEnded(ended_class)
    })
  }
}

function listed(entry: ProgramEntry): ProgramListed {
  const summary = entry.summary()
  const { program, run, app, source, started_at_ms, last_arrival_ms, open_calls, calls, service_us } = summary
  return {
    ...{ program, run, app, source, started_at_ms, open_calls, calls, service_us },
    ...{ class: summary.class, output_tokens: summary.output_tokens },
    last_arrival_ms: last_arrival_ms ?? started_at_ms,
  }
}
