/**
 * A hosted API with rate limits, over real HTTP: `/v1/models`, `/v1/chat/completions`, `/v1/messages` and `/v1/responses`. Keys have accounts of
 * their own, so two clients with one key share its limits. It serves any number of calls at once unless `concurrency` says less.
 *
 * The clock: real time by default. With `time_scale` S a second of the client is S seconds of the provider: its windows, its
 * cache's life and the time that answers take pass S times as fast. What it tells a client (`retry-after`, resets) is in the
 * client's seconds.
 *
 * Faults come by chance from `seed`, each with its own probability. A refusal is a fault of the provider and takes nothing from
 * a limit. Equal seeds give the same faults to the calls in the order in which they come.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  type CallCost,
  type LimitState,
  ProviderAccount,
  type ProviderLimit,
} from '../../../../../engine/queue/limits/provider-account.ts'
import { seeded } from '../../../../../engine/queue/testing/seats-server.ts'
import { bodyOf, type Json, reply } from '../json-http.ts'
import {
  answerOf,
  beginningOf,
  endOf,
  limitMessage,
  type ProviderApi,
  type ProviderUsage,
  promptOf,
  refusalOf,
  tokensOf,
  wordOf,
} from './provider-answers.ts'
import { PromptCache } from './provider-cache.ts'
import { type HeaderStyle, limitHeaders, retryHeaders } from './provider-headers.ts'

const OUTPUT_TOKENS_DEFAULT = 16
/** Words of one write, so that a fast stream costs little. */
const WRITES_MAX = 16
const STALL_S = 3600

export interface ProviderFaults {
  /** Answered 429 although the limits have room. */
  refused: number
  /** Answered 529. */
  overloaded: number
  /** A stream that begins and says nothing more. */
  stalls: number
  /** A stream that breaks off in its middle. */
  breaks: number
  /** No usage, where the API leaves a choice. */
  without_usage: number
}

export const NO_FAULTS: ProviderFaults = { refused: 0, overloaded: 0, stalls: 0, breaks: 0, without_usage: 0 }

export interface ProviderOptions {
  models: readonly string[]
  /** Null: it asks for none, and all clients share one account. */
  keys: readonly string[] | null
  apis: readonly ProviderApi[]
  limits: readonly ProviderLimit[]
  concurrency: number | null
  shape: 'bucket' | 'window'
  counts: 'reserved' | 'used'
  headers: HeaderStyle
  /** Provider seconds before the first word, and words a provider second after it. */
  ttft_s: number
  words_per_s: number
  cache_min_tokens: number
  cache_life_s: number
  time_scale: number
  seed: number
  faults: Partial<ProviderFaults>
}

const APIS: Readonly<Record<string, ProviderApi>> = {
  '/v1/chat/completions': 'chat',
  '/v1/messages': 'messages',
  '/v1/responses': 'responses',
}

const DEFAULTS: ProviderOptions = {
  ...{ models: ['hosted'], keys: null, apis: ['chat', 'messages'], limits: [], concurrency: null, shape: 'bucket' },
  ...{ counts: 'reserved', headers: 'openai', ttft_s: 0.3, words_per_s: 80 },
  ...{ cache_min_tokens: 1024, cache_life_s: 300, time_scale: 1, seed: 1, faults: {} },
}

/** What became of a request. */
export interface ProviderCall {
  api: ProviderApi
  key: string
  at_s: number
  status: number
  /** Wrote all that it had to. */
  whole: boolean
  prompt_tokens: number
  cached_tokens: number
  output_tokens: number
  body: Json
  headers: IncomingMessage['headers']
}

export class ScriptedProvider {
  readonly options: ProviderOptions
  readonly calls: ProviderCall[] = []
  /** The most that it served at once. */
  open_max = 0
  readonly #http: Server
  readonly #accounts = new Map<string, ProviderAccount>()
  readonly #cache: PromptCache
  readonly #random: () => number
  readonly #faults: ProviderFaults
  readonly #closing = new AbortController()
  readonly #started_ms = performance.now()
  #open = 0
  #port = 0

