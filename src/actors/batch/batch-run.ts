/**
 * Runs the lines of a valid batch. It reads them in order, keeps a window of them open (core/batch/call-window.ts), and
 * writes their results in order.
 *
 * Keeps true:
 * - Every line has one result in the files: an engine may serve a line twice after a crash, but one of its answers counts.
 * - Memory is bounded: by the window, OPEN_BYTES_MAX of open lines, and AHEAD_BYTES_MAX of results that wait for an earlier
 *   line.
 * - After a crash, results of the last PACK_MS are made again, and none before.
 */
import { type BatchLine, checkLine } from '../../core/batch/batch-line.ts'
import type { BatchPlace, BatchState } from '../../core/batch/batch-state.ts'
import { CallWindow } from '../../core/batch/call-window.ts'
import { nextAttempt } from '../../core/batch/line-attempts.ts'
import { answeredLine, expiredLine, type LineResult } from '../../core/batch/line-result.ts'
import { ResultOrder } from '../../core/batch/result-order.ts'
import { BatchOutput } from './batch-output.ts'
import { type BatchStorage, PACK_BYTES_MAX, type StoredResult } from './batch-storage.ts'
import type { LineOutcome, ServeLine } from './line-call.ts'
import { LineSource } from './line-source.ts'

/** From a result to its pack: results of this time share one. */
export const PACK_MS = 500
const OPEN_BYTES_MAX = 16 * 1024 * 1024
const AHEAD_BYTES_MAX = 8 * 1024 * 1024
const AHEAD_LINES_MAX = 4096
/** Of one event of the actor: the platform bounds what one event asks of others. A line asks twice or three times. */
export const LINES_PER_SLICE = 250
/** As they cost no call. */
const EXPIRED_LINES_PER_SLICE = 5_000
/** How long lines that were aborted may take to end. */
const ABORT_MS = 5_000

interface ReadLine {
  request: number
  end: BatchPlace
  line: BatchLine
  bytes: number
}

export type RunStop = { kind: 'cancelled' } | { kind: 'expired' } | { kind: 'failed'; code: string; message: string }

/** `more`: it goes on with the next slice. `deleted`: the input file is gone. */
type RunSlice = { status: 'more' } | { status: 'written' } | { status: 'stopped'; stop: RunStop | 'deleted' }

export class BatchRun {
  readonly #state: BatchState
  readonly #storage: BatchStorage
  readonly #serve: ServeLine
  readonly #source: LineSource
  readonly #order: ResultOrder<StoredResult>
  readonly #output: BatchOutput
  readonly #window = new CallWindow()
  readonly #open = new Map<number, { abort: AbortController; bytes: number; ended: Promise<void> }>()
  /** Read up to here. */
  #read: BatchPlace
  #is_all_read = false
  #open_bytes = 0
  #ahead_bytes = 0
  #unpacked: StoredResult[] = []
  #unpacked_bytes = 0
  #pack_due_ms = 0
  #stop: RunStop | 'deleted' | null = null
  #wake = Promise.withResolvers<void>()

  private constructor(
    state: BatchState,
    storage: BatchStorage,
    bucket: R2Bucket,
    packed: readonly StoredResult[],
    serve: ServeLine,
  ) {
    this.#state = state
    this.#storage = storage
    this.#serve = serve
    this.#source = new LineSource(bucket, state.tenant, state.input.parts, state.done)
    this.#order = new ResultOrder(state.done.requests)
    this.#output = new BatchOutput(storage, bucket, state)
    this.#read = state.done
    for (const result of packed) this.#take(result)
  }

  static async resume(state: BatchState, storage: BatchStorage, bucket: R2Bucket, serve: ServeLine): Promise<BatchRun> {
    return new BatchRun(state, storage, bucket, await storage.packed(), serve)
  }

  /** Results so far, whether R2 has them or not. */
  get counts(): { completed: number; failed: number } {
    const { ok, failed } = this.#output.counts
    let [waiting_ok, waiting_failed] = [0, 0]
    for (const { ok: is_ok } of this.#order.values()) {
      if (is_ok) waiting_ok += 1
      else waiting_failed += 1
    }
    return {
      completed: this.#state.completed + ok + waiting_ok,
      failed: this.#state.failed + failed + waiting_failed,
    }
  }

