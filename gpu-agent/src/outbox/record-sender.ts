/**
 * Sends records until the control plane has acknowledged each: POST {control-url}/agents/v1/records in batches, at once
 * when there is something, straight from the outbox's table, so a restart goes on where it was. Where calls end quickly one after
 * the other their records share a batch, since a batch costs the control plane as much as several records in it.
 *
 * Several batches are on their way at a time: the control plane asks 16 programs of a batch at once and waits for their disks, so
 * one batch after the other is 160 records a second. Records of one program are sent in order: a batch ends before a record whose
 * program has one on its way. After a failure batches go one by one, until one is answered.
 *
 * It walks the unacknowledged records in order with a cursor. A record that is not acknowledged (its program's actor is
 * busy, or the control plane cannot read it) is passed and comes again with the next walk, so it never blocks those
 * behind it. A batch that is refused as malformed is halved until the record at fault is alone, and so is one at which the
 * control plane fails or that it does not answer in time. A record at fault is passed too. A record of a lease that the
 * control plane says it never granted is reported and not sent again; nothing else is dropped.
 */

import { type BackoffBounds, backoffMs } from '../../../src/core/backoff.ts'
import { RECORDS_PER_BATCH_MAX, RecordAck, type RecordBatch } from '../../../src/protocol/index.ts'
import type { AgentMetrics } from '../data-plane/metrics.ts'
import { messageOf, type Report } from '../events.ts'
import type { Outbox, StoredRecord } from './outbox.ts'

/** Records that end within this time of each other share a batch. */
const COALESCE_MS = 10
/** From one batch to the next. Records that come 40 ms late hardly change the order of calls (docs/learned-policy.md). */
const PACE_MS = 40
const SEND_TIMEOUT_MS = 10_000
/** Batches on their way. */
export const BATCHES_IN_FLIGHT_MAX = 4
const SEND_BACKOFF: BackoffBounds = { min_ms: 100, max_ms: 5000 }
/** Pace of what will not succeed before a person acts: an unknown token, a record that cannot be read. */
const SEND_REFUSED_BACKOFF: BackoffBounds = { min_ms: 1000, max_ms: 60_000 }
/** An acknowledgement of 200 leases of 128 characters, with room. */
export const ACK_BYTES_MAX = 64 * 1024

export interface RecordSenderOptions {
  control_url: string
  agent: string
  token: string
  outbox: Pick<Outbox, 'unacknowledged' | 'acknowledge'>
  metrics: Pick<AgentMetrics, 'batchSent'>
  report: Report
  random: () => number
  coalesce_ms?: number
  pace_ms?: number
  send_timeout_ms?: number
  backoff?: BackoffBounds
  refused_backoff?: BackoffBounds
}

type SendResult =
  | { status: 'answered'; acknowledged: ReadonlySet<string>; unproven: ReadonlySet<string> }
  /** `reached`: it failed at this batch, so a smaller one may succeed. */
  | { status: 'unreachable'; reason: string; reached: boolean }
  /** The control plane does not take this batch's content. */
  | { status: 'malformed'; http_status: number }
  /** The control plane does not take this agent. */
  | { status: 'refused'; http_status: number; message: string }

interface Flight {
  batch: readonly StoredRecord[]
  landed: Promise<SendResult>
}

export class RecordSender {
  readonly #options: RecordSenderOptions
  readonly #url: URL
  readonly #stopped = new AbortController()
  #running: Promise<void> | null = null
  #wake: (() => void) | null = null
  #notified = false
  #cursor = 0
  readonly #flights = new Set<Flight>()
  /** Programs that have records on their way. */
  readonly #busy = new Set<string>()
  /** The first batch that failed, while later ones are still on their way. */
  #failed: { batch: readonly StoredRecord[]; result: Exclude<SendResult, { status: 'answered' }> } | null = null
  #batch_max = RECORDS_PER_BATCH_MAX
  /** Records passed in this walk, and whether one of them can never be read as it is. */
  #passed = 0
  #rejected = false
  /** Walks in a row that passed something, and when the next one begins. */
  #walks = 0
  #walk_due_ms: number | null = null
  /** Sends in a row that were not answered. */
  #failures = 0
  #launched_at_ms = Number.NEGATIVE_INFINITY

