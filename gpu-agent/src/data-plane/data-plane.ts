/**
 * The agent's HTTP server (src/protocol/stream.ts): calls with tickets, health, metrics. Order of a call's checks: ticket,
 * then body, then the lease, which is used up only when everything else was in order.
 */
import { createHash, timingSafeEqual } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import {
  DISPATCHED_BODY_BYTES_MAX,
  LEASE_PATH,
  NATIVE_PATHS,
  RESUME_FIELD,
  RESUMED_BODY_BYTES_MAX,
  Resume,
  type StreamError,
  type TicketClaims,
} from '../../../src/protocol/index.ts'
import { messageOf } from '../events.ts'
import { type Dialect, isNativeApi } from '../fronts/engine-front.ts'
import { acceptFields } from '../openai/accepted-fields.ts'
import type { ServedEngine } from '../served-engine.ts'
import { Call, type CallContext } from './call.ts'
import { answerRefusal, CallStream, STREAM_TIMES, type StreamTimes } from './call-stream.ts'
import { isOnDisk } from './disk-wait.ts'
import { EarlyCancels } from './early-cancels.ts'
import { type JsonBody, readJsonBody } from './json-body.ts'
import { ERRORS, REFUSALS, type Refusal } from './stream-errors.ts'
import type { TicketGate } from './ticket-gate.ts'

export const HEADER_BYTES_MAX = 32 * 1024
const CONNECTIONS_MAX = 4096
/** Calls under way over all engines; past it `engine_full`. */
const OPEN_CALLS_MAX = 2048
/** A request must be complete within this time. */
const REQUEST_RECEIVE_MS = 30_000
/** Longer than a Worker's pause between calls, so that its connections are used again. */
const KEEP_CONNECTION_MS = 75_000

const NO_HINTS: ReadonlySet<string> = new Set()

const DIALECTS: Readonly<Record<string, Dialect>> = {
  '/v1/chat/completions': 'chat',
  '/v1/completions': 'completions',
  '/v1/embeddings': 'embeddings',
  [NATIVE_PATHS.messages]: 'messages',
  [NATIVE_PATHS.responses]: 'responses',
}

/** An engine makes all embeddings of a call at once, so none of them has been read when the last is written. */
const UNREAD_EMBEDDING_BYTES_MAX = 16 * 1024 * 1024

export interface DataPlaneOptions {
  gate: TicketGate
  context: CallContext
  health: () => { ok: boolean; body: object }
  /** Bearer that /metrics asks for; null: it is open. */
  metrics_token?: string | null
  body_bytes_max?: number
  open_calls_max?: number
  connections_max?: number
  times?: Partial<StreamTimes>
}

export class DataPlane {
  readonly #options: DataPlaneOptions
  readonly #server: Server
  readonly #times: StreamTimes
  readonly #calls = new Map<string, Call>()
  /** Leases whose response the reader has not taken to its end. */
  readonly #responding = new Set<string>()
  readonly #early = new EarlyCancels()

