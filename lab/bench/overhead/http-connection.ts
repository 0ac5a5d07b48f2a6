/**
 * A load generator's HTTP/1.1 connection: bytes that were made beforehand go out, and of the answer only what is measured is
 * looked at. Node's own client costs about as much CPU per call as the Worker under test, which on a machine of two cores
 * would be measured along with it. One request is under way at a time; the connection is kept open between them.
 */
import { connect, type Socket } from 'node:net'

const HEAD_END = '\r\n\r\n'
const CR = 0x0d
const LF = 0x0a
const DATA = Buffer.from('data: ')
const DONE = Buffer.from('[DONE]')
/** What is kept of one chunk for a marker that goes on in the next. */
const TAIL_BYTES = Math.max(DATA.length, DONE.length)
/** Silence for this long is a failure of the system under test. */
const SILENCE_MS_MAX = 30_000
const IDLE_MS_MAX = 2000
const BODY_SHOWN_CHARS_MAX = 300

export interface Answered {
  status: number
  /** Bytes of headers as text, for Server-Timing. */
  head: string
  /** From `send` to the first data event (TTFT) and to the end of the body, milliseconds. */
  ttft_ms: number
  total_ms: number
  /** `data: ` lines, the terminator included. */
  events: number
  /** Between two reads that have events (ITL as a client sees it), milliseconds. */
  gaps_ms: number[]
  /** The stream ended with `[DONE]`. */
  done: boolean
  /** The beginning of the body where the status is not 200. */
  refusal: string
}

export class HttpConnection {
  readonly #socket: Socket
  #pending: { resolve: (answer: Answered) => void; reject: (error: Error) => void } | null = null
  #sent_ms = 0
  #idle_from_ms = performance.now()
  #event_ms: number | null = null
  #head: Buffer | null = null
  #answer: Answered = emptyAnswer()
  /** Body bytes to come; null: chunked. */
  #remaining: number | null = 0
  #chunk_left = 0
  #size_line = ''
  #is_last = false
  #tail: Buffer = Buffer.alloc(0)
  #closed: Error | null = null

  private constructor(socket: Socket) {
    this.#socket = socket
    socket.setNoDelay(true)
    socket.setTimeout(SILENCE_MS_MAX, () => this.#failed(new Error(`silent for ${SILENCE_MS_MAX} ms`)))
    socket.on('data', (bytes) => this.#read(bytes))
    socket.on('error', (error) => this.#failed(error))
    socket.on('close', () => this.#failed(new Error('the connection was closed')))
  }

  static async open(host: string, port: number): Promise<HttpConnection> {
    const socket = connect({ host, port })
    await new Promise<void>((resolve, reject) => {
      socket.once('connect', resolve)
      socket.once('error', reject)
    })
    return new HttpConnection(socket)
  }

  /** Servers close a connection that is idle, Node's after 5 s. A request that is on its way then is lost. */
  get isFresh(): boolean {
    return this.#closed === null && performance.now() - this.#idle_from_ms < IDLE_MS_MAX
  }

  send(request: Buffer): Promise<Answered> {
    if (this.#closed !== null) return Promise.reject(this.#closed)
    if (this.#pending !== null) throw new Error('a request is under way')
    this.#answer = emptyAnswer()
    this.#head = null
    this.#tail = Buffer.alloc(0)
    this.#chunk_left = 0
    this.#size_line = ''
    this.#is_last = false
    this.#event_ms = null
    this.#sent_ms = performance.now()
    this.#socket.write(request)
    return new Promise((resolve, reject) => {
      this.#pending = { resolve, reject }
    })
  }

  close(): void {
    this.#socket.destroy()
  }

  #read(bytes: Buffer): void {
    if (this.#pending === null) return
    if (this.#answer.status === 0) {
      this.#head = this.#head === null ? bytes : Buffer.concat([this.#head, bytes])
      const end = this.#head.indexOf(HEAD_END)
      if (end === -1) return
      this.#readHead(this.#head.toString('latin1', 0, end))
      const body = this.#head.subarray(end + HEAD_END.length)
      if (body.length > 0 || this.#remaining === 0) this.#readBody(body)
      return
    }
    this.#readBody(bytes)
  }

  #readHead(head: string): void {
    this.#answer.head = head
    this.#answer.status = Number(head.slice(9, 12))
    const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1]
    this.#remaining = length === undefined ? null : Number(length)
  }

  #readBody(bytes: Buffer): void {
    if (this.#remaining === null) {
      this.#readChunks(bytes)
      return
    }
    this.#readPayload(bytes)
    this.#remaining -= bytes.length
    if (this.#remaining <= 0) this.#ended()
  }

  /** RFC 9112 §7.1, without extensions and trailers. A frame may be cut anywhere between two chunks. */
  #readChunks(bytes: Buffer): void {
    for (let at = 0; at < bytes.length; ) {
      if (this.#chunk_left > 0) {
        const payload = bytes.subarray(at, at + this.#chunk_left)
        this.#readPayload(payload)
        this.#chunk_left -= payload.length
        at += payload.length
        continue
      }
      const byte = bytes[at++] ?? 0
      if (byte === CR) continue
      if (byte !== LF) this.#size_line += String.fromCharCode(byte)
      else if (this.#size_line !== '') {
        this.#chunk_left = Number.parseInt(this.#size_line, 16)
        this.#is_last = this.#chunk_left === 0
        this.#size_line = ''
      } else if (this.#is_last) {
        this.#ended()
        return
      }
    }
  }

  #readPayload(bytes: Buffer): void {
    const answer = this.#answer
    if (answer.status !== 200) {
      answer.refusal = (answer.refusal + bytes.toString('latin1', 0, BODY_SHOWN_CHARS_MAX)).slice(
        0,
        BODY_SHOWN_CHARS_MAX,
      )
    }
    const events_before = answer.events
    const all = this.#tail.length === 0 ? bytes : Buffer.concat([this.#tail, bytes])
    for (let at = all.indexOf(DATA); at !== -1; at = all.indexOf(DATA, at + 1)) {
      if (at + DATA.length <= this.#tail.length) continue
      if (answer.events === 0) answer.ttft_ms = performance.now() - this.#sent_ms
      answer.events += 1
    }
    if (answer.events > events_before) this.#gap()
    answer.done ||= all.includes(DONE)
    this.#tail = all.subarray(Math.max(0, all.length - TAIL_BYTES))
  }

  #gap(): void {
    const now_ms = performance.now()
    if (this.#event_ms !== null) this.#answer.gaps_ms.push(now_ms - this.#event_ms)
    this.#event_ms = now_ms
  }

  #ended(): void {
    const pending = this.#pending
    this.#pending = null
    this.#idle_from_ms = performance.now()
    this.#answer.total_ms = this.#idle_from_ms - this.#sent_ms
    pending?.resolve(this.#answer)
  }

  #failed(error: Error): void {
    this.#closed ??= error
    this.#socket.destroy()
    const pending = this.#pending
    this.#pending = null
    pending?.reject(error)
  }
}

function emptyAnswer(): Answered {
  return { status: 0, head: '', ttft_ms: 0, total_ms: 0, events: 0, gaps_ms: [], done: false, refusal: '' }
}
