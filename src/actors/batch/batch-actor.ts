/**
 * One batch: checks its lines, runs them and hands over its files. It works in its alarm, a slice at a time, so that a
 * restart of anything goes on by itself.
 *
 * Keeps true:
 * - D1's row follows the status. It is written before the actor forgets a batch that has ended.
 * - Output and error file are visible once the batch has ended, and never before.
 * - A failure of R2, D1 or this code ends a slice and not the batch: the next slice begins from what is stored.
 */
import { DurableObject } from 'cloudflare:workers'
import { type BackoffBounds, backoffMs } from '../../core/backoff.ts'
import { withResults } from '../../core/batch/batch-lengths.ts'
import { type BatchEnding, type BatchState, type NewBatch, newBatch, START } from '../../core/batch/batch-state.ts'
import type { Env } from '../../env.ts'
import { logFailure } from '../../platform/log.ts'
import { putBatch } from '../../store/batches.ts'
import { withDeadline } from '../../store/d1-deadline.ts'
import { publishFile } from '../../store/files.ts'
import { BatchRequests, batchRules, inputDeleted } from './batch-lines.ts'
import type { BatchRpc } from './batch-rpc.ts'
import { BatchStorage } from './batch-storage.ts'
import { type BatchLinesFetcher, callableModels, callLine, type LineCall, type LineOutcome } from './line-call.ts'
import { LineRun, PACK_MS, type RunStop } from './line-run.ts'
import { Validation } from './validation.ts'

/** Of lines that run. The alarm comes again after it, and D1's row is written. */
const RUN_SLICE_MS = 10_000
const RETRY: BackoffBounds = { min_ms: 1_000, max_ms: 60_000 }

type Step = 'more' | 'over'

