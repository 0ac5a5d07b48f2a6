/**
 * One call's response (src/protocol/stream.ts). The headers wait at most `hold_ms` for the front's verdict on the body,
 * so that most refusals are plain HTTP; after that, silence is filled with comments, since proxies cut silent responses
 * and workerd learns that a client left only by a failed write. Chunks that follow one another quickly become one event
 * (event-merger.ts), whose `id` names the tokens that it is of, or says how many they are (src/protocol/resume.ts). What comes
 * at once goes out in one write, since each costs the Worker a read.
 *
 * Memory is bounded against a reader that is slower than the engine: what the socket has not taken may reach
 * `unread_bytes_max`; the chunk that would pass it is not written and the response ends broken, never shortened.
 */
import type { ServerResponse } from 'node:http'
import { NOT_APPLIED_HEADER } from '../../../src/core/call/field-warnings.ts'
import {
  ACCEPTED_HEADER,
  COMMENT_ACCEPTED,
  COMMENT_QUEUED,
  DONE,
  EVENT_ERROR,
  eventId,
  type Generated,
  KEEPALIVE_INTERVAL_MS,
  LEASE_READ_OUT_MS,
  type StreamError,
} from '../../../src/protocol/index.ts'
import type { CallEnd } from '../fronts/engine-front.ts'
import { NativeFrame } from '../openai/native-frame.ts'
import { EVENT_TIMES, EventMerger, type EventTimes, type MergedEvent } from './event-merger.ts'
import type { Refusal } from './stream-errors.ts'

const HEADERS_HOLD_MS = 250
const UNREAD_BYTES_MAX = 1024 * 1024
const RETRY_AFTER_S = 1

export interface StreamTimes {
  hold_ms: number
  keepalive_ms: number
  events: EventTimes
  unread_bytes_max: number
  /** The rest of a finished response, at most UNREAD_BYTES_MAX, must be read within this time, else it is cut. */
  read_out_ms: number
}

export const STREAM_TIMES: StreamTimes = {
  hold_ms: HEADERS_HOLD_MS,
  keepalive_ms: KEEPALIVE_INTERVAL_MS,
  events: EVENT_TIMES,
  unread_bytes_max: UNREAD_BYTES_MAX,
  read_out_ms: LEASE_READ_OUT_MS,
}

/** A plain HTTP answer in place of a stream. What was not read of the request, Node discards after it. */
export function answerRefusal(response: ServerResponse, refusal: Refusal): void {
  const body = JSON.stringify(refusal.error)
  const headers: Record<string, string> = { 'content-type': 'application/json', 'cache-control': 'no-store' }
  const { retry_after_s = refusal.http_status === 503 ? RETRY_AFTER_S : null } = refusal.error
  if (retry_after_s !== null) headers['retry-after'] = String(retry_after_s)
  response.writeHead(refusal.http_status, headers).end(body)
}

export class CallStream {
  readonly #response: ServerResponse
  readonly #times: StreamTimes
  readonly #hints_not_applied: readonly string[]
  readonly #hold: NodeJS.Timeout
  readonly #keepalive: NodeJS.Timeout
  readonly #events: EventMerger
  /** Until the event that is held is due. */
  #due: NodeJS.Timeout | null = null
  /** What the next write takes. */
  #pending = { text: '', bytes: 0 }
  #is_writing = false
  #state: 'held' | 'streaming' | 'too_slow' | 'finished' | 'gone' = 'held'

  /** `onGone`: the reader closed the connection before the end. */
  constructor(
    response: ServerResponse,
    times: StreamTimes,
    onGone: () => void,
    hints_not_applied: readonly string[] = [],
  ) {
    this.#response = response
    this.#times = times
    this.#hints_not_applied = hints_not_applied
    this.#events = new EventMerger(times.events)
    this.#hold = setTimeout(() => this.#begin(), times.hold_ms)
    this.#keepalive = setInterval(() => this.#keepAlive(), times.keepalive_ms)
    response.on('close', () => {
      this.#disarm()
      if (this.#state === 'finished') return
      this.#state = 'gone'
      onGone()
    })
  }

  get gone(): boolean {
    return this.#state === 'gone'
  }

  accepted(): void {
    const comment = `: ${COMMENT_ACCEPTED}\n\n`
    if (this.#state === 'held') {
      this.#begin({ [ACCEPTED_HEADER]: '1' })
      // Only for a Worker that does not know the header, so it waits for other text.
      this.#keep(comment)
    } else if (this.#state === 'streaming') this.#write(comment)
  }

  /** False: the reader is too slow; this chunk and all later ones are dropped and the response will end broken. */
  chunk(chunk: object, tokens: Generated = []): boolean {
    this.#begin()
    this.#send(this.#events.add(chunk, tokens, performance.now()))
    this.#flushWhenDue()
    return this.#state !== 'too_slow'
  }

  /** The event for which the timer was set may have gone early, and another one may be held. */
  #flushWhenDue(): void {
    const { due_ms } = this.#events
    if (due_ms === null || this.#due !== null) return
    const wait_ms = due_ms - performance.now()
    if (wait_ms <= 0) {
      this.#flush()
      return
    }
    this.#due = setTimeout(() => {
      this.#due = null
      this.#flushWhenDue()
    }, wait_ms)
  }