  /** Takes effect in the slice that runs, or in the next. A line that is open is aborted. */
  stop(stop: RunStop | 'deleted'): void {
    if (this.#stop !== null) return
    this.#stop = stop
    this.#wake.resolve()
    // What was read before the file was deleted is answered.
    if (stop === 'deleted') return
    for (const { abort } of this.#open.values()) abort.abort(new Error('the batch has stopped'))
  }

  /** Runs lines until `until_ms`, or LINES_PER_SLICE of them. Open lines go on between slices. */
  async slice(until_ms: number): Promise<RunSlice> {
    for (let started = 0; ; ) {
      this.#wake = Promise.withResolvers<void>()
      started += await this.#openLines(started)
      await this.#keep()
      const stop = this.#isExpiring ? null : this.#stop
      if (stop !== null && (stop !== 'deleted' || this.#open.size === 0)) return { status: 'stopped', stop }
      if (this.#is_all_read && this.#open.size === 0) return this.#finish()
      if (Date.now() >= until_ms || started >= this.#lines_max) return { status: 'more' }
      await this.#changed(until_ms)
    }
  }

  /** After it was stopped: what has finished is written, whatever is missing before it. */
  async writeRest(): Promise<void> {
    const ended = Promise.all([...this.#open.values()].map((line) => line.ended))
    await Promise.race([ended, new Promise((resolve) => setTimeout(resolve, ABORT_MS))])
    for (const result of this.#order.takeAll()) {
      this.#output.add(result)
      if (this.#output.isFull) await this.#output.write()
    }
    await this.#output.write()
  }

  get #isExpiring(): boolean {
    return this.#stop !== null && this.#stop !== 'deleted' && this.#stop.kind === 'expired'
  }

  get #lines_max(): number {
    return this.#isExpiring ? EXPIRED_LINES_PER_SLICE : LINES_PER_SLICE
  }

  async #finish(): Promise<RunSlice> {
    await this.#output.write()
    return this.#isExpiring ? { status: 'stopped', stop: { kind: 'expired' } } : { status: 'written' }
  }

  /** Opens lines while there is room. Returns how many. */
  async #openLines(started: number): Promise<number> {
    let opened = 0
    while (!this.#is_all_read && started + opened < this.#lines_max && this.#hasRoom) {
      const read = await this.#next()
      if (read === null) break
      opened += 1
      if (this.#isExpiring) this.#expire(read)
      else this.#start(read)
    }
    return opened
  }

  get #hasRoom(): boolean {
    if (this.#isExpiring) return this.#unpacked_bytes < PACK_BYTES_MAX
    return (
      this.#stop === null &&
      this.#open.size < this.#window.size &&
      this.#open_bytes < OPEN_BYTES_MAX &&
      this.#order.waiting < AHEAD_LINES_MAX &&
      this.#ahead_bytes < AHEAD_BYTES_MAX
    )
  }

  /** The next line without a result. Null: there is none, or the file is gone. */
  async #next(): Promise<ReadLine | null> {
    for (;;) {
      const next = await this.#source.next()
      if (next.status === 'deleted') {
        this.stop('deleted')
        return null
      }
      if (next.status === 'end') {
        this.#is_all_read = true
        return null
      }
      const checked = checkLine(next.line, this.#state.endpoint)
      if (checked.status === 'fault') throw new Error(`line ${next.line.number} was valid and is not`)
      const { requests } = this.#read
      this.#read = { ...next.line.end, requests: requests + (checked.status === 'line' ? 1 : 0) }
      if (checked.status === 'blank' || this.#order.has(requests)) continue
      return { request: requests, end: this.#read, line: checked.line, bytes: next.line.bytes?.length ?? 0 }
    }
  }

  #start(read: ReadLine): void {
    const abort = new AbortController()
    const { bytes } = read
    this.#open_bytes += bytes
    const ended = this.#run(read, abort.signal).then((result) => {
      this.#open.delete(read.request)
      this.#open_bytes -= bytes
      if (result !== null) this.#ended({ ...result, request: read.request, end: read.end })
      this.#wake.resolve()
    })
    this.#open.set(read.request, { abort, bytes, ended })
  }

  /** Null: it was stopped without a result. */
  async #run({ request, line }: ReadLine, signal: AbortSignal): Promise<LineResult | null> {
    const { tenant, key, endpoint } = this.#state
    const id = this.#requestId(request)
    for (let attempts = 1; ; attempts += 1) {
      const outcome = await this.#serve({ tenant, key, endpoint, body: line.body }, signal)
      if (signal.aborted) return this.#isExpiring ? expiredLine(id, line.custom_id) : null
      if (outcome.status === 'refused') {
        this.stop({ kind: 'failed', code: 'key_refused', message: outcome.message })
        return null
      }
      const { wait_ms, is_refused } = nextAttempt(failureOf(outcome), attempts, Math.random())
      if (is_refused) this.#window.refused()
      if (wait_ms === null || isAnswer(outcome)) return this.#resultOf(id, line.custom_id, outcome)
      await pause(wait_ms, signal)
      if (signal.aborted) return this.#isExpiring ? expiredLine(id, line.custom_id) : null
    }
  }

  #resultOf(id: string, custom_id: string, outcome: Exclude<LineOutcome, { status: 'refused' }>): LineResult {
    const answer = outcome.status === 'broken' ? BROKEN : outcome
    const { result, times } = answeredLine(id, custom_id, answer)
    if (times !== null) this.#window.served(times.wait_s, times.service_s)
    return result
  }

  #expire({ request, end, line }: ReadLine): void {
    this.#ended({ ...expiredLine(this.#requestId(request), line.custom_id), request, end })
  }

  #ended(result: StoredResult): void {
    if (this.#unpacked.length === 0) this.#pack_due_ms = Date.now() + PACK_MS
    this.#unpacked.push(result)
    this.#unpacked_bytes += result.bytes.length
    this.#take(result)
  }

  #take(result: StoredResult): void {
    if (this.#order.has(result.request)) return
    this.#order.add(result.request, result)
    this.#ahead_bytes += result.bytes.length
    for (const next of this.#order.take()) {
      this.#ahead_bytes -= next.bytes.length
      this.#output.add(next)
    }
  }

  /** Stores what is due. */
  async #keep(): Promise<void> {
    if (this.#output.isFull) {
      this.#unpacked = this.#unpacked.filter(({ request }) => request >= this.#order.next)
      await this.#output.write()
    }
    const is_due = Date.now() >= this.#pack_due_ms || this.#unpacked_bytes >= PACK_BYTES_MAX / 2
    while (is_due && this.#unpacked.length > 0) await this.#storage.putPack(this.#nextPack())
    this.#unpacked_bytes = this.#unpacked.reduce((sum, { bytes }) => sum + bytes.length, 0)
  }

  /** As many results as fit into one pack, and at least one. */
  #nextPack(): StoredResult[] {
    let bytes = 0
    let count = 0
    for (const result of this.#unpacked) {
      bytes += result.bytes.length
      if (count > 0 && bytes > PACK_BYTES_MAX) break
      count += 1
    }
    return this.#unpacked.splice(0, count)
  }

  /** A line ended, the batch was stopped, a pack is due, or it is `until_ms`. */
  async #changed(until_ms: number): Promise<void> {
    const due_ms = this.#unpacked.length > 0 ? Math.min(until_ms, this.#pack_due_ms) : until_ms
    const { promise: due, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, Math.max(0, due_ms - Date.now()))
    await Promise.race([this.#wake.promise, due])
    clearTimeout(timer)
  }

  #requestId(request: number): string {
    return `batch_req_${this.#state.id.slice('batch_'.length)}_${request}`
  }
}

const BROKEN = {
  http_status: 502,
  call: null,
  body: JSON.stringify({
    error: {
      message: 'The engines failed while they were answering this line, as often as it was tried.',
      type: 'server_error',
      param: null,
      code: 'engine_failed',
    },
  }),
}

function isAnswer(outcome: LineOutcome): boolean {
  return outcome.status === 'answered' && outcome.http_status < 400
}

function failureOf(outcome: Exclude<LineOutcome, { status: 'refused' }>) {
  if (outcome.status === 'broken') return 'broken' as const
  const { http_status, error_code, retry_after_s } = outcome
  return { http_status, code: error_code, retry_after_s }
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, ms)
  signal.addEventListener('abort', () => resolve(), { once: true })
  await promise
  clearTimeout(timer)
}
