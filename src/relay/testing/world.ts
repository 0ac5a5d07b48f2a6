/** A world for one call: scripted engines in place of the network, and actors that can be slow, broken or full. */
import { vi } from 'vitest'
import type {
  AdmitReply,
  ConversationRpc,
  IdempotencyRpc,
  LeaseReply,
  PoolRpc,
  ProgramRpc,
  RememberedPool,
  TenantRpc,
} from '../../actors/contracts.ts'
import type { ResponsesRpc } from '../../actors/responses-rpc.ts'
import type { EngineSnapshot } from '../../core/pool/pool-types.ts'
import { type TicketClaims, verifyTicket } from '../../protocol/index.ts'
import { deriveTicketKey, importTicketKey } from '../../protocol/ticket.ts'
import type { Catalogue } from '../../store/catalogue.ts'
import { BudgetShares } from '../budget-shares.ts'
import { CreditBook } from '../credit-book.ts'
import { RELAY_TIMES, type RelayDeps, type RelayTimes } from '../deps.ts'
import { EndedCalls } from '../ended-calls.ts'
import { FileBudget } from '../file-budget.ts'
import { HoldMemory } from '../hold-memory.ts'
import { Notices } from '../notices.ts'
import { PoolMemory } from '../pool-memory.ts'
import { RatePermits } from '../rate-permits.ts'

export type Engine = (request: Request) => Response | Promise<Response>

/** What was said to actors, in order. */
interface Said {
  to: 'program' | 'pool' | 'tenant' | 'idempotency' | 'conversation' | 'hosts'
  method: string
  argument: unknown
}

export interface World {
  deps: RelayDeps
  said: Said[]
  saidTo(method: string): unknown[]
  /** How calls of programs ended: what their actors were told, and what is kept for their programs' next calls. */
  endings(): unknown[]
  /** Everything handed to waitUntil has ended. */
  settled(): Promise<void>
  reports: string[]
}

export interface WorldOptions {
  /** By engine id; each engine has an agent of its own at http://<engine>.test. */
  engines?: Readonly<Record<string, Engine>>
  program?: Partial<ProgramRpc>
  pool?: Partial<PoolRpc>
  tenant?: Partial<TenantRpc>
  idempotency?: Partial<IdempotencyRpc>
  responses?: Partial<ResponsesRpc>
  conversation?: Partial<ConversationRpc>
  times?: Partial<RelayTimes>
  pools?: PoolMemory
  regions?: readonly string[]
  deps?: Partial<RelayDeps>
}

export const MODEL = 'm'
export const ADMITTED: AdmitReply = {
  status: 'admitted',
  run: 'run-1',
  thread: 'thread-1',
  class: 'app:x',
  sequence: [1, 9],
  settled_service_us: 5,
  critical_path_us: 3,
  program_wait_us: 2,
  program_output_tokens: 4,
  position: 6,
  last_tool: 'search',
  reading: 'modelled',
  open_leases: [],
  pin: null,
  expected_lease: null,
  regions: null,
  reserved: null,
  budget: null,
  weight: 1,
}

export const UNRESTRICTED = {
  ...{ tenant: 't', key: 'key-0123456789abcdef', weight: 1, class_weights: {}, models: null, regions: null },
  ...{
    calls_per_minute_max: null,
    live_programs_max: null,
    shards: 1,
    inference: false,
    objective: null,
    strict: false,
  },
  limits: null,
}

function catalogueOf(regions: readonly string[]): Catalogue {
  const model = {
    id: MODEL,
    ordering_service: 'modelled' as const,
    objective: 'token_latency' as const,
    context_tokens_max: 4096,
    bytes_per_token: 4,
    ...{ prompt_price: null, cached_prompt_price: null, output_price: null, price_changes: '[]' },
  }
  return {
    regions: regions.map((id, position) => ({ id, position, location_hint: null, latitude: null, longitude: null })),
    linked: new Map([[MODEL, new Set(regions)]]),
    models: new Map([[MODEL, { ...model, created_at_ms: 1_700_000_000_000 }]]),
  }
}

export function leaseOf(engine: string, snapshot: RememberedPool | null = null): LeaseReply {
  const agent = `agent-${engine}`
  const url = `http://${engine}.test`
  const engineOf = { agent, engine, epoch: 'epoch-1', url, reason: 'least_used' as const, pin: false, resumes: true }
  return { status: 'leased', ...engineOf, speed_factor: 1, load: 0, ticket_kid: '1', snapshot, charges: [] }
}

