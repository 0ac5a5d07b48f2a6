/**
 * One request to an OpenAI server and its stream of events. Bytes are read as they come and nothing is held back; an
 * event may have FRAME_BYTES_MAX bytes. `ended` is told once; after `abort` nothing is told.
 *
 * Connections are kept and used again for FREE_SOCKET_MS, which is less than the 5 s after which vLLM closes idle ones. One
 * that vLLM closes in the instant in which it is used again has taken no request: that request is sent once more.
 */
import {
  type ClientRequest,
  Agent as HttpAgent,
  request as httpRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
} from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import { FrameTooLarge, SseSplitter } from '../../../../../src/core/wire/sse.ts'
import { DONE } from '../../../../../src/protocol/index.ts'
import { messageOf } from '../../../events.ts'
import { type Asking, addressOf, keyHeaders } from '../../attached/ask-server.ts'

const FREE_SOCKET_MS = 3000
const FREE_SOCKETS_MAX = 64
/** Of an answer in one piece; the relay takes 16 MiB. */
export const ANSWER_BYTES_MAX = 15 * 1024 * 1024
/** Of a stream. The longest answer of a context of a million tokens has half of it. */
export const STREAM_BYTES_MAX = 512 * 1024 * 1024
/** Of an error's body. */
export const ERROR_BYTES_MAX = 64 * 1024

export type VllmRequestEnd =
  /** The stream came to its [DONE]. */
  | { kind: 'done' }
  /** vLLM answered something other than a stream. */
  | { kind: 'refused'; status: number; body: string; headers: IncomingHttpHeaders }
  /** No answer: nothing listens, or the connection ended before it. */
  | { kind: 'unreachable'; message: string; code: string | null }
  /** The stream broke off, or is no stream of events. `complete`: it ended in order, without its end mark. */
  | { kind: 'cut'; message: string; complete?: true }

export interface VllmRequestListener {
  /** vLLM has checked and tokenised the body, and streams, or has answered in one piece. */
  accepted(headers: IncomingHttpHeaders): void
  /** Data of one event, or the answer in one piece. */
  data(data: string): void
  ended(end: VllmRequestEnd): void
}

export type VllmTarget = Asking

export class VllmHttp {
  readonly #http = new HttpAgent({ keepAlive: true, maxFreeSockets: FREE_SOCKETS_MAX, timeout: FREE_SOCKET_MS })
  readonly #https = new HttpsAgent({ keepAlive: true, maxFreeSockets: FREE_SOCKETS_MAX, timeout: FREE_SOCKET_MS })