  constructor(options: RecordSenderOptions) {
    this.#options = options
    this.#url = new URL(
      'agents/v1/records',
      options.control_url.endsWith('/') ? options.control_url : `${options.control_url}/`,
    )
  }

  start(): void {
    this.#running ??= this.#run()
  }

  /** A record has been committed. */
  notify(): void {
    this.#notified = true
    this.#wake?.()
  }

  /** Aborts what is being sent; it stays in the outbox. */
  async stop(): Promise<void> {
    this.#stopped.abort()
    this.#wake?.()
    await this.#running
  }

  async #run(): Promise<void> {
    while (!this.#stopped.signal.aborted) {
      this.#notified = false
      const batch = this.#next()
      if (batch.length > 0) this.#launch(batch)
      else if (this.#flights.size > 0) await this.#landing()
      else if (this.#failed !== null) await this.#sendAgain()
      else if (this.#passed > 0) await this.#walkAgain()
      else {
        this.#walks = 0
        await this.#sleep(null)
        await this.#gather()
      }
    }
    await Promise.all([...this.#flights].map(({ landed }) => landed))
  }

  /** The next records that may be sent. Empty: there are none. */
  #next(): readonly StoredRecord[] {
    const isSound = this.#failures === 0 && this.#batch_max === RECORDS_PER_BATCH_MAX
    if (this.#failed !== null || this.#flights.size >= (isSound ? BATCHES_IN_FLIGHT_MAX : 1)) return []
    const batch = this.#options.outbox.unacknowledged(this.#cursor, this.#batch_max)
    const end = batch.findIndex(({ record }) => this.#busy.has(programOf(record)))
    return end === -1 ? batch : batch.slice(0, end)
  }

  #launch(batch: readonly StoredRecord[]): void {
    this.#cursor = batch.at(-1)?.seq ?? this.#cursor
    this.#launched_at_ms = performance.now()
    const programs = new Set(batch.map(({ record }) => programOf(record)))
    for (const program of programs) this.#busy.add(program)
    const landed = this.#send(batch.map(({ record }) => record)).then(async (result) => {
      if (result.status === 'answered') await this.#answered(batch, result.acknowledged, result.unproven)
      else this.#hasFailed(batch, result)
      for (const program of programs) this.#busy.delete(program)
      this.#flights.delete(flight)
      return result
    })
    const flight = { batch, landed }
    this.#flights.add(flight)
  }

  /** Until a batch is answered or fails, or records have come that may share the next one. */
  async #landing(): Promise<void> {
    const landed = Promise.race([...this.#flights].map((flight) => flight.landed))
    const mayShare = this.#flights.size < BATCHES_IN_FLIGHT_MAX && this.#failed === null
    if (!mayShare) return void (await landed)
    const woken = this.#sleep(null)
    await Promise.race([landed, woken])
    this.#wake?.()
    if (this.#notified) await this.#gather()
  }

  /** A record has come. Others may share its batch. */
  async #gather(): Promise<void> {
    const { coalesce_ms = COALESCE_MS, pace_ms = PACE_MS } = this.#options
    await this.#sleep(Math.max(coalesce_ms, this.#launched_at_ms + pace_ms - performance.now()), 'through')
  }

  /** Everything from the first failed batch on is sent again. What was acknowledged is no longer in the outbox. */
  #hasFailed(batch: readonly StoredRecord[], result: Exclude<SendResult, { status: 'answered' }>): void {
    const first = batch[0]?.seq ?? 0
    if (this.#failed === null || first < (this.#failed.batch[0]?.seq ?? 0)) this.#failed = { batch, result }
  }

  /** No batch is on its way. */
  async #sendAgain(): Promise<void> {
    const failed = this.#failed
    this.#failed = null
    if (failed === null || this.#stopped.signal.aborted) return
    const { batch, result } = failed
    this.#cursor = (batch[0]?.seq ?? 1) - 1
    if (result.status === 'malformed') {
      this.#options.metrics.batchSent('refused')
      this.#malformed(batch, result.http_status)
      return
    }
    this.#failures += 1
    this.#options.metrics.batchSent(result.status === 'refused' ? 'refused' : 'failed')
    const retry_in_ms = this.#backoff(this.#failures, result.status === 'refused')
    if (result.status === 'refused') {
      const { http_status: status, message } = result
      this.#options.report({ event: 'records_refused', status, message, retry_in_ms })
    } else if (this.#failures === 1) {
      this.#options.report({ event: 'records_delayed', reason: result.reason, retry_in_ms })
    }
    if (result.status === 'unreachable' && result.reached) this.#smaller(batch)
    await this.#sleep(retry_in_ms, 'through')
  }

  async #answered(
    batch: readonly StoredRecord[],
    acknowledged: ReadonlySet<string>,
    unproven: ReadonlySet<string>,
  ): Promise<void> {
    const sent = batch.map(({ record }) => record.lease)
    for (const lease of sent.filter((one) => unproven.has(one))) {
      this.#options.report({ event: 'record_unproven', lease })
    }
    const leases = sent.filter((lease) => acknowledged.has(lease) || unproven.has(lease))
    this.#options.metrics.batchSent(leases.length === batch.length ? 'acknowledged' : 'partial')
    this.#passed += batch.length - leases.length
    this.#batch_max = Math.min(RECORDS_PER_BATCH_MAX, this.#batch_max * 2)
    this.#failures = 0
    if (leases.length > 0) await this.#options.outbox.acknowledge(leases)
  }

  #malformed(batch: readonly StoredRecord[], status: number): void {
    const alone = this.#smaller(batch)
    if (alone === null) return
    this.#options.report({ event: 'record_rejected', lease: alone.record.lease, status })
    this.#rejected = true
  }

  /** Halves a batch that failed. A record that failed alone is passed and returned. */
  #smaller(batch: readonly StoredRecord[]): StoredRecord | null {
    const [first, second] = batch
    if (first === undefined || second !== undefined) {
      this.#batch_max = Math.ceil(batch.length / 2)
      return null
    }
    this.#pass(batch, 1)
    return first
  }

  #pass(batch: readonly StoredRecord[], left: number): void {
    this.#cursor = batch.at(-1)?.seq ?? this.#cursor
    this.#passed += left
  }

  /** Waits before the passed records are tried again; records that end meanwhile are sent at once and do not put it off. */
  async #walkAgain(): Promise<void> {
    if (this.#walk_due_ms === null) {
      this.#walks += 1
      this.#walk_due_ms = performance.now() + this.#backoff(this.#walks, this.#rejected)
    }
    const left_ms = this.#walk_due_ms - performance.now()
    if (left_ms > 0 && (await this.#sleep(left_ms)) === 'woken') return
    this.#walk_due_ms = null
    this.#cursor = 0
    this.#passed = 0
    this.#rejected = false
  }

  #backoff(failures: number, refused: boolean): number {
    const { backoff = SEND_BACKOFF, refused_backoff = SEND_REFUSED_BACKOFF } = this.#options
    return backoffMs(failures, refused ? refused_backoff : backoff, this.#options.random())
  }

  /** `through`: only stop() ends it early. Null: until notified. */
  async #sleep(ms: number | null, kind: 'wakeable' | 'through' = 'wakeable'): Promise<'woken' | 'elapsed'> {
    if (this.#stopped.signal.aborted || (kind === 'wakeable' && this.#notified)) return 'woken'
    const { promise, resolve } = Promise.withResolvers<'woken' | 'elapsed'>()
    const timer = ms === null ? null : setTimeout(() => resolve('elapsed'), ms)
    this.#wake = () => {
      if (kind === 'wakeable' || this.#stopped.signal.aborted) resolve('woken')
    }
    const result = await promise
    this.#wake = null
    if (timer !== null) clearTimeout(timer)
    return result
  }

  async #send(records: RecordBatch['records']): Promise<SendResult> {
    const { agent, token, send_timeout_ms = SEND_TIMEOUT_MS } = this.#options
    try {
      const response = await fetch(this.#url, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        body: JSON.stringify({ agent, records } satisfies RecordBatch),
        // A redirect would carry the token elsewhere.
        redirect: 'error',
        signal: AbortSignal.any([this.#stopped.signal, AbortSignal.timeout(send_timeout_ms)]),
      })
      const text = await readText(response, ACK_BYTES_MAX)
      return verdictOf(response.status, text)
    } catch (error) {
      const reached = error instanceof DOMException && error.name === 'TimeoutError'
      return { status: 'unreachable', reason: messageOf(error), reached }
    }
  }
}

