/**
 * TenantActor: one per tenant, and more of a large tenant (tenant-shards.ts). The flushes of programs notify it, never the call path.
 * It holds an index of what runs. The authoritative state of a program is in its ProgramActor.
 */
import { DurableObject } from 'cloudflare:workers'
import { z } from 'zod'
import type { RunSpendTold } from '../core/budget/run-spend.ts'
import { type CallBucket, takeCalls } from '../core/call/call-rate.ts'
import { LogSketch } from '../core/classes/log-sketch.ts'
import { TenantClasses, TenantClassRows } from '../core/classes/tenant-classes.ts'
import type { Env } from '../env.ts'
import { logFailure } from '../platform/log.ts'
import type { ProgramListed, TenantRpc } from './contracts.ts'
import { CountedLeases } from './counted-leases.ts'
import { CHANGES_WRITTEN_MS, joinedPrograms, ProgramIndex } from './program-index.ts'
import { SpendBacklog } from './spend-backlog.ts'
import { joinedSpend } from './spend-meter.ts'
import { ActorDatabase } from './storage/actor-database.ts'
import { tenantMigrations } from './storage/migrations.gen.ts'
import { classActor } from './stubs.ts'
import { TenantBudgets } from './tenant-budgets.ts'
import { SHARDS_KEY, TenantShards, tenantOfActor } from './tenant-shards.ts'
import { joinedUsage, UsageMeter } from './usage-meter.ts'

/** The bucket is stored at most this often, and no call waits for it. A crash gives back what was taken since. */
const BUCKET_FLUSH_MS = 1_000
const BUCKET_KEY = 'calls'
/** The classes are stored at most this often. A crash forgets how many ends they have had since. */
const CLASSES_FLUSH_MS = 5_000
const CLASSES_KEY = 'classes'
const StoredBucket = z.object({ calls: z.number(), at_ms: z.number() })

