/**
 * ArchiveActor: one per tenant. It gathers the calls of programs that end at about the same time into one segment in R2, and
 * removes what is past its retention from D1 and R2.
 *
 * It holds nothing that would be lost with it: a program keeps its run until R2 and D1 have it.
 */
import { DurableObject } from 'cloudflare:workers'
import { z } from 'zod'
import { type BackoffBounds, backoffMs } from '../core/backoff.ts'
import type { Env } from '../env.ts'
import { logFailure } from '../platform/log.ts'
import { dropAdopted, dropRuns, EXPIRED_RUNS_AT_ONCE, hasRuns } from '../store/archive-changes.ts'
import { inTime } from '../store/database.ts'
import { dropSegments, joined, segmentKey } from '../store/segments.ts'
import type { ArchiveRpc } from './contracts.ts'

/** From a part to its segment: parts that come within this time, or while a segment is written, share one. */
const GATHER_MS = 20
/** A segment holds parts up to this size, and at least one. */
export const SEGMENT_BYTES_MAX = 8 * 1024 * 1024
/** Parts that wait for R2. Past it a part is refused, and its program tries again later. */
export const WAITING_BYTES_MAX = 32 * 1024 * 1024
/** Wait for R2 to take a segment. */
const WRITE_MS = 10_000
/** Between two looks for what is past its retention. A random half of it: tenants must not look all at once. */
const EXPIRY_MS = 6 * 60 * 60_000
/** Between two rounds of one look. */
const EXPIRY_ROUND_MS = 1_000
/** Statements of one round. */
const EXPIRY_STATEMENTS_MAX = 20
const EXPIRY_RETRY: BackoffBounds = { min_ms: 60_000, max_ms: EXPIRY_MS }
const DAY_MS = 24 * 60 * 60_000
const STATE_KEY = 'expiry'
const State = z.object({ tenant: z.string(), failures: z.number().int().min(0) })

interface Waiting {
  body: Uint8Array
  written(place: { segment: string; offset: number }): void
  failed(error: unknown): void
}

export class ArchiveActor extends DurableObject<Env> implements ArchiveRpc {
  private readonly retentionMs: number
  private waiting: Waiting[] = []
  private waitingBytes = 0
  private writing: Promise<void> | null = null
  private watched = false

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env)
    this.retentionMs = Number(env.ARCHIVE_RETENTION_DAYS) * DAY_MS
    if (!(this.retentionMs > 0)) throw new Error('ARCHIVE_RETENTION_DAYS must be a number of days above 0')
  }

  async append({ tenant, body }: Parameters<ArchiveRpc['append']>[0]): ReturnType<ArchiveRpc['append']> {
    if (this.waitingBytes > 0 && this.waitingBytes + body.length > WAITING_BYTES_MAX)
      throw new Error(`${this.waitingBytes} bytes wait for R2`)
    this.waitingBytes += body.length
    const { promise, resolve, reject } = Promise.withResolvers<{ segment: string; offset: number }>()
    this.waiting.push({ body, written: resolve, failed: reject })
    this.writing ??= this.writeAll(tenant)
    if (!this.watched) this.ctx.waitUntil(this.watch(tenant))
    return promise
  }

  /** Segments are written one after another, so that parts gather while R2 is slow. */
  private async writeAll(tenant: string): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, GATHER_MS))
    while (this.waiting.length > 0) await this.write(tenant, this.take())
    this.writing = null
  }

  private take(): Waiting[] {
    let bytes = 0
    let parts = 0
    for (const { body } of this.waiting) {
      bytes += body.length
      if (parts > 0 && bytes > SEGMENT_BYTES_MAX) break
      parts += 1
    }
    return this.waiting.splice(0, parts)
  }

  private async write(tenant: string, parts: readonly Waiting[]): Promise<void> {
    const segment = segmentKey(tenant, Date.now(), crypto.randomUUID())
    const body = joined(parts.map((part) => part.body))
    try {
      await inTime(this.env.BUCKET.put(segment, body), WRITE_MS)
      let offset = 0
      for (const part of parts) {
        part.written({ segment, offset })
        offset += part.body.length
      }
    } catch (error) {
      for (const part of parts) part.failed(error)
    } finally {
      this.waitingBytes -= body.length
    }
  }

  /** Sees to it that the tenant's archive is looked through. */
  private async watch(tenant: string): Promise<void> {
    this.watched = true
    if ((await this.ctx.storage.getAlarm()) !== null) return
    await this.ctx.storage.put(STATE_KEY, State.parse({ tenant, failures: 0 }))
    await this.ctx.storage.setAlarm(Date.now() + backoffMs(1, { min_ms: EXPIRY_MS, max_ms: EXPIRY_MS }, Math.random()))
  }

  override async alarm(): Promise<void> {
    const { tenant, failures } = State.parse(await this.ctx.storage.get(STATE_KEY))
    try {
      const next_ms = await this.expire(tenant)
      if (next_ms === null) {
        this.watched = false
        await Promise.all([this.ctx.storage.deleteAlarm(), this.ctx.storage.deleteAll()])
        return
      }
      if (failures > 0) await this.ctx.storage.put(STATE_KEY, { tenant, failures: 0 })
      await this.ctx.storage.setAlarm(Date.now() + next_ms)
    } catch (error) {
      logFailure('archive_not_expired', error, { tenant })
      await this.ctx.storage.put(STATE_KEY, { tenant, failures: failures + 1 })
      await this.ctx.storage.setAlarm(Date.now() + backoffMs(failures + 1, EXPIRY_RETRY, Math.random()))
    }
  }

  /** Returns when to look again. Null: nothing is left. */
  private async expire(tenant: string): Promise<number | null> {
    const before_ms = Date.now() - this.retentionMs
    for (let statement = 0; ; statement += 1) {
      if (statement === EXPIRY_STATEMENTS_MAX) return EXPIRY_ROUND_MS
      if ((await dropRuns(this.env.DB, tenant, before_ms)) < EXPIRED_RUNS_AT_ONCE) break
    }
    await dropAdopted(this.env.DB, tenant, before_ms)
    // After the rows: a row never names a segment that was dropped.
    if ((await dropSegments(this.env.BUCKET, tenant, before_ms)) > 0) return EXPIRY_ROUND_MS
    const isEmpty = this.writing === null && !(await hasRuns(this.env.DB, tenant))
    return isEmpty ? null : backoffMs(1, { min_ms: EXPIRY_MS, max_ms: EXPIRY_MS }, Math.random())
  }
}
