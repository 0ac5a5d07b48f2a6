/**
 * TenantActor: one per tenant. The flushes of its programs notify it, never the call path. It holds an index of what runs.
 * The authoritative state of a program is in its ProgramActor.
 */
import { DurableObject } from 'cloudflare:workers'
import { z } from 'zod'
import type { RunSpendTold } from '../core/budget/run-spend.ts'
import { type CallBucket, takeCalls } from '../core/call/call-rate.ts'
import { TenantClasses, TenantClassRows } from '../core/classes/tenant-classes.ts'
import type { Env } from '../env.ts'
import { logFailure } from '../platform/log.ts'
import { Id } from '../protocol/index.ts'
import type { ProgramListed, TenantRpc } from './contracts.ts'
import { CountedLeases } from './counted-leases.ts'
import { CHANGES_WRITTEN_MS, ProgramIndex } from './program-index.ts'
import { SpendBacklog } from './spend-backlog.ts'
import { ActorDatabase } from './storage/actor-database.ts'
import { tenantMigrations } from './storage/migrations.gen.ts'
import { classActor } from './stubs.ts'
import { TenantBudgets } from './tenant-budgets.ts'
import { UsageMeter } from './usage-meter.ts'

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
    ctx.blockConcurrencyWhile(async () => {
      const stored = StoredBucket.safeParse(await ctx.storage.get(BUCKET_KEY))
      this.bucket = stored.success ? stored.data : null
      const classes = TenantClassRows.safeParse(await ctx.storage.get(CLASSES_KEY))
      if (classes.success) this.classes = new TenantClasses(classes.data)
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
    return this.index.hasRoom(request)
  }

  async programFlushed(program: ProgramListed, spend: RunSpendTold | null = null): Promise<void> {
    const [is_waiting] = await Promise.all([
      spend === null ? false : this.meteredUsage.told(spend, this.gathers),
      this.index.told(program),
    ])
    if (is_waiting) this.alarmIn(CHANGES_WRITTEN_MS)
  }

  async charged(spend: RunSpendTold): Promise<void> {
    await this.meteredUsage.told(spend, false)
  }

  async programEnded(
    program: string,
    run: string,
    ended_class: string | null = null,
    spend: RunSpendTold | null = null,
  ): Promise<string | null> {
    if (spend !== null) await this.meteredUsage.told(spend, false)
    const counts_for = ended_class === null ? null : this.classFor(ended_class)
    await this.index.ended(program, run)
    return counts_for
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
      const forgotten = classActor(this.env, Id.parse(this.ctx.id.name), displaced).forget()
      // It is forgotten in any case when it has had no end for long enough.
      this.ctx.waitUntil(forgotten.catch((error: unknown) => logFailure('class_not_forgotten', error)))
    }
    return counts_for
  }

  running(page: Parameters<TenantRpc['running']>[0]): ReturnType<TenantRpc['running']> {
    return this.index.page(page)
  }

  runningCount(): Promise<number> {
    return this.index.count()
  }

  meter(records: Parameters<TenantRpc['meter']>[0]): Promise<void> {
    return this.meteredUsage.record(records)
  }

  usage(page: Parameters<TenantRpc['usage']>[0]): ReturnType<TenantRpc['usage']> {
    return this.meteredUsage.page(page)
  }

  async shareBudget(asked: Parameters<TenantRpc['shareBudget']>[0]): ReturnType<TenantRpc['shareBudget']> {
    await this.meteredUsage.countTold()
    return this.budgets.share(asked, Date.now())
  }

  spend(asked: Parameters<TenantRpc['spend']>[0]): ReturnType<TenantRpc['spend']> {
    return this.meteredUsage.spend(asked)
  }

  goingOn(name: string): ReturnType<TenantRpc['goingOn']> {
    return this.index.goingOn(name)
  }

  async medianService(): Promise<{ settled_service_us: number }> {
    return { settled_service_us: await this.index.medianServiceUs() }
  }
}
