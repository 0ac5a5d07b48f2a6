/**
 * ClassActor: one per tenant and class of programs. It holds what ended programs of the class tell, as core's sketch. What
 * programs tell that go on is in the tenant's index, and is asked for there.
 *
 * Keeps true:
 * - An end counts once, however often it is told.
 * - Nothing waits for a write. Storage is written FLUSH_MS after a change, so a crash loses the ends of that time. They
 *   are a few among many.
 * - D1 has a copy, written at most once in ROW_INTERVAL_MS. Operators read it, and an object that lost its storage starts
 *   from it.
 * - A class without an end for as long as ended programs are kept is forgotten, here and in D1.
 */
import { DurableObject } from 'cloudflare:workers'
import { z } from 'zod'
import { type BackoffBounds, backoffMs } from '../core/backoff.ts'
import { ClassEnds, ClassEndsData } from '../core/classes/class-ends.ts'
import type { SketchBin } from '../core/classes/log-sketch.ts'
import type { Env } from '../env.ts'
import { logFailure } from '../platform/log.ts'
import { Id } from '../protocol/index.ts'
import { dropClass, knownClass, putClass } from '../store/classes.ts'
import { withDeadline } from '../store/d1-deadline.ts'
import type { ClassRpc } from './contracts.ts'
import { Mutex } from './mutex.ts'
import { tenantActor } from './stubs.ts'

/** From an end to its write. */
export const CLASS_FLUSH_MS = 3_000
/** Between two writes of D1's row. */
export const ROW_INTERVAL_MS = 60_000
/** While D1 refuses the row. */
const ROW_RETRY: BackoffBounds = { min_ms: ROW_INTERVAL_MS, max_ms: 60 * 60_000 }
const DAY_MS = 24 * 60 * 60_000
const STATE_KEY = 'class'

const ClassName = z.tuple([Id, Id])
/** `row`: what D1 has. Null: nothing. */
const StoredClass = z.object({
  known: ClassEndsData,
  row: z.object({ ends: z.number(), at_ms: z.number() }).nullable(),
})
type StoredRow = z.infer<typeof StoredClass>['row']

