/**
 * IdempotencyActor: a shard of a tenant's idempotency keys (core/call/idempotency-shards.ts), asked only for calls that carry one. It
 * flushes core's table in a later event, so that a call waits for no disk. Where keys come faster than later events, FLUSHED_KEYS_MIN of them are written at
 * once, and those calls wait. If the object dies, claims younger than FLUSH_DELAY_MS are lost until their Workers report again.
 */
import { DurableObject } from 'cloudflare:workers'
import { z } from 'zod'
import { InUse, parentShard } from '../core/call/idempotency-shards.ts'
import { IdempotencyTable } from '../core/call/idempotency-table.ts'
import type { Env } from '../env.ts'
import { logFailure } from '../platform/log.ts'
import { Id } from '../protocol/index.ts'
import type { IdempotencyRpc } from './contracts.ts'
import { SqliteKeys } from './idempotency-keys.ts'
import { Mutex } from './mutex.ts'
import { idempotencyShard } from './stubs.ts'

export const FLUSH_DELAY_MS = 100
const FLUSH_RETRY_MS = 1_000
/** Unwritten keys that no longer wait for a timer. */
const FLUSHED_KEYS_MIN = 1_000

const IdempotencyName = z.tuple([Id, z.number().int().min(0)])

type Parameter<M extends keyof IdempotencyRpc> = Parameters<IdempotencyRpc[M]>[0]

export class IdempotencyActor extends DurableObject<Env> implements IdempotencyRpc {
  private readonly keys: SqliteKeys
  private readonly table: IdempotencyTable
  private readonly use = new InUse()
  /** The shard that had its keys when there were fewer. */
  private readonly parent: IdempotencyRpc | null
  private readonly flushing = new Mutex()
  private flushTimer: ReturnType<typeof setTimeout> | null = null
  /** Since a flush began, or has failed: then the next one has its own time. */
  private flushes = false
  private hasAlarm = false

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env)
    const [tenant, shard] = IdempotencyName.parse(JSON.parse(ctx.id.name ?? 'null'))
    const parent = parentShard(shard)
    this.parent = parent === null ? null : idempotencyShard(env, tenant, parent)
    this.keys = new SqliteKeys(ctx.storage)
    this.table = new IdempotencyTable(this.keys)
    ctx.blockConcurrencyWhile(async () => {
      await this.keys.open()
      this.hasAlarm = (await ctx.storage.getAlarm()) !== null
    })
  }

  async claim(claim: Parameter<'claim'>): Promise<Awaited<ReturnType<IdempotencyRpc['claim']>>> {
    const before = this.parent === null ? null : await this.known(claim)
    if (before !== null) return before
    const verdict = this.table.claim(claim, Date.now())
    this.changed()
    return verdict
  }

  /** A shard that is new asks for keys that it does not know where they were before. */
  async known(claim: Parameter<'known'>): ReturnType<IdempotencyRpc['known']> {
    const now_ms = Date.now()
    const is_new = this.use.isNew(now_ms)
    const known = this.table.known(claim, now_ms)
    return known ?? (is_new && this.parent !== null ? this.parent.known(claim) : null)
  }

  async heard(claim: Parameter<'heard'>): Promise<void> {
    this.table.heard(claim, Date.now())
    this.changed()
  }

  async ended({ claim, end }: Parameter<'ended'>): Promise<void> {
    if (end.status === 'failed') this.table.failed(claim, Date.now())
    else this.table.answered(claim, end.answer, Date.now())
    this.changed()
  }

  /** May fire twice, or late. When the last key goes, everything is deleted, including the tables. */
  override async alarm(): Promise<void> {
    // Other events get their turn between two slices.
    while (this.keys.forget(Date.now())) await new Promise((resolve) => setTimeout(resolve, 0))
    this.hasAlarm = false
    await this.flush()
    await this.flushing.run(async () => {
      if (this.keys.count + this.table.unwritten === 0) await this.keys.clear()
    })
  }

  private changed(): void {
    if (this.table.unwritten >= FLUSHED_KEYS_MIN && !this.flushes) this.flushNow()
    else this.flushAfter(FLUSH_DELAY_MS)
  }

  private flushAfter(delay_ms: number): void {
    this.flushTimer ??= setTimeout(() => {
      this.flushTimer = null
      this.flushNow()
    }, delay_ms)
  }

  private flushNow(): void {
    this.flushes = true
    this.flush().then(
      () => {
        this.flushes = false
      },
      (error: unknown) => {
        logFailure('flush_failed', error)
        this.flushAfter(FLUSH_RETRY_MS)
      },
    )
  }

  private flush(): Promise<void> {
    return this.flushing.run(async () => {
      const { table } = this
      if (table.unwritten > 0) {
        await this.keys.write(
          () => table.takeUnwritten(),
          (taken) => table.giveBack(taken),
        )
      }
      const { forget_at_ms } = this.keys
      if (this.hasAlarm || forget_at_ms === null) return
      this.hasAlarm = true
      await this.ctx.storage.setAlarm(forget_at_ms)
    })
  }
}