export class TenantActor extends DurableObject<Env> implements TenantRpc {
  private readonly storage: ActorDatabase
  private readonly budgets: TenantBudgets
  private readonly meteredUsage: UsageMeter
  private readonly index: ProgramIndex
  private readonly shards: TenantShards
  /** Whether what programs tell waits in memory, since every row that is written is billed. */
  private readonly gathers: boolean
  /** Whether an alarm is set for what waits. */
  private alarmIsSet = false
  private bucket: CallBucket | null = null
  private bucketTimer: ReturnType<typeof setTimeout> | null = null
  private classes = new TenantClasses()
  private classesTimer: ReturnType<typeof setTimeout> | null = null

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env)
    this.storage = new ActorDatabase(ctx.storage, tenantMigrations)
    this.gathers = env.OPENING_WRITE !== 'timer'
    const leases = new CountedLeases()
    const backlog = new SpendBacklog(leases)
    this.budgets = new TenantBudgets(this.storage, leases, backlog)
    this.meteredUsage = new UsageMeter(this.storage, { budgets: this.budgets, leases, backlog })
    this.index = new ProgramIndex(this.storage, {
      stale_after_ms: Number(env.PROGRAM_STALE_AFTER_S) * 1000,
      gathers: this.gathers,
      later: (delay_ms) => this.alarmIn(delay_ms),
    })
    this.shards = new TenantShards(env, ctx.id.name ?? '', ctx.storage)
    ctx.blockConcurrencyWhile(async () => {
      const stored = await ctx.storage.get([BUCKET_KEY, CLASSES_KEY, SHARDS_KEY])
      const bucket = StoredBucket.safeParse(stored.get(BUCKET_KEY))
      this.bucket = bucket.success ? bucket.data : null
      const classes = TenantClassRows.safeParse(stored.get(CLASSES_KEY))
      if (classes.success) this.classes = new TenantClasses(classes.data)
      this.shards.restore(stored.get(SHARDS_KEY))
    })
  }

  async takeCalls(request: Parameters<TenantRpc['takeCalls']>[0]): ReturnType<TenantRpc['takeCalls']> {
    const { calls_per_minute_max, wanted } = request
    const { bucket, granted, retry_after_s } = takeCalls(this.bucket, calls_per_minute_max, wanted, Date.now())
    this.bucket = bucket
    this.bucketTimer ??= setTimeout(() => {
      this.bucketTimer = null
      this.ctx.storage.put(BUCKET_KEY, this.bucket).catch((error: unknown) => logFailure('bucket_not_kept', error))
    }, BUCKET_FLUSH_MS)
    return { granted, retry_after_s }
  }

  roomForProgram(request: Parameters<TenantRpc['roomForProgram']>[0]): Promise<boolean> {
    this.askedOf()
    return this.index.hasRoom(request)
  }

  async hasShard(shard: number): Promise<void> {
    await this.shards.has(shard)
  }

  async programFlushed(program: ProgramListed, spend: RunSpendTold | null = null): Promise<void> {
    this.askedOf()
    await this.shards.joined()
    const [is_waiting] = await Promise.all([
      spend === null ? false : this.meteredUsage.told(spend, this.gathers),
      this.index.told(program),
    ])
    if (is_waiting) this.alarmIn(CHANGES_WRITTEN_MS)
  }

  async charged(spend: RunSpendTold): Promise<void> {
    await this.shards.joined()
    await this.meteredUsage.told(spend, false)
  }

  async programEnded(
    program: string,
    run: string,
    ended_class: string | null = null,
    spend: RunSpendTold | null = null,
  ): Promise<string | null> {
    this.askedOf()
    if (spend !== null) await this.charged(spend)
    const counts_for = ended_class === null ? null : this.classFor(ended_class)
    await this.index.ended(program, run)
    return counts_for
  }

  async classEnded(ended_class: string): Promise<string> {
    return this.classFor(ended_class)
  }

  private askedOf(): void {
    // On a machine of one's own the shards would share one thread, unless the operator says that there are several processes.
    if (!this.gathers || !this.shards.isAskedTooMuch(Date.now())) return
    this.ctx.waitUntil(this.shards.add().catch((error: unknown) => logFailure('tenant_shards_not_added', error)))
  }

  private alarmIn(delay_ms: number): void {
    if (this.alarmIsSet) return
    this.alarmIsSet = true
    this.ctx.storage.setAlarm(Date.now() + delay_ms).catch((error: unknown) => {
      this.alarmIsSet = false
      logFailure('alarm_not_set', error)
    })
  }

  /** May fire twice, late, or for nothing. */
  override async alarm(): Promise<void> {
    this.alarmIsSet = false
    try {
      await this.index.writeChanges()
      await this.meteredUsage.countTold()
    } catch (error) {
      logFailure('told_not_written', error)
      this.alarmIn(CHANGES_WRITTEN_MS)
    }
  }

  /** The class for which a program of this class counts. A class that lost its place is forgotten. */
  private classFor(ended_class: string): string {
    const { class: counts_for, displaced } = this.classes.ended(ended_class, Date.now())
    this.classesTimer ??= setTimeout(() => {
      this.classesTimer = null
      const rows = this.classes.rows()
      this.ctx.storage.put(CLASSES_KEY, rows).catch((error: unknown) => logFailure('classes_not_kept', error))
    }, CLASSES_FLUSH_MS)
    if (displaced !== null) {
      const forgotten = classActor(this.env, tenantOfActor(this.ctx.id.name ?? '').tenant, displaced).forget()
      // It is forgotten in any case when it has had no end for long enough.
      this.ctx.waitUntil(forgotten.catch((error: unknown) => logFailure('class_not_forgotten', error)))
    }
    return counts_for
  }

  async running(page: Parameters<TenantRpc['running']>[0]): ReturnType<TenantRpc['running']> {
    const pages = await this.shards.all(this.index.page(page), (shard) => shard.running(page))
    return joinedPrograms(pages, page.limit)
  }

  async runningCount(): Promise<number> {
    const counts = await this.shards.all(this.index.count(), (shard) => shard.runningCount())
    return counts.reduce((sum, count) => sum + count, 0)
  }

  async meter(records: Parameters<TenantRpc['meter']>[0]): Promise<void> {
    this.askedOf()
    await this.shards.joined()
    await this.meteredUsage.record(records)
  }

  async usage(page: Parameters<TenantRpc['usage']>[0]): ReturnType<TenantRpc['usage']> {
    const pages = await this.shards.all(this.meteredUsage.page(page), (shard) => shard.usage(page))
    return joinedUsage(pages, page.limit)
  }

  async shareBudget(asked: Parameters<TenantRpc['shareBudget']>[0]): ReturnType<TenantRpc['shareBudget']> {
    await this.meteredUsage.countTold()
    const asked_ms = Date.now()
    await this.shards.hearCharges(() => this.budgets.awaited(asked_ms), asked_ms)
    return this.budgets.share(asked, this.shards, this.shards.dayNotLeft(Date.now()))
  }

  async chargedNow(awaited: Parameters<TenantRpc['chargedNow']>[0]): ReturnType<TenantRpc['chargedNow']> {
    await this.meteredUsage.countTold()
    return this.budgets.charges(awaited, Date.now())
  }

  async spend(asked: Parameters<TenantRpc['spend']>[0]): ReturnType<TenantRpc['spend']> {
    const pages = await this.shards.all(this.meteredUsage.spend(asked), (shard) => shard.spend(asked))
    return joinedSpend(pages, asked.limit)
  }

  async goingOn(name: string): ReturnType<TenantRpc['goingOn']> {
    const found = await this.shards.all(this.index.goingOn(name), (shard) => shard.goingOn(name))
    const sketch = new LogSketch()
    for (const bins of found) sketch.merge(LogSketch.of(bins))
    return sketch.bins()
  }

  async shardCount(): Promise<number> {
    return this.shards.count
  }

  /** Over those of this shard, which are a sample of the tenant's. */
  async medianService(): Promise<{ settled_service_us: number }> {
    return { settled_service_us: await this.index.medianServiceUs() }
  }
}
