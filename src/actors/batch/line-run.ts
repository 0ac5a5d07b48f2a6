/**
 * Runs requests that come from the lines of a file, for batches and for the nodes of applications. It takes them in order
 * from their source, keeps a window of them open (core/batch/call-window.ts), and writes their results in order.
 *
 * Keeps true:
 * - Every request has one result: an engine may serve it twice after a crash, but one of its answers counts.
 * - Memory is bounded: by the window, and by bytes of open requests and of results that wait for an earlier one.
 * - After a crash, results of the last moments are made again, and none before: those that came `pack_ms` ago are stored.
 */
import type { Place } from '../../core/batch/batch-state.ts'
import { CallWindow } from '../../core/batch/call-window.ts'
import { nextAttempt } from '../../core/batch/line-attempts.ts'
import type { LineAnswer, LineResult, ServedTimes } from '../../core/batch/line-result.ts'
import { ResultOrder } from '../../core/batch/result-order.ts'
import type { LineCall, LineOutcome, ServeLine } from './line-call.ts'
import { type ResultCounts, ResultFile, type ResultFiles } from './result-file.ts'
import { PACK_BYTES_MAX, type ResultPacks, type StoredResult } from './result-packs.ts'
import { Slice } from './slice.ts'

/** From a result of a batch to its pack: results of this time share one. */
export const PACK_MS = 500
/** Of one actor. */
export const OPEN_BYTES_MAX = 16 * 1024 * 1024
export const AHEAD_BYTES_MAX = 8 * 1024 * 1024
const AHEAD_LINES_MAX = 4096
/** As they cost no call. */
const EXPIRED_LINES_PER_SLICE = 5_000
/** How long lines that were aborted may take to end. */
const ABORT_MS = 5_000

interface RunRequest {
  /** Its number: requests of one run are counted. */
  request: number
  /** After it. */
  end: Place
  /** Of memory that it takes while it is open. */
  bytes: number
  /** A result: it needs no call. */
  call: Pick<LineCall, 'endpoint' | 'body'> | LineResult
  answered(answer: LineAnswer): { result: LineResult; times: ServedTimes | null }
  /** Null: the run is never stopped as expired. */
  expired: (() => LineResult) | null
}

/** `later`: none is ready, and the run is woken when one may be. `deleted`: the input is gone. */
export type NextRequest = { status: 'request'; request: RunRequest } | { status: 'later' | 'end' | 'deleted' }

export interface RequestSource {
  /** The next one that has no result. Each is given once. `only`: no other one than this has room. */
  next(isDone: (request: number) => boolean, only: number | null): Promise<NextRequest>
}

export interface RunSettings {
  tenant: string
  /** Id of the API key. */
  key: string
  source: RequestSource
  serve: ServeLine
  packs: ResultPacks
  files: ResultFiles
  counts: ResultCounts
  pack_ms: number
  /** Of results in memory, before they make a part. */
  part_bytes?: number
  /** This part of the bounds of one actor is the run's. */
  share?: number
  /** Results that are stored. */
  onStored?(results: readonly StoredResult[]): void
}

export type RunStop = { kind: 'cancelled' } | { kind: 'expired' } | { kind: 'failed'; code: string; message: string }

/** `more`: it goes on with the next slice. `deleted`: the input file is gone. */
type RunSlice = { status: 'more' } | { status: 'written' } | { status: 'stopped'; stop: RunStop | 'deleted' }

export class LineRun {
  readonly #settings: RunSettings
  readonly #share: number
  readonly #order: ResultOrder<StoredResult>
  readonly #file: ResultFile
  readonly #window = new CallWindow()
  readonly #open = new Map<number, { abort: AbortController; bytes: number; ended: Promise<void> }>()
  #is_all_read = false
  #open_bytes = 0
  #ahead_bytes = 0
  #unpacked: StoredResult[] = []
  #unpacked_bytes = 0
  #pack_due_ms = 0
  #stop: RunStop | 'deleted' | null = null
  #wake = Promise.withResolvers<void>()
  #retry = Promise.withResolvers<void>()

  private constructor(settings: RunSettings, packed: readonly StoredResult[]) {
    const { counts, files, part_bytes, share = 1 } = settings
    this.#settings = settings
    this.#share = share
    this.#order = new ResultOrder(counts.done.requests)
    this.#file = new ResultFile(files, counts, part_bytes)
    for (const result of packed) this.#take(result)
    settings.onStored?.(packed)
  }

