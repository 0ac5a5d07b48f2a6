/**
 * A program's messages to its TenantActor. They go in order, so a run that ended cannot come back into the index. They go
 * at most once per TENANT_TOLD_INTERVAL_MS, so that not every flush of every program writes to the tenant's object. The
 * first message goes at once. So what a running program has called and used is known there with that delay at most.
 */
import { type BackoffBounds, backoffMs } from '../core/backoff.ts'
import type { ProgramEntry } from '../core/program/program-entry.ts'
import { logFailure } from '../platform/log.ts'
import type { ProgramListed, TenantRpc } from './contracts.ts'
import { Mutex } from './mutex.ts'

export const TENANT_TOLD_INTERVAL_MS = 2_000
/** After messages that failed. */
const RETRY: BackoffBounds = { min_ms: 2 * TENANT_TOLD_INTERVAL_MS, max_ms: 60_000 }

export class TenantNotifier {
  private readonly tenantOf: (tenant: string) => TenantRpc
  private readonly order = new Mutex()
  /** The run to report when the timer fires. */
  private pending: ProgramEntry | null = null
  private timer: ReturnType<typeof setTimeout> | null = null
  private told_at_ms = 0
  private failures = 0

  constructor(tenantOf: (tenant: string) => TenantRpc) {
    this.tenantOf = tenantOf
  }

  /** Reports soon. A failure is logged and retried. Meanwhile only the index is behind. */
  changed(entry: ProgramEntry): void {
    // `ended` reports a run that has ended. A timer would only keep the object in memory.
    if (entry.state === 'ended') return
    this.pending = entry
    const interval_ms = this.failures === 0 ? TENANT_TOLD_INTERVAL_MS : backoffMs(this.failures, RETRY, Math.random())
    const wait_ms = Math.max(0, this.told_at_ms + interval_ms - Date.now())
    this.timer ??= setTimeout(() => {
      this.timer = null
      const told = this.pending ?? entry
      this.tell(told).catch((error: unknown) => {
        logFailure('tenant_not_told', error)
        this.changed(told)
      })
    }, wait_ms)
  }

  /** Reports at once. Rejects if the tenant cannot be reached. */
  tell(entry: ProgramEntry): Promise<void> {
    return this.order.run(async () => {
      if (entry.state === 'ended') return
      this.told_at_ms = Date.now()
      this.failures += 1
      await this.tenantOf(entry.tenant).programFlushed(listed(entry))
      this.failures = 0
    })
  }

  /** A run of which nothing loads is gone. If the tenant cannot be reached, its row expires there. */
  async forgotten({ tenant, program }: { tenant: string; program: string }, run: string): Promise<void> {
    await this.order
      .run(() => this.tenantOf(tenant).programEnded(program, run))
      .catch((error: unknown) => {
        logFailure('tenant_not_told', error)
        return null
      })
  }

  /**
   * `ended_class`: the class of which the run tells; null: none. Returns the class for which it counts. Rejects if the
   * tenant cannot be reached; the caller keeps the run until it can.
   */
  ended(entry: ProgramEntry, ended_class: string | null): Promise<string | null> {
    if (this.pending?.state === 'ended' && this.timer !== null) {
      clearTimeout(this.timer)
      this.timer = null
    }
    const { tenant, program, run } = entry
    return this.order.run(() => this.tenantOf(tenant).programEnded(program, run, ended_class))
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