export class ClassActor extends DurableObject<Env> implements ClassRpc {
  private readonly tenant: string
  private readonly name: string
  private readonly retentionMs: number
  /** Null: nothing is stored here. */
  private known: ClassEnds | null = null
  private row: StoredRow = null
  /** Of an object that stored nothing: it looks into D1 before it counts. */
  private opening: Promise<ClassEnds> | null = null
  /** D1's row is written and removed by one at a time: none may be left of a class that was forgotten. */
  private readonly writing = new Mutex()
  private flushing: ReturnType<typeof setTimeout> | null = null
  private rowFailures = 0

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env)
    const [tenant, name] = ClassName.parse(JSON.parse(ctx.id.name ?? 'null'))
    this.tenant = tenant
    this.name = name
    this.retentionMs = Number(env.ARCHIVE_RETENTION_DAYS) * DAY_MS
    if (!(this.retentionMs > 0)) throw new Error('ARCHIVE_RETENTION_DAYS must be a number of days above 0')
    ctx.blockConcurrencyWhile(async () => {
      const stored = StoredClass.safeParse(await ctx.storage.get(STATE_KEY))
      if (!stored.success) return
      this.known = new ClassEnds(stored.data.known)
      this.row = stored.data.row
    })
  }

  /** Tests shorten it. */
  protected get rowIntervalMs(): number {
    return ROW_INTERVAL_MS
  }

  async ended({ run, program }: Parameters<ClassRpc['ended']>[0]): Promise<void> {
    const known = this.known ?? (await this.open())
    if (known.add(run, program, Date.now())) this.flushSoon()
  }

  async sketch(known_revision: string | null): ReturnType<ClassRpc['sketch']> {
    const going_on = await this.goingOn()
    const ends = this.known?.ends ?? 0
    const revision = JSON.stringify([ends, going_on])
    if ((ends === 0 && going_on.length === 0) || revision === known_revision) return null
    return { sketch: { ...(this.known ?? ClassEnds.none()).sketch(), going_on }, revision }
  }

  /** Nothing where the tenant's object does not answer: ends tell most. */
  private async goingOn(): Promise<SketchBin[]> {
    try {
      return await tenantActor(this.env, this.tenant).goingOn(this.name)
    } catch (error) {
      logFailure('tenant_not_asked', error, { tenant: this.tenant })
      return []
    }
  }

  forget(): Promise<void> {
    return this.writing.run(() => this.forgetAlone())
  }

  private async forgetAlone(): Promise<void> {
    await dropClass(this.d1, this.tenant, this.name)
    if (this.flushing !== null) clearTimeout(this.flushing)
    this.flushing = null
    this.known = null
    this.row = null
    await Promise.all([this.ctx.storage.deleteAlarm(), this.ctx.storage.deleteAll()])
  }

  /** May fire twice, late, or for nothing. */
  override alarm(): Promise<void> {
    return this.writing.run(() => this.keep())
  }

  private async keep(): Promise<void> {
    const { known } = this
    if (known === null) return
    try {
      if (Date.now() - known.last_end_ms >= this.retentionMs) return await this.forgetAlone()
      await this.writeRow(known)
      this.rowFailures = 0
    } catch (error) {
      logFailure('class_not_kept', error, { tenant: this.tenant })
      this.rowFailures += 1
      return this.ctx.storage.setAlarm(Date.now() + backoffMs(this.rowFailures, ROW_RETRY, Math.random()))
    }
    const due_ms =
      known.ends === this.row?.ends ? known.last_end_ms + this.retentionMs : Date.now() + this.rowIntervalMs
    await this.ctx.storage.setAlarm(due_ms)
  }

  private get d1(): D1Database {
    return withDeadline(this.env.DB)
  }

  private open(): Promise<ClassEnds> {
    this.opening ??= this.openFromRow().finally(() => {
      this.opening = null
    })
    return this.opening
  }

  private async openFromRow(): Promise<ClassEnds> {
    const row = await knownClass(this.d1, this.tenant, this.name)
    if (row === null) this.known = ClassEnds.none()
    else {
      const { sketch, ends, updated_at_ms } = row
      this.known = new ClassEnds({ sketch, runs: [], last_end_ms: updated_at_ms })
      this.row = { ends, at_ms: updated_at_ms }
    }
    return this.known
  }

  private flushSoon(): void {
    this.flushing ??= setTimeout(() => {
      this.flushing = null
      this.flush().catch((error: unknown) => {
        logFailure('flush_failed', error)
        this.flushSoon()
      })
    }, CLASS_FLUSH_MS)
  }

  private async flush(): Promise<void> {
    if (this.known === null) return
    await this.store(this.known)
    const row_due_ms = Math.max(Date.now(), (this.row?.at_ms ?? 0) + this.rowIntervalMs)
    const alarm_ms = await this.ctx.storage.getAlarm()
    const is_retried = this.rowFailures > 0 && alarm_ms !== null
    if (!is_retried && (alarm_ms === null || alarm_ms > row_due_ms)) await this.ctx.storage.setAlarm(row_due_ms)
  }

  private async writeRow(known: ClassEnds): Promise<void> {
    if (known.ends === this.row?.ends) return
    const { ends } = known
    const at_ms = Date.now()
    const { tenant, name } = this
    await putClass(this.d1, { tenant, class: name, ends, updated_at_ms: at_ms, sketch: known.sketch() })
    this.row = { ends, at_ms }
    await this.store(known)
  }

  private async store(known: ClassEnds): Promise<void> {
    await this.ctx.storage.put(STATE_KEY, { known: known.data(), row: this.row })
  }
}