  constructor(options: Partial<ProviderOptions> = {}) {
    this.options = { ...DEFAULTS, ...options }
    const { seed, faults, cache_min_tokens, cache_life_s } = this.options
    this.#random = seeded(seed)
    this.#faults = { ...NO_FAULTS, ...faults }
    this.#cache = new PromptCache(cache_min_tokens, cache_life_s)
    this.#http = createServer((request, response) => void this.#route(request, response))
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`
  }

  /** Of the provider's clock. */
  get now_s(): number {
    return ((performance.now() - this.#started_ms) / 1000) * this.options.time_scale
  }

  /** Port 0: a free one the first time, and the same one again. */
  async listen(port = this.#port): Promise<this> {
    await new Promise<void>((resolve, reject) => {
      this.#http.once('error', reject)
      this.#http.listen(port, '127.0.0.1', resolve)
    })
    this.#port = (this.#http.address() as AddressInfo).port
    return this
  }

  async close(): Promise<void> {
    this.#closing.abort()
    this.#http.closeAllConnections()
    await new Promise((resolve) => this.#http.close(resolve))
  }

  /** Of a key, or of all clients. */
  account(key = ''): ProviderAccount {
    const known = this.#accounts.get(key)
    if (known !== undefined) return known
    const account = new ProviderAccount(this.options.limits, this.options.shape)
    this.#accounts.set(key, account)
    return account
  }

  async #route(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { models, apis } = this.options
    const path = pathOf(request)
    const api = APIS[path] ?? 'chat'
    const key = this.#keyOf(request)
    if (key === null) return reply(response, 401, refusalOf(api, 401, 'authentication_error', 'wrong key'))
    if (path === '/v1/models') {
      return reply(response, 200, { object: 'list', data: models.map((id) => ({ id, object: 'model' })) })
    }
    if (APIS[path] === undefined || request.method !== 'POST' || !apis.includes(api)) {
      return reply(response, 404, refusalOf(api, 404, 'not_found_error', 'no such route'))
    }
    const body = await bodyOf(request)
    const model = String(body?.model)
    if (body === null || !models.includes(model)) {
      const message = body === null ? 'not JSON' : `no model ${model}`
      const status = body?.model === undefined ? 400 : 404
      return reply(response, status, refusalOf(api, status, 'invalid_request_error', message))
    }
    await this.#serve(api, key, body, request, response)
  }

  /** Null: not one that it knows. */
  #keyOf({ headers }: IncomingMessage): string | null {
    const { keys } = this.options
    if (keys === null) return ''
    const given = headers.authorization?.replace(/^Bearer /, '') ?? headers['x-api-key'] ?? headers['api-key']
    return typeof given === 'string' && keys.includes(given) ? given : null
  }

  async #serve(
    api: ProviderApi,
    key: string,
    body: Json,
    { headers }: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> {
    const { counts, concurrency, headers: style } = this.options
    const [model, prompt] = [String(body.model), promptOf(body)]
    const due = Number(body.max_output_tokens ?? body.max_completion_tokens ?? body.max_tokens ?? OUTPUT_TOKENS_DEFAULT)
    const faulty = this.#drawFaults()
    const call: ProviderCall = {
      ...{ api, key, at_s: this.now_s, status: 200, whole: false },
      ...{ prompt_tokens: tokensOf(prompt), cached_tokens: 0, output_tokens: 0, body, headers },
    }
    this.calls.push(call)
    const refuse = (status: number, type: string, message: string, retry_after_s: number): void => {
      call.status = status
      const retry = retryHeaders(style, this.#realS(retry_after_s))
      reply(response, status, refusalOf(api, status, type, message), { ...this.#told(key), ...retry })
    }
    if (faulty.overloaded) return refuse(529, 'overloaded_error', 'Overloaded', 1)
    if (faulty.refused) return refuse(429, 'rate_limit_error', 'Too many requests', 1)
    if (concurrency !== null && this.#open >= concurrency) {
      return refuse(429, 'rate_limit_error', `Too many concurrent requests: ${concurrency} are open`, 0.5)
    }
    const account = this.account(key)
    const cached_tokens = this.#cache.use(prompt, this.now_s)
    const cost: CallCost =
      counts === 'reserved'
        ? { requests: 1, input: call.prompt_tokens, output: due }
        : { requests: 1, input: call.prompt_tokens - cached_tokens, output: 0 }
    const admitted = account.admit(cost, this.now_s)
    if (!admitted.ok) {
      const state = account.states(this.now_s).find((one) => sameLimit(one, admitted.limit)) as LimitState
      const needed = cost.input + cost.output
      return refuse(429, 'rate_limit_error', limitMessage(model, state, needed), admitted.retry_after_s)
    }
    call.cached_tokens = cached_tokens
    // As providers do: of when it was admitted, however late its first word comes.
    const told = this.#told(key)
    this.#open += 1
    this.open_max = Math.max(this.open_max, this.#open)
    try {
      await this.#write(call, due, faulty, told, response)
    } finally {
      this.#open -= 1
    }
  }

  async #write(
    call: ProviderCall,
    due: number,
    faulty: Record<keyof ProviderFaults, boolean>,
    told: Record<string, string>,
    response: ServerResponse,
  ): Promise<void> {
    const { counts, ttft_s, words_per_s } = this.options
    const { api, key, body } = call
    const model = String(body.model)
    const usage = (): ProviderUsage => call
    const streams = body.stream === true
    const asked = (body.stream_options as Json | undefined)?.include_usage === true
    const tells = !faulty.without_usage && (api !== 'chat' || !streams || asked)
    await this.#sleep(ttft_s)
    if (response.destroyed) return
    if (streams) {
      response.writeHead(200, { 'content-type': 'text/event-stream', ...told })
      response.write(beginningOf(api, model, usage()))
    }
    if (faulty.stalls) await this.#sleep(STALL_S * this.options.time_scale)
    const batch = Math.max(1, Math.ceil(due / WRITES_MAX))
    while (call.output_tokens < due && !response.destroyed) {
      const words = Math.min(batch, due - call.output_tokens)
      await this.#sleep(words / words_per_s)
      call.output_tokens += words
      if (counts === 'used') this.account(key).take({ requests: 0, input: 0, output: words }, this.now_s)
      if (streams) response.write(wordOf(api, model).repeat(words))
      if (faulty.breaks && call.output_tokens * 2 >= due) {
        response.destroy()
        return
      }
    }
    if (response.destroyed) return
    call.whole = true
    if (streams) response.end(endOf(api, model, usage(), tells))
    else reply(response, 200, answerOf(api, model, usage(), tells), told)
  }

  #drawFaults(): Record<keyof ProviderFaults, boolean> {
    const happens = (probability: number): boolean => this.#random() < probability
    const { refused, overloaded, stalls, breaks, without_usage } = this.#faults
    return {
      ...{ refused: happens(refused), overloaded: happens(overloaded), stalls: happens(stalls) },
      ...{ breaks: happens(breaks), without_usage: happens(without_usage) },
    }
  }

  #told(key: string): Record<string, string> {
    const states = this.account(key).states(this.now_s)
    return limitHeaders(this.options.headers, states, { real_s: (span_s) => this.#realS(span_s), wall_ms: Date.now() })
  }

  #realS(span_s: number): number {
    return span_s / this.options.time_scale
  }

  async #sleep(span_s: number): Promise<void> {
    const { signal } = this.#closing
    await sleep(this.#realS(span_s) * 1000, undefined, { signal }).catch((error: unknown) => {
      if (!signal.aborted) throw error
    })
  }
}

/** As Azure has them too: beside or below a deployment, with the version in the query. */
function pathOf({ url = '' }: IncomingMessage): string {
  const path = url.replace(/\?.*$/, '')
  const azure = /^\/openai(?:\/deployments\/[^/]+)?(\/.*)$/.exec(path)?.[1]
  return azure === undefined ? path : azure.startsWith('/v1/') ? azure : `/v1${azure}`
}

function sameLimit(one: ProviderLimit, other: ProviderLimit): boolean {
  return one.quantity === other.quantity && one.per_s === other.per_s
}