  static async resume(settings: RunSettings): Promise<LineRun> {
    const packed = await settings.packs.load()
    return new LineRun(
      settings,
      packed.filter(({ request }) => request >= settings.counts.done.requests),
    )
  }

  /** Results so far, whether R2 has them or not. */
  get counts(): { completed: number; failed: number } {
    const { completed, failed } = this.#settings.counts
    const gathered = this.#file.counts
    let [waiting_ok, waiting_failed] = [0, 0]
    for (const { ok } of this.#order.values()) {
      if (ok) waiting_ok += 1
      else waiting_failed += 1
    }
    return { completed: completed + gathered.ok + waiting_ok, failed: failed + gathered.failed + waiting_failed }
  }

  /** Requests that are open. */
  get open(): number {
    return this.#open.size
  }

  /** Engines have become ready: what waits to be tried again is tried now. */
  retryNow(): void {
    this.#window.restart()
    this.#retry.resolve()
    this.#retry = Promise.withResolvers<void>()
  }

  /** A request may be ready. */
  wake(): void {
    this.#wake.resolve()
  }

  /** Takes effect in the slice that runs, or in the next. A line that is open is aborted. */
  stop(stop: RunStop | 'deleted'): void {
    if (this.#stop !== null) return
    this.#stop = stop
    this.#wake.resolve()
    // What was read before the file was deleted is answered.
    if (stop === 'deleted') return
    for (const { abort } of this.#open.values()) abort.abort(new Error('the run has stopped'))
  }

  /** Starts requests until the slice is over. Open ones go on between slices. */
  async slice(slice: Slice): Promise<RunSlice> {
    for (;;) {
      this.#wake = Promise.withResolvers<void>()
      await this.#openLines(slice)
      await this.#keep()
      const stop = this.#isExpiring ? null : this.#stop
      if (stop !== null && (stop !== 'deleted' || this.#open.size === 0)) return { status: 'stopped', stop }
      if (this.#is_all_read && this.#open.size === 0) return this.#finish()
      if (slice.isOver) return { status: 'more' }
      await this.#changed(slice)
    }
  }

  /** Of an event in which only this one runs. */
  sliceUntil(until_ms: number): Promise<RunSlice> {
    return this.slice(new Slice(until_ms, this.#isExpiring ? EXPIRED_LINES_PER_SLICE : undefined))
  }

  /** Open requests have ended. None must be started meanwhile. */
  async drained(): Promise<void> {
    await Promise.all([...this.#open.values()].map((line) => line.ended))
  }

  /** After it was stopped: open requests have ended, and what has finished is stored. */
  async store(): Promise<void> {
    await this.#aborted()
    this.#pack_due_ms = 0
    await this.#keep()
  }

  /** After it was stopped: what has finished is written, whatever is missing before it. */
  async writeRest(): Promise<void> {
    await this.#aborted()
    for (const result of this.#order.takeAll()) {
      this.#file.add(result)
      if (this.#file.isFull) await this.#file.write()
    }
    await this.#file.write()
  }

  async #aborted(): Promise<void> {
    await Promise.race([this.drained(), new Promise((resolve) => setTimeout(resolve, ABORT_MS))])
  }

  get #isExpiring(): boolean {
    return this.#stop !== null && this.#stop !== 'deleted' && this.#stop.kind === 'expired'
  }

  async #finish(): Promise<RunSlice> {
    await this.#file.write()
    this.#settings.onStored?.(this.#unpacked.splice(0))
    return this.#isExpiring ? { status: 'stopped', stop: { kind: 'expired' } } : { status: 'written' }
  }

  /** Opens requests while there is room. */
  async #openLines(slice: Slice): Promise<void> {
    while (!this.#is_all_read && !slice.isOver) {
      const room = this.#room
      if (room === 'none') return
      const only = room === 'first' ? this.#order.next : null
      const next = await this.#settings.source.next((request) => this.#order.has(request), only)
      if (next.status === 'deleted') this.stop('deleted')
      if (next.status === 'end') this.#is_all_read = true
      if (next.status !== 'request') return
      slice.started(1)
      if (this.#isExpiring) this.#expire(next.request)
      else this.#start(next.request)
    }
  }

  /** `first`: for the request that all later results wait for. */
  get #room(): 'any' | 'first' | 'none' {
    if (this.#isExpiring) return this.#unpacked_bytes < PACK_BYTES_MAX ? 'any' : 'none'
    const share = this.#share
    if (this.#stop !== null || this.#open.size >= this.#window.size) return 'none'
    if (this.#open_bytes >= share * OPEN_BYTES_MAX) return 'none'
    const is_far_ahead = this.#order.waiting >= AHEAD_LINES_MAX || this.#ahead_bytes >= share * AHEAD_BYTES_MAX
    return is_far_ahead ? 'first' : 'any'
  }

  #start(read: RunRequest): void {
    const { call, request, end, bytes } = read
    if ('ok' in call) {
      this.#ended({ ...call, request, end })
      return
    }
    const abort = new AbortController()
    this.#open_bytes += bytes
    const ended = this.#run(read, call, abort.signal).then((result) => {
      this.#open.delete(request)
      this.#open_bytes -= bytes
      if (result !== null) this.#ended({ ...result, request, end })
      this.#wake.resolve()
    })
    this.#open.set(request, { abort, bytes, ended })
  }

  /** Null: it was stopped without a result. */
  async #run(
    read: RunRequest,
    call: Pick<LineCall, 'endpoint' | 'body'>,
    signal: AbortSignal,
  ): Promise<LineResult | null> {
    const { tenant, key } = this.#settings
    const stopped = () => (this.#isExpiring && read.expired !== null ? read.expired() : null)
    for (let attempts = 1; ; attempts += 1) {
      const outcome = await this.#settings.serve({ tenant, key, ...call }, signal)
      if (signal.aborted) return stopped()
      if (outcome.status === 'refused') {
        this.stop({ kind: 'failed', code: 'key_refused', message: outcome.message })
        return null
      }
      const { wait_ms, is_refused } = nextAttempt(failureOf(outcome), attempts, Math.random())
      if (is_refused) this.#window.refused()
      if (wait_ms === null || isAnswer(outcome)) return this.#resultOf(read, outcome)
      await pause(wait_ms, signal, this.#retry.promise)
      if (signal.aborted) return stopped()
    }
  }

  #resultOf(read: RunRequest, outcome: Exclude<LineOutcome, { status: 'refused' }>): LineResult {
    const { result, times } = read.answered(outcome.status === 'broken' ? BROKEN : outcome)
    if (times !== null) this.#window.served(times.wait_s, times.service_s)
    return result
  }

  #expire({ request, end, expired }: RunRequest): void {
    if (expired === null) throw new Error('a request that does not expire was stopped as expired')
    this.#ended({ ...expired(), request, end })
  }

  #ended(result: StoredResult): void {
    if (this.#unpacked.length === 0) this.#pack_due_ms = Date.now() + this.#settings.pack_ms
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
      this.#file.add(next)
    }
  }

  /** Stores what is due. */
  async #keep(): Promise<void> {
    if (this.#file.isFull) {
      const written = Map.groupBy(this.#unpacked, ({ request }) => request < this.#order.next)
      this.#unpacked = written.get(false) ?? []
      await this.#file.write()
      this.#settings.onStored?.(written.get(true) ?? [])
    }
    const is_due = Date.now() >= this.#pack_due_ms || this.#unpacked_bytes >= PACK_BYTES_MAX / 2
    while (is_due && this.#unpacked.length > 0) {
      const pack = this.#nextPack()
      const stored = this.#settings.packs.put(pack)
      this.#settings.onStored?.(pack)
      await stored
    }
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

  /** A request ended or may be ready, the run was stopped, a pack is due, or the slice is over. */
  async #changed({ until_ms, used }: Slice): Promise<void> {
    const due_ms = this.#unpacked.length > 0 ? Math.min(until_ms, this.#pack_due_ms) : until_ms
    const { promise: due, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, Math.max(0, due_ms - Date.now()))
    await Promise.race([this.#wake.promise, due, used])
    clearTimeout(timer)
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

async function pause(ms: number, signal: AbortSignal, over: Promise<void>): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, ms)
  signal.addEventListener('abort', () => resolve(), { once: true })
  await Promise.race([promise, over])
  clearTimeout(timer)
}