  /** `form`: how vLLM answers on this path. */
  post(
    target: VllmTarget,
    path: string,
    id: string,
    body: string,
    listener: VllmRequestListener,
    form: 'stream' | 'whole' = 'stream',
  ): VllmRequest {
    const url = new URL(addressOf(target, path))
    const https = url.protocol === 'https:'
    const headers: Record<string, string> = {
      'content-type': 'application/json',
      accept: form === 'stream' ? 'text/event-stream' : 'application/json',
      'content-length': String(Buffer.byteLength(body)),
      'x-request-id': id,
    }
    Object.assign(headers, keyHeaders(target))
    const open = (): ClientRequest =>
      https
        ? httpsRequest(url, { method: 'POST', headers, agent: this.#https })
        : httpRequest(url, { method: 'POST', headers, agent: this.#http })
    return new VllmRequest(open, body, listener, form)
  }

  close(): void {
    this.#http.destroy()
    this.#https.destroy()
  }
}

export class VllmRequest {
  readonly #open: () => ClientRequest
  readonly #body: string
  readonly #listener: VllmRequestListener
  readonly #form: 'stream' | 'whole'
  readonly #splitter = new SseSplitter()
  #request: ClientRequest | null = null
  #bytes = 0
  #over = false

  constructor(open: () => ClientRequest, body: string, listener: VllmRequestListener, form: 'stream' | 'whole') {
    this.#open = open
    this.#body = body
    this.#listener = listener
    this.#form = form
    this.#send(true)
  }

  /** Closes the connection: vLLM aborts the call. */
  abort(): void {
    this.#over = true
    this.#request?.destroy()
  }

  #send(may_repeat: boolean): void {
    const request = this.#open()
    this.#request = request
    request.on('response', (response) => this.#answered(response))
    request.on('error', (error) => {
      const { code = null } = error as NodeJS.ErrnoException
      if (!this.#over && may_repeat && request.reusedSocket && code === 'ECONNRESET') this.#send(false)
      else this.#end({ kind: 'unreachable', message: messageOf(error), code })
    })
    request.end(this.#body)
  }

  #answered(response: IncomingMessage): void {
    if (this.#over) {
      response.destroy()
      return
    }
    const type = response.headers['content-type'] ?? ''
    const expected = this.#form === 'stream' ? 'text/event-stream' : 'application/json'
    // A server that cannot stream answers a stream's request in one piece.
    const whole = type.startsWith('application/json') && response.statusCode === 200
    if (response.statusCode !== 200 || !(type.startsWith(expected) || whole)) {
      void this.#refused(response)
      return
    }
    if (whole) {
      void this.#readWhole(response)
      return
    }
    response.on('data', (bytes: Buffer) => this.#read(response, bytes))
    response.on('end', () =>
      this.#end({ kind: 'cut', message: 'the stream ended without its end mark', complete: true }),
    )
    response.on('error', (error) => this.#end({ kind: 'cut', message: messageOf(error) }))
    this.#listener.accepted(response.headers)
  }

  #read(response: IncomingMessage, bytes: Buffer): void {
    // What follows the end mark is read so that the connection can be used again.
    if (this.#over) return
    this.#bytes += bytes.length
    if (this.#bytes > STREAM_BYTES_MAX) {
      response.destroy()
      this.#end({ kind: 'cut', message: `it has more than ${STREAM_BYTES_MAX} bytes` })
      return
    }
    try {
      for (const frame of this.#splitter.frames(bytes)) {
        if (frame.kind === 'comment') continue
        if (frame.data === DONE) this.#end({ kind: 'done' })
        else this.#listener.data(frame.data)
        if (this.#over) return
      }
    } catch (error) {
      if (!(error instanceof FrameTooLarge)) throw error
      response.destroy()
      this.#end({ kind: 'cut', message: error.message })
    }
  }

  async #refused(response: IncomingMessage): Promise<void> {
    const read = await this.#readUpTo(response, ERROR_BYTES_MAX)
    if (read === null) return
    const { statusCode: status = 0, headers } = response
    this.#end({ kind: 'refused', status, body: read.text, headers })
  }

  async #readWhole(response: IncomingMessage): Promise<void> {
    const read = await this.#readUpTo(response, ANSWER_BYTES_MAX)
    if (read === null || this.#over) return
    if (!read.whole) {
      const message = `The answer has more than ${ANSWER_BYTES_MAX} bytes. Send fewer inputs in one call.`
      this.#end({
        kind: 'refused',
        status: 413,
        body: JSON.stringify({ error: { message, param: null } }),
        headers: {},
      })
      return
    }
    this.#listener.accepted(response.headers)
    this.#listener.data(read.text)
    this.#end({ kind: 'done' })
  }

  /** Null: the connection broke, and the listener has been told. */
  async #readUpTo(response: IncomingMessage, bytes_max: number): Promise<{ text: string; whole: boolean } | null> {
    const parts: Buffer[] = []
    let bytes = 0
    try {
      for await (const part of response) {
        bytes += (part as Buffer).length
        // Leaving the loop closes the connection.
        if (bytes > bytes_max) break
        parts.push(part as Buffer)
      }
    } catch (error) {
      this.#end({ kind: 'unreachable', message: messageOf(error), code: null })
      return null
    }
    return { text: Buffer.concat(parts).toString(), whole: bytes <= bytes_max }
  }

  #end(end: VllmRequestEnd): void {
    if (this.#over) return
    this.#over = true
    this.#listener.ended(end)
  }
}
