/**
 * A server that speaks the OpenAI API and nothing else: `/v1/models`, `/v1/chat/completions` and, if asked for,
 * `/v1/completions`. It writes as many tokens as a call asks for, one a step, for `seats` calls at a time; others wait in its own
 * queue, first come, first served, and nothing tells how many do. A call whose connection closes is over.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { bodyOf, type Json, reply } from './json-http.ts'

const TOKENS_DEFAULT = 16

export interface PlainServerOptions {
  models: readonly string[]
  seats: number
  step_ms: number
  completions: boolean
  /** It answers in one piece, whatever is asked for. */
  whole: boolean
  /** Its streams end with usage. */
  usage: boolean
  /** Bearer that it asks for. */
  key: string | null
}

const DEFAULTS: PlainServerOptions = {
  ...{ models: ['plain'], seats: 2, step_ms: 2, completions: false, whole: false, usage: true, key: null },
}

interface Served {
  path: string
  body: Json
  headers: IncomingMessage['headers']
}

export class PlainServer {
  readonly options: PlainServerOptions
  /** Calls that came, in order. */
  readonly served: Served[] = []
  /** The most that ran or waited at once. */
  open_max = 0
  /** Answers every request in the place of the server. Null: the server does. */
  answer: ((request: IncomingMessage, response: ServerResponse) => void) | null = null
  readonly #http: Server
  readonly #waiting: (() => void)[] = []
  #running = 0
  #open = 0
  #port = 0

  constructor(options: Partial<PlainServerOptions> = {}) {
    this.options = { ...DEFAULTS, ...options }
    this.#http = createServer((request, response) => {
      if (this.answer !== null) this.answer(request, response)
      else void this.#route(request, response)
    })
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`
  }

  get open(): number {
    return this.#open
  }

  /** Port 0: a free one the first time, and the same one again. */
  async listen(port = this.#port, host = '127.0.0.1'): Promise<this> {
    await new Promise<void>((resolve, reject) => {
      this.#http.once('error', reject)
      this.#http.listen(port, host, resolve)
    })
    this.#port = (this.#http.address() as AddressInfo).port
    return this
  }

  async close(): Promise<void> {
    this.#http.closeAllConnections()
    await new Promise((resolve) => this.#http.close(resolve))
  }

  async #route(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { models, completions, key } = this.options
    if (key !== null && request.headers.authorization !== `Bearer ${key}`) {
      return reply(response, 401, {
        error: { message: 'wrong key', type: 'invalid_request_error', code: 'invalid_api_key' },
      })
    }
    if (request.url === '/v1/models') {
      return reply(response, 200, { object: 'list', data: models.map((id) => ({ id, object: 'model' })) })
    }
    const chat = request.url === '/v1/chat/completions'
    if (request.method !== 'POST' || !(chat || (completions && request.url === '/v1/completions'))) {
      return reply(response, 404, { error: { message: 'no such route', type: 'not_found_error', code: null } })
    }
    const body = await bodyOf(request)
    if (body === null) return reply(response, 400, { error: { message: 'not JSON', type: 'invalid_request_error' } })
    if (!models.includes(String(body.model))) {
      return reply(response, 404, { error: { message: `no model ${String(body.model)}`, type: 'not_found_error' } })
    }
    this.served.push({ path: request.url ?? '', body, headers: request.headers })
    this.#open += 1
    this.open_max = Math.max(this.open_max, this.#open)
    try {
      await this.#write(chat, body, response)
    } finally {
      this.#open -= 1
    }
  }

  async #write(chat: boolean, body: Json, response: ServerResponse): Promise<void> {
    const { seats, step_ms, usage: tells, whole } = this.options
    if (this.#running >= seats) await new Promise<void>((resolve) => this.#waiting.push(resolve))
    else this.#running += 1
    try {
      const due = Number(body.max_tokens ?? TOKENS_DEFAULT)
      const prompt_tokens = Math.ceil(JSON.stringify(body.messages ?? body.prompt).length / 4)
      const usage = { prompt_tokens, completion_tokens: due, total_tokens: prompt_tokens + due }
      const streams = body.stream === true && !whole
      if (streams) response.writeHead(200, { 'content-type': 'text/event-stream' })
      for (let written = 1; written <= due && !response.destroyed; written++) {
        await sleep(step_ms)
        if (streams) event(response, chunk(chat, 'a ', written === due ? 'length' : null))
      }
      if (response.destroyed) return
      if (!streams) {
        const text = 'a '.repeat(due)
        const said = chat ? { message: { role: 'assistant', content: text } } : { text }
        reply(response, 200, { id: 'x', choices: [{ index: 0, ...said, finish_reason: 'length' }], usage })
        return
      }
      const asked = (body.stream_options as Json | undefined)?.include_usage === true
      if (tells && asked) event(response, { id: 'x', choices: [], usage })
      response.end('data: [DONE]\n\n')
    } finally {
      const next = this.#waiting.shift()
      if (next === undefined) this.#running -= 1
      else next()
    }
  }
}

function chunk(chat: boolean, text: string, finish_reason: string | null): Json {
  const said = chat ? { delta: { content: text } } : { text }
  return { id: 'x', object: 'chunk', choices: [{ index: 0, ...said, finish_reason }] }
}

function event(response: ServerResponse, value: Json): void {
  response.write(`data: ${JSON.stringify(value)}\n\n`)
}