export class BatchActor extends DurableObject<Env> implements BatchRpc {
  private readonly storage: BatchStorage
  /** As stored, and changed in place. Null: not loaded, or there is no batch. */
  private state: BatchState | null = null
  private validation: Validation | null = null
  private run: LineRun | null = null
  private failures = 0

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env)
    this.storage = new BatchStorage(ctx.storage)
    ctx.blockConcurrencyWhile(async () => {
      this.state = await this.storage.state()
    })
  }

  async start(given: NewBatch, files: { output: string; errors: string }): Promise<BatchState> {
    const state = this.state ?? newBatch(given, files)
    // A batch that no list shows must not run.
    await putBatch(this.d1, state)
    this.state = state
    await Promise.all([this.storage.putState(state), this.ctx.storage.setAlarm(Date.now())])
    return state
  }

  async describe(): Promise<BatchState | null> {
    return this.state === null ? null : { ...this.state, ...this.run?.counts }
  }

  /** Null: it has ended. */
  async cancel(): Promise<BatchState | null> {
    const { state } = this
    if (state === null || state.ending !== null) return this.describe()
    const now_ms = Date.now()
    state.status = 'cancelling'
    state.ending = 'cancelled'
    state.cancelling_at_ms = now_ms
    this.run?.stop({ kind: 'cancelled' })
    await Promise.all([this.storage.putState(state), this.ctx.storage.setAlarm(now_ms)])
    return this.describe()
  }

  override async alarm(): Promise<void> {
    const { state } = this
    if (state === null) return
    try {
      const step = await this.advance(state)
      this.failures = 0
      if (step === 'more') await this.ctx.storage.setAlarm(Date.now())
    } catch (error) {
      logFailure('batch_not_advanced', error, { tenant: state.tenant, batch: state.id })
      this.failures += 1
      await this.reload()
      await this.ctx.storage.setAlarm(Date.now() + backoffMs(this.failures, RETRY, Math.random()))
    }
  }

  /** What memory has may be half of a change. */
  private async reload(): Promise<void> {
    this.run?.stop({ kind: 'cancelled' })
    this.run = null
    this.validation = null
    this.state = await this.storage.state()
  }

  private async advance(state: BatchState): Promise<Step> {
    if (state.ended_at_ms !== null) return this.forget(state)
    if (Date.now() >= state.expires_at_ms) this.expire(state)
    if (state.in_progress_at_ms === null) {
      if (state.ending !== null) return this.end(state, state.ending)
      return this.validate(state)
    }
    if (state.status === 'finalizing' && state.ending !== null) return this.end(state, state.ending)
    return this.runLines(state)
  }

  private expire(state: BatchState): void {
    if (state.ending !== null) return
    state.ending = 'expired'
  }

  private async validate(state: BatchState): Promise<Step> {
    this.validation ??= await Validation.resume(
      batchRules(state, await callableModels(this.lines, state)),
      ...([this.storage.ids, this.env.BUCKET] as const),
    )
    const checked = { faults: state.faults, place: state.done }
    const found = await this.validation.check(checked, () => {
      state.done = checked.place
      return this.storage.putState(state)
    })
    if (found === 'more') return 'more'
    this.validation = null
    state.done = checked.place
    if (state.faults.length > 0) return this.end(state, 'failed')
    state.total = state.done.requests
    state.done = START
    if (state.ending === null) state.status = 'in_progress'
    state.in_progress_at_ms = Date.now()
    await Promise.all([this.storage.putState(state), this.storage.ids.drop()])
    await putBatch(this.d1, state)
    return 'more'
  }

  /** Through an entrypoint of this Worker: line-call.ts. */
  private serveLine(call: LineCall, signal: AbortSignal): Promise<LineOutcome> {
    return callLine(this.lines, call, signal)
  }

  private get lines(): BatchLinesFetcher {
    return (this.ctx.exports as unknown as { BatchLines: BatchLinesFetcher }).BatchLines
  }

  private async runLines(state: BatchState): Promise<Step> {
    this.run ??= await LineRun.resume({
      ...{ tenant: state.tenant, key: state.key, counts: state, packs: this.storage.packs, pack_ms: PACK_MS },
      source: new BatchRequests(state, this.env.BUCKET),
      serve: (call, signal) => this.serveLine(call, signal),
      files: {
        ...{ bucket: this.env.BUCKET, tenant: state.tenant },
        fileOf: ({ ok }) => (ok ? state.output : state.errors),
        save: (_first, results) => {
          state.lengths = withResults(state.lengths, results)
          return this.storage.putDone(state)
        },
      },
    })
    const { run } = this
    if (state.ending === 'cancelled') run.stop({ kind: 'cancelled' })
    if (state.ending === 'expired') run.stop({ kind: 'expired' })
    const slice = await run.sliceUntil(Math.min(Date.now() + RUN_SLICE_MS, untilOf(state)))
    if (slice.status === 'more') {
      await putBatch(this.d1, { ...state, ...run.counts })
      return 'more'
    }
    if (slice.status === 'stopped') {
      await run.writeRest()
      noteStop(state, slice.stop)
    }
    this.run = null
    state.ending ??= 'completed'
    return this.end(state, state.ending)
  }

  /** All results are in R2. */
  private async end(state: BatchState, ending: BatchEnding): Promise<Step> {
    const now_ms = Date.now()
    state.ending = ending
    if (ending === 'completed' || ending === 'expired') {
      state.status = 'finalizing'
      state.finalizing_at_ms ??= now_ms
    }
    await this.storage.putState(state)
    const expires_at_ms = state.output_expires_after_s === null ? null : now_ms + state.output_expires_after_s * 1000
    const made = { purpose: 'batch_output', created_at_ms: now_ms, expires_at_ms }
    for (const [kind, { file, parts }] of [
      ['output', state.output],
      ['error', state.errors],
    ] as const) {
      if (parts.length === 0) continue
      await publishFile(this.d1, state.tenant, { ...made, id: file, filename: `${state.id}_${kind}.jsonl`, parts })
    }
    state.status = ending
    state.ended_at_ms = now_ms
    await this.storage.putState(state)
    return this.forget(state)
  }

  /** Once D1 has how it ended. */
  private async forget(state: BatchState): Promise<Step> {
    await putBatch(this.d1, state)
    await this.storage.clear()
    this.state = null
    return 'over'
  }

  private get d1(): D1Database {
    return withDeadline(this.env.DB)
  }
}

/** A slice ends where the batch expires. */
function untilOf({ ending, expires_at_ms }: BatchState): number {
  return ending === null ? expires_at_ms : Number.POSITIVE_INFINITY
}

function noteStop(state: BatchState, stop: RunStop | 'deleted'): void {
  if (stop === 'deleted') state.faults.push(inputDeleted(state.input.file))
  else if (stop.kind === 'failed') {
    state.faults.push({ code: stop.code, line: null, message: stop.message, param: null })
  }
  if (stop === 'deleted' || stop.kind === 'failed') state.ending = 'failed'
}