export function snapshotOf(engines: readonly string[], region = 'near'): RememberedPool {
  const idle = { state: 'ready' as const, kind: 'embedded', epoch: 'epoch-1', waiting: 0, running: 0, queued_tokens: 0 }
  const size = { seats: 4, kv_used_tokens: 0, kv_capacity_tokens: 8192, context_tokens_max: 4096 }
  const rest = { leases_since_report: 0, speed_factor: 1, prefill_tokens_per_s: null, last_report_ms: 0 }
  const listed = engines.map((engine): EngineSnapshot => {
    return { engine, agent: `agent-${engine}`, url: `http://${engine}.test`, ...idle, ...size, ...rest }
  })
  const ticket_kids = Object.fromEntries(listed.map(({ agent }) => [agent, '1']))
  return { region, model: MODEL, version: 1, taken_at_ms: 0, bytes_per_token: null, engines: listed, ticket_kids }
}

export function world(options: WorldOptions = {}): World {
  const said: Said[] = []
  const endings: unknown[] = []
  const ended = new EndedCalls()
  const waiting: Promise<unknown>[] = []
  const reports: string[] = []
  const engines = options.engines ?? {}
  let ids = 0
  vi.spyOn(ended, 'remember').mockImplementation((tenant, program, call) => {
    endings.push(call)
    EndedCalls.prototype.remember.call(ended, tenant, program, call)
  })
  const record = <R extends object>(to: Said['to'], rpc: R): R =>
    new Proxy(rpc, {
      get: (target, method) => async (argument: unknown) => {
        said.push({ to, method: String(method), argument })
        if (method === 'callEnded') endings.push(argument)
        return (Reflect.get(target, method) as (argument: unknown) => Promise<unknown>)(argument)
      },
    })
  const nothing = { ticket_kid: null, snapshot: null, charges: [] }
  const program = {
    admit: async () => ADMITTED,
    leaseOpened: async () => {},
    leaseLost: async () => {},
    callEnded: async () => {},
    ...options.program,
  } as unknown as ProgramRpc
  const pool = {
    lease: async ({ excluded_engines }: { excluded_engines: readonly string[] }): Promise<LeaseReply> => {
      const engine = Object.keys(engines).find((id) => !excluded_engines.includes(id))
      return engine === undefined ? { status: 'none', retry_after_s: 5, ...nothing } : leaseOf(engine)
    },
    release: async () => {},
    noticeClass: async () => {},
    leasedByCredit: async () => ({}),
    ...options.pool,
  } as unknown as PoolRpc
  const tenant = { medianService: async () => ({ settled_service_us: 77 }), ...options.tenant } as unknown as TenantRpc
  const idempotency = {
    claim: async () => ({ status: 'claimed' }),
    heard: async () => {},
    ended: async () => {},
    ...options.idempotency,
  } as unknown as IdempotencyRpc
  const responses = { put: async () => 'kept', ...options.responses } as unknown as ResponsesRpc
  const conversation = {
    place: async ({ call }: { call: string }) => ({ program: call, source: 'conversation', parents: [] }),
    answered: async () => {},
    ...options.conversation,
  } as unknown as ConversationRpc
  const deps: RelayDeps = {
    authenticate: async () => ({ status: 'tenant', identity: UNRESTRICTED }),
    catalogue: async () => catalogueOf(options.regions ?? ['near']),
    program: () => record('program', program),
    pool: () => record('pool', pool),
    tenant: () => record('tenant', tenant),
    idempotency: () => record('idempotency', idempotency),
    store: () => ({
      responses: () => responses,
      timeout_ms: RELAY_TIMES.store_timeout_ms,
      report: (event) => void reports.push(event),
    }),
    conversation: () => record('conversation', conversation),
    conversationKey: async () => [1, 2],
    pools: options.pools ?? new PoolMemory(),
    creditBook: new CreditBook(),
    permits: new RatePermits(),
    shares: new BudgetShares(),
    files: new FileBudget(null),
    holds: new HoldMemory(),
    ended,
    classNotices: new Notices(),
    returnHosts: async (argument) => void said.push({ to: 'hosts', method: 'returnFor', argument }),
    missedModels: new Notices(),
    residency: async () => ({ regions: null, has_budget: false }),
    fetch: async (input, init) => {
      const request = new Request(input as string, init as RequestInit)
      const engine = engines[new URL(request.url).hostname.replace('.test', '')]
      if (engine === undefined) throw new Error('Network connection lost.')
      return engine(request)
    },
    now: () => Date.now(),
    newId: () => {
      ids += 1
      return `id-${ids}`
    },
    waitUntil: (work) => {
      waiting.push(work)
    },
    report: (event) => {
      reports.push(event)
    },
    tracing: null,
    ticket_secret: 'secret',
    region_rtt_ms: 0,
    // An engine that has failed does not come back by itself.
    times: { ...RELAY_TIMES, resume_wait_ms_max: 0, ...options.times },
    ...options.deps,
  }
  const settled = async (): Promise<void> => {
    // What is waited for may hand over more.
    for (let done = 0; done < waiting.length; done += 1) await waiting[done]
  }
  return {
    deps,
    said,
    saidTo: (method) => said.filter((one) => one.method === method).map((one) => one.argument),
    endings: () => endings,
    settled,
    reports,
  }
}