  constructor(options: DataPlaneOptions) {
    this.#options = options
    this.#times = { ...STREAM_TIMES, ...options.times }
    this.#server = createServer(
      {
        maxHeaderSize: HEADER_BYTES_MAX,
        requestTimeout: REQUEST_RECEIVE_MS,
        headersTimeout: REQUEST_RECEIVE_MS,
        keepAliveTimeout: KEEP_CONNECTION_MS,
        noDelay: true,
      },
      (request, response) => {
        this.#route(request, response).catch((error: unknown) => this.#crashed(response, error))
      },
    )
    // Node closes the connection past it at once.
    this.#server.maxConnections = options.connections_max ?? CONNECTIONS_MAX
  }

  get openCalls(): number {
    return this.#calls.size
  }

  async listen(host: string, port: number): Promise<AddressInfo> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    this.#server.once('error', reject)
    this.#server.listen(port, host, resolve)
    await promise
    return this.#server.address() as AddressInfo
  }

  cancel(leases: readonly string[], error: StreamError): void {
    for (const lease of leases) {
      const call = this.#calls.get(lease)
      if (call === undefined) this.#early.add(lease, error)
      else call.cancel(error)
    }
  }

  cancelAll(error: StreamError): number {
    for (const call of this.#calls.values()) call.cancel(error)
    return this.#calls.size
  }

  /** Resolves true when no call is under way, false after `limit_ms`. */
  async idle(limit_ms: number): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<false>()
    const timer = setTimeout(() => resolve(false), limit_ms)
    const settled = Promise.all([...this.#calls.values()].map((call) => call.settled)).then(() => true as const)
    const idle = await Promise.race([settled, promise])
    clearTimeout(timer)
    return idle
  }

  /** Takes no further connections; those with a response under way get `grace_ms` to read it to its end. */
  async close(grace_ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#server.close(() => resolve())
    this.#server.closeIdleConnections()
    const timer = setTimeout(() => this.#server.closeAllConnections(), grace_ms)
    await promise
    clearTimeout(timer)
  }

  async #route(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = (request.url ?? '').split('?', 1)[0] ?? ''
    const dialect = Object.hasOwn(DIALECTS, path) ? DIALECTS[path] : undefined
    const known = dialect !== undefined || path === '/healthz' || path === '/metrics' || path.startsWith(LEASE_PATH)
    if (!known) return this.#refuse(response, REFUSALS.not_found)
    if (request.method !== (dialect === undefined ? 'GET' : 'POST')) {
      return this.#refuse(response, REFUSALS.method_not_allowed)
    }
    if (dialect !== undefined) return this.#serve(request, response, dialect)
    if (path === '/healthz') return this.#health(response)
    if (path.startsWith(LEASE_PATH)) return this.#lease(request, response, path.slice(LEASE_PATH.length))
    if (!this.#mayScrape(request.headers.authorization)) return this.#refuse(response, REFUSALS.metrics_unauthorised)
    const { registry } = this.#options.context.metrics
    response.writeHead(200, { 'content-type': registry.contentType }).end(await registry.metrics())
  }

  async #serve(request: IncomingMessage, response: ServerResponse, dialect: Dialect): Promise<void> {
    const { gate, context } = this.#options
    const judged = await gate.judge(request.headers.authorization)
    if (!judged.ok) return this.#refuse(response, judged)
    const bytes_max = judged.claims.resumes ? RESUMED_BODY_BYTES_MAX : DISPATCHED_BODY_BYTES_MAX
    const body = await readJsonBody(request, this.#options.body_bytes_max ?? bytes_max)
    if (!body.ok) return this.#refuseBody(response, body)
    const verdict = gate.recheck(judged.claims)
    if (!verdict.ok) return this.#refuse(response, verdict)
    const asked = splitResume(body.value, verdict.claims)
    if (asked === null) return this.#refuse(response, REFUSALS.resume_malformed)
    const { native_apis = [] } = verdict.engine.description
    // The server of the engine may be another one than when the call was leased.
    if (isNativeApi(dialect) && !native_apis.includes(dialect)) return this.#refuse(response, REFUSALS.not_found)
    if (this.#calls.size >= (this.#options.open_calls_max ?? OPEN_CALLS_MAX)) {
      return this.#refuse(response, REFUSALS.engine_full)
    }
    const lease = context.outbox.openLease(verdict.claims)
    if (lease.status === 'used') return this.#refuse(response, REFUSALS.lease_used)
    if (lease.status === 'disk_full') return this.#refuse(response, REFUSALS.disk_full)
    if (lease.status === 'full') return this.#refuse(response, REFUSALS.outbox_full)
    await this.#run(
      response,
      verdict.engine,
      new Call(verdict.claims, verdict.engine, context, request.headers.traceparent as string | undefined),
      lease.committed,
      dialect,
      asked,
    )
  }

  async #run(
    response: ServerResponse,
    engine: ServedEngine,
    call: Call,
    committed: Promise<void>,
    dialect: Dialect,
    { body, resume }: AskedCall,
  ): Promise<void> {
    this.#calls.set(call.claims.lease, call)
    this.#responding.add(call.claims.lease)
    response.on('close', () => this.#responding.delete(call.claims.lease))
    void call.settled.then(() => this.#calls.delete(call.claims.lease))
    const accepted = acceptFields(dialect, body, engine.front.hints ?? NO_HINTS)
    const times =
      dialect === 'embeddings' ? { ...this.#times, unread_bytes_max: UNREAD_EMBEDDING_BYTES_MAX } : this.#times
    const stream = new CallStream(response, times, () => call.cancel(ERRORS.client_gone), accepted.not_applied)
    if (!(await isOnDisk(committed, this.#options.context.disk_wait_ms))) call.cancel(ERRORS.disk_full)
    const early = this.#early.take(call.claims.lease)
    if (early !== null) call.cancel(early)
    if (response.destroyed) call.cancel(ERRORS.client_gone)
    else if (engine.epoch !== call.claims.epoch) call.cancel(REFUSALS.epoch_gone.error)
    call.start(dialect, accepted.body, stream, resume)
  }

  /** Whether the response of a lease is open. Also of an engine that takes no more calls. */
  async #lease(request: IncomingMessage, response: ServerResponse, lease: string): Promise<void> {
    const read = await this.#options.gate.read(request.headers.authorization)
    if (!read.ok) return this.#refuse(response, read)
    if (read.claims.lease !== lease || !this.#responding.has(lease)) return answerRefusal(response, REFUSALS.lease_over)
    response.writeHead(200, { 'content-type': 'application/json', 'cache-control': 'no-store' }).end('{"open":true}')
  }

  /** Where the operator set a token, /metrics asks for it. */
  #mayScrape(authorization: string | undefined): boolean {
    const { metrics_token } = this.#options
    if (metrics_token === null || metrics_token === undefined) return true
    const given = createHash('sha256')
      .update(authorization ?? '')
      .digest()
    return timingSafeEqual(given, createHash('sha256').update(`Bearer ${metrics_token}`).digest())
  }

  #refuseBody(response: ServerResponse, body: JsonBody & { ok: false }): void {
    if (body.reason === 'too_large') this.#refuse(response, REFUSALS.request_too_large)
    else if (body.reason === 'invalid_json') this.#refuse(response, REFUSALS.invalid_json)
    else response.destroy()
  }

  #refuse(response: ServerResponse, refusal: Refusal): void {
    this.#options.context.metrics.refused(refusal.error.error.code ?? 'unknown')
    answerRefusal(response, refusal)
  }

  #health(response: ServerResponse): void {
    const { ok, body } = this.#options.health()
    response.writeHead(ok ? 200 : 503, { 'content-type': 'application/json', 'cache-control': 'no-store' })
    response.end(JSON.stringify(body))
  }

  #crashed(response: ServerResponse, error: unknown): void {
    this.#options.context.report({ event: 'call_crashed', lease: '', message: messageOf(error) })
    if (response.headersSent) response.destroy()
    else answerRefusal(response, { http_status: ERRORS.engine_failed.status, error: ERRORS.engine_failed })
  }
}

interface AskedCall {
  body: unknown
  /** What another engine began. Null: the answer begins here. */
  resume: Resume | null
}

/** Only the ticket says that a call is resumed: a field of the same name in a client's body means nothing. Null: it is malformed. */
function splitResume(value: unknown, { resumes }: TicketClaims): AskedCall | null {
  if (resumes !== true) return { body: value, resume: null }
  if (typeof value !== 'object' || value === null) return null
  const { [RESUME_FIELD]: given, ...body } = value as Record<string, unknown>
  const parsed = Resume.safeParse(given)
  return parsed.success ? { body, resume: parsed.data } : null
}