  #flush(): void {
    if (this.#due !== null) clearTimeout(this.#due)
    this.#due = null
    this.#send(this.#events.flush(performance.now()))
  }

  #send(events: readonly MergedEvent[]): void {
    for (const { chunk, tokens } of events) {
      if (this.#state !== 'streaming') return
      const id = eventId(tokens)
      const data = chunk instanceof NativeFrame ? chunk.data : JSON.stringify(chunk)
      this.#write(`${id === null ? '' : `id: ${id}\n`}data: ${data}\n\n`)
    }
  }

  /** The front refused the body. */
  refuse(error: StreamError): void {
    if (this.#state === 'held') this.#answer({ http_status: error.status, error })
    else this.#fail(error)
  }

  finish(end: CallEnd, fallback: StreamError): void {
    if (end.outcome !== 'completed') {
      this.refuse(end.error ?? fallback)
      return
    }
    this.#begin()
    for (const chunk of end.last_chunks) this.chunk(chunk)
    this.#flush()
    if (this.#state === 'streaming') this.#end(`data: ${DONE}\n\n`)
    else this.#cut()
  }

  #begin(headers: Readonly<Record<string, string>> = {}): void {
    if (this.#state !== 'held') return
    clearTimeout(this.#hold)
    this.#state = 'streaming'
    this.#response.writeHead(200, {
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-store, no-transform',
      'x-accel-buffering': 'no',
      ...(this.#hints_not_applied.length === 0 ? {} : { [NOT_APPLIED_HEADER]: this.#hints_not_applied.join(',') }),
      ...headers,
    })
    this.#response.flushHeaders()
    this.#keepalive.refresh()
  }

  #keepAlive(): void {
    // Unread bytes already keep the connection from being silent.
    if (this.#state === 'streaming' && !this.#response.writableNeedDrain) this.#write(`: ${COMMENT_QUEUED}\n\n`)
  }

  #write(text: string): void {
    const unread_bytes = this.#response.writableLength + this.#pending.bytes
    if (unread_bytes + Buffer.byteLength(text) > this.#times.unread_bytes_max) {
      this.#state = 'too_slow'
      return
    }
    this.#keep(text)
    if (!this.#is_writing) process.nextTick(() => this.#writePending())
    this.#is_writing = true
    this.#keepalive.refresh()
  }

  #keep(text: string): void {
    const { text: before, bytes } = this.#pending
    this.#pending = { text: before + text, bytes: bytes + Buffer.byteLength(text) }
  }

  #writePending(): void {
    this.#is_writing = false
    if (this.#state === 'streaming' || this.#state === 'too_slow') this.#response.write(this.#taken())
  }

  /** What is pending, and is no longer. */
  #taken(): string {
    const { text } = this.#pending
    this.#pending = { text: '', bytes: 0 }
    return text
  }

  #fail(error: StreamError): void {
    this.#flush()
    if (this.#state === 'streaming') this.#end(`event: ${EVENT_ERROR}\ndata: ${JSON.stringify(error)}\n\n`)
    else this.#cut()
  }

  #answer(refusal: Refusal): void {
    this.#disarm()
    this.#state = 'finished'
    answerRefusal(this.#response, refusal)
  }

  #end(text: string): void {
    this.#disarm()
    this.#state = 'finished'
    // Not the socket's own timeout: the connection goes on to serve other calls.
    const cut = setTimeout(() => this.#response.destroy(), this.#times.read_out_ms)
    this.#response.on('close', () => clearTimeout(cut))
    this.#response.end(this.#taken() + text)
  }

  #cut(): void {
    if (this.#state === 'gone' || this.#state === 'finished') return
    this.#disarm()
    this.#state = 'finished'
    this.#response.destroy()
  }

  #disarm(): void {
    clearTimeout(this.#hold)
    clearInterval(this.#keepalive)
    if (this.#due !== null) clearTimeout(this.#due)
  }
}