const encoder = new TextEncoder()

/** An event stream that a test writes step by step. */
export class Script {
  readonly response: Response
  readonly #controller: ReadableStreamDefaultController<Uint8Array>
  cancelled = false

  constructor() {
    let controller: ReadableStreamDefaultController<Uint8Array> | null = null
    const body = new ReadableStream<Uint8Array>({
      start: (given) => {
        controller = given
      },
      cancel: () => {
        this.cancelled = true
      },
    })
    if (controller === null) throw new Error('start is called at once')
    this.#controller = controller
    this.response = new Response(body, { headers: { 'content-type': 'text/event-stream' } })
  }

  write(text: string): this {
    this.#controller.enqueue(encoder.encode(text))
    return this
  }

  chunk(chunk: object): this {
    return this.write(`data: ${JSON.stringify(chunk)}\n\n`)
  }

  end(): this {
    this.#controller.close()
    return this
  }

  break(): this {
    this.#controller.error(new Error('Network connection lost.'))
    return this
  }
}

export function delta(content: string): object {
  return {
    id: 'c',
    object: 'chat.completion.chunk',
    created: 1,
    model: MODEL,
    choices: [{ index: 0, delta: { content } }],
  }
}

export function answering(text: string): Engine {
  return () => new Script().write(': accepted\n\n').chunk(delta(text)).write('data: [DONE]\n\n').end().response
}

export function failing(error: { code: string; status?: number; retryable?: boolean }, http_status = 503): Engine {
  const { code, status = 503, retryable = true } = error
  const body = { error: { message: code, type: 'server_error', param: null, code }, status, retryable }
  return () => Response.json(body, { status: http_status })
}

export function chat(body: object = {}, headers: Record<string, string> = {}, signal?: AbortSignal): Request {
  const call = { model: MODEL, messages: [{ role: 'user', content: 'hi' }], ...body }
  const init = { method: 'POST', body: JSON.stringify(call), headers, ...(signal === undefined ? {} : { signal }) }
  return new Request('http://switchyard.test/v1/chat/completions', init)
}

/** Headers of a call that names its program. */
export const PROGRAM = { 'X-Program-Id': 'p' }

export interface ErrorAnswer {
  error: { message: string; type: string; param: string | null; code: string | null }
}

export async function failureOf(
  response: Response,
): Promise<{ status: number; code: string | null; headers: Headers }> {
  const { error } = (await response.json()) as ErrorAnswer
  return { status: response.status, code: error.code, headers: response.headers }
}

/** The claims of every ticket that engines were shown, in order; engines answer "hi". */
export function claimsWorld(options: WorldOptions = {}): {
  it: World
  claims: TicketClaims[]
  requests: Request[]
} {
  const claims: TicketClaims[] = []
  const requests: Request[] = []
  const engine = async (request: Request): Promise<Response> => {
    requests.push(request.clone() as Request)
    const key = await importTicketKey(await deriveTicketKey('secret', '1', 'agent-e0'))
    const ticket = request.headers.get('authorization')?.replace('Bearer ', '') ?? ''
    const verdict = await verifyTicket(ticket, new Map([['1', key]]), Date.now() / 1000)
    if (!verdict.ok) throw new Error(verdict.reason)
    claims.push(verdict.claims)
    return answering('hi')(request)
  }
  return { it: world({ engines: { e0: engine }, ...options }), claims, requests }
}

/** As the network does it: an aborted fetch errors the body that is being read. */
export async function cutWithSignal(coming: Response | Promise<Response>, signal: AbortSignal): Promise<Response> {
  const response = await coming
  if (response.body === null) return response
  const reader = (response.body as ReadableStream<Uint8Array>).getReader()
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => {
      signal.addEventListener('abort', () => {
        controller.error(signal.reason)
        // It may have broken by itself.
        reader.cancel().catch(() => undefined)
      })
    },
    pull: async (controller) => {
      const { done, value } = await reader.read()
      if (signal.aborted) return
      if (done) controller.close()
      else controller.enqueue(value)
    },
  })
  return new Response(body, response)
}
