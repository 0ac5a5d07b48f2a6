/**
 * A server that speaks the OpenAI API and nothing else: `/v1/models`, `/v1/chat/completions` and, if asked for,
 * `/v1/completions`. It writes as many tokens as a call asks for, one a step, for `seats` calls at a time; others wait in its own
 * queue, first come, first served, and nothing tells how many do. A call whose connection closes is over.
 *
 * With `continues` it tells a story in which no word comes twice, and goes on with the part of it that it is given.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ContinuingChat } from '../continuing/continuing.ts'
import { bodyOf, type Json, reply } from './json-http.ts'

const TOKENS_DEFAULT = 16
/** Of a conversation, however long, whose story goes on. */
export const STORY_PROMPT_TOKENS = 20

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
  /** How it goes on with the text of an answer. Null: it does not, and says one word again and again. */
  continues: ContinuingChat | null
}

const DEFAULTS: PlainServerOptions = {
  ...{
    models: ['plain'],
    seats: 2,
    step_ms: 2,
    completions: false,
    whole: false,
    usage: true,
    key: null,
    continues: null,
  },
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
    if (this.options.continues?.way === 'last_message' && body.continue_final_message !== undefined) {
      return reply(response, 400, { error: { message: 'no such field', type: 'invalid_request_error' } })
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

  /** Words of the story that a body gives back. */
  #toldSoFar({ messages, prompt, continue_final_message }: Json): number {
    const { continues } = this.options
    if (continues === null) return 0
    const last = Array.isArray(messages) ? (messages.at(-1) as Json) : { role: 'assistant', content: prompt }
    const open = messages === undefined || continues.way === 'last_message' || continue_final_message === true
    return open && last.role === 'assistant' ? (String(last.content).match(/word\d+/g) ?? []).length : 0
  }

  #words({ max_tokens, stop }: Json, told: number): { words: string[]; finish_reason: string } {
    const due = Number(max_tokens ?? TOKENS_DEFAULT)
    if (this.options.continues === null)
      return { words: Array.from({ length: due }, () => 'a '), finish_reason: 'length' }
    const words = Array.from({ length: due }, (_, at) => storyWord(told + at))
    const end = typeof stop === 'string' ? words.join('').indexOf(stop) : -1
    if (end === -1) return { words, finish_reason: 'length' }
    return { words: [words.join('').slice(0, end)], finish_reason: 'stop' }
  }

  #promptTokens({ messages, prompt }: Json, told: number): number {
    const { continues } = this.options
    const text = JSON.stringify(messages ?? prompt)
    if (continues === null) return Math.ceil(text.length / 4)
    return STORY_PROMPT_TOKENS + told + (continues.keeps_space && /\\n"[}\]]*$/.test(text) ? 1 : 0)
  }

  async #write(chat: boolean, body: Json, response: ServerResponse): Promise<void> {
    const { seats, step_ms, usage: tells, whole } = this.options
    if (this.#running >= seats) await new Promise<void>((resolve) => this.#waiting.push(resolve))
    else this.#running += 1
    try {
      const told = this.#toldSoFar(body)
      const { words, finish_reason } = this.#words(body, told)
      const due = words.length
      const prompt_tokens = this.#promptTokens(body, told)
      const usage = { prompt_tokens, completion_tokens: due, total_tokens: prompt_tokens + due }
      const streams = body.stream === true && !whole
      if (streams) response.writeHead(200, { 'content-type': 'text/event-stream' })
      const echoed = this.options.continues?.echoes === true && chat ? storyText(told) : ''
      for (const [at, word] of words.entries()) {
        if (response.destroyed) break
        await sleep(step_ms)
        const text = at === 0 ? echoed + word : word
        if (streams) event(response, chunk(chat, text, at === due - 1 ? finish_reason : null))
      }
      if (response.destroyed) return
      if (!streams) {
        const text = echoed + words.join('')
        const said = chat ? { message: { role: 'assistant', content: text } } : { text }
        reply(response, 200, { id: 'x', choices: [{ index: 0, ...said, finish_reason }], usage })
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

/** So many words of the story. */
export function storyText(words: number): string {
  return Array.from({ length: words }, (_, at) => storyWord(at)).join('')
}

/** White space leads it, as in most vocabularies; each fifth begins a paragraph. */
function storyWord(at: number): string {
  return `${at === 0 ? '' : at % 5 === 0 ? '\n' : ' '}word${at}`
}

function chunk(chat: boolean, text: string, finish_reason: string | null): Json {
  const said = chat ? { delta: { content: text } } : { text }
  return { id: 'x', object: 'chunk', choices: [{ index: 0, ...said, finish_reason }] }
}

function event(response: ServerResponse, value: Json): void {
  response.write(`data: ${JSON.stringify(value)}\n\n`)
}