function programOf({ tenant, program }: StoredRecord['record']): string {
  return `${tenant}\n${program}`
}

function verdictOf(http_status: number, text: string): SendResult {
  if (http_status === 400 || http_status === 413 || http_status === 422) return { status: 'malformed', http_status }
  if (http_status >= 400 && http_status < 500 && http_status !== 408 && http_status !== 429) {
    return { status: 'refused', http_status, message: text.slice(0, 200) }
  }
  if (http_status !== 200) {
    return { status: 'unreachable', reason: `status ${http_status}`, reached: http_status >= 500 }
  }
  const ack = RecordAck.safeParse(parseJson(text))
  if (!ack.success) return { status: 'unreachable', reason: 'the answer is not an acknowledgement', reached: true }
  const { acknowledged, refused = [] } = ack.data
  return { status: 'answered', acknowledged: new Set(acknowledged), unproven: new Set(refused) }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    if (error instanceof SyntaxError) return null
    throw error
  }
}

async function readText(response: Response, bytes_max: number): Promise<string> {
  const parts: Uint8Array[] = []
  let bytes = 0
  for await (const part of response.body ?? []) {
    bytes += part.length
    if (bytes > bytes_max) throw new Error(`the answer is longer than ${bytes_max} bytes`)
    parts.push(part)
  }
  return Buffer.concat(parts).toString('utf8')
}
