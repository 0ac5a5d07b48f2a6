/**
 * What the journey of one call needs from outside: actors, catalogue, the network, time and randomness. They are passed in,
 * so tests script an engine or break an actor without a network. `relayDeps` builds them for a Worker.
 */
import type { ConversationRpc, IdempotencyRpc, PoolRpc, ProgramRpc, TenantRpc } from '../actors/contracts.ts'
import {
  conversationActor,
  hostsActor,
  idempotencyActor,
  poolActor,
  programActor,
  responsesActor,
  tenantActor,
} from '../actors/stubs.ts'
import { SILENCE_MS_MAX } from '../core/call/idempotency-table.ts'
import type { HashKey } from '../core/wire/keyed-hash.ts'
import type { Env } from '../env.ts'
import { logFailure, setLogLevel } from '../platform/log.ts'
import { networkFetch } from '../platform/network.ts'
import { type Catalogue, catalogue, type Region } from '../store/catalogue.ts'
import { fromStore } from '../store/database.ts'
import { type Authentication, authenticate } from '../store/keys.ts'

import { type HeldTo, residencyOf } from '../store/residency.ts'
import { AGENT_CONNECTION_LIMITS, type AgentConnectionLimits } from './agent-connection.ts'
import { ANSWER_TIMES, type AnswerTimes } from './answer.ts'
import { BudgetShares } from './budget-shares.ts'
import { type Tracing, tracingOf } from './call-trace.ts'

import { CreditBook } from './credit-book.ts'
import { EndedCalls } from './ended-calls.ts'
import { FileBudget } from './file-budget.ts'
import { HoldMemory } from './hold-memory.ts'
import { Notices } from './notices.ts'
import { PoolMemory } from './pool-memory.ts'
import type { ProgramHome } from './program-home.ts'
import { RatePermits } from './rate-permits.ts'
import type { ResponseStore } from './response-store.ts'
import { conversationKeyOf } from './ticket.ts'

/** Wait for the ProgramActor's answer. Past it a call goes on without a place in its program. */
const ADMIT_TIMEOUT_MS = 250
/** Wait for the TenantActor's answer, for such a call. */
const MEDIAN_TIMEOUT_MS = 100
/** Wait for D1's answer to which regions such a call's program is held. */
const RESIDENCY_TIMEOUT_MS = 1000
/** Wait for a PoolActor's answer. Past it the isolate's last snapshot of the pool decides. */
const POOL_TIMEOUT_MS = 1000
/** Wait for the ConversationActor's answer. Past it a call without a name proceeds alone. */
const CONVERSATION_TIMEOUT_MS = 200
/** Wait for the IdempotencyActor's answer. Past it the call is refused. */
const KEY_TIMEOUT_MS = 1000
/** How often it hears that a call is open: a third of the silence after which it takes the call for lost. */
const KEY_HEARD_MS = SILENCE_MS_MAX / 3

/** Wait for the ledger of a tenant's budget. Past it a call under it is refused. */
const BUDGET_TIMEOUT_MS = 1000
/** From the end of a call to the message that tells the ledger. */
const BUDGET_TOLD_MS = 200
/** A key without calls for so long gives its chunk back. */
const BUDGET_IDLE_MS = 5000

/** From a lease that made no request to the message that tells the pool of it. As often as agents report. */
const CREDITS_TOLD_MS = 250

/** Wait for a ResponsesActor's answer. Past it a call that continues a stored response is refused. */
const STORE_TIMEOUT_MS = 1000
const RESUME_WAIT_MS_MAX = 15_000
const RESUME_RETRY_MS = 500

export interface RelayTimes extends AnswerTimes, AgentConnectionLimits {
  admit_timeout_ms: number
  median_timeout_ms: number
  residency_timeout_ms: number
  pool_timeout_ms: number
  conversation_timeout_ms: number
  key_timeout_ms: number
  key_heard_ms: number
  store_timeout_ms: number
  /** How long a call whose answer has begun waits for an engine to go on, and how often it asks. */
  resume_wait_ms_max: number
  resume_retry_ms: number
  credits_told_ms: number
  budget_timeout_ms: number
  budget_told_ms: number
  budget_idle_ms: number
}

export const RELAY_TIMES: RelayTimes = {
  ...ANSWER_TIMES,
  ...AGENT_CONNECTION_LIMITS,
  admit_timeout_ms: ADMIT_TIMEOUT_MS,
  median_timeout_ms: MEDIAN_TIMEOUT_MS,
  residency_timeout_ms: RESIDENCY_TIMEOUT_MS,
  pool_timeout_ms: POOL_TIMEOUT_MS,
  conversation_timeout_ms: CONVERSATION_TIMEOUT_MS,
  key_timeout_ms: KEY_TIMEOUT_MS,
  key_heard_ms: KEY_HEARD_MS,
  store_timeout_ms: STORE_TIMEOUT_MS,
  resume_wait_ms_max: RESUME_WAIT_MS_MAX,
  resume_retry_ms: RESUME_RETRY_MS,
  credits_told_ms: CREDITS_TOLD_MS,
  budget_timeout_ms: BUDGET_TIMEOUT_MS,
  budget_told_ms: BUDGET_TOLD_MS,
  budget_idle_ms: BUDGET_IDLE_MS,
}

export interface RelayDeps {
  authenticate(request: Request): Promise<Authentication>
  catalogue(): Promise<Catalogue>
  /** Each gives a new stub: a stub that threw an exception stays broken. */
  program(tenant: string, program: string, home?: ProgramHome | null): ProgramRpc
  /** Left out, the shard is the first. */
  pool(region: Region, model: string, shard?: number): PoolRpc
  tenant(tenant: string): TenantRpc
  idempotency(tenant: string, key: string, tenant_shards: number): IdempotencyRpc
  /** A tenant's stored responses. */
  store(tenant: string): ResponseStore
  conversation(tenant: string, shard: number): ConversationRpc
  /** Keys the hashes of a tenant's conversations. */
  conversationKey(tenant: string): Promise<HashKey>
  pools: PoolMemory
  creditBook: CreditBook
  permits: RatePermits
  shares: BudgetShares
  files: FileBudget
  holds: HoldMemory
  ended: EndedCalls
  classNotices: Notices
  /** Lent hosts whose own model a call misses return. */
  returnHosts(call: { model: string; regions: readonly string[] }): Promise<void>
  missedModels: Notices
  /** Regions to which a running program is held, from D1; null: any. Throws StoreUnavailable. */
  residency(tenant: string, program: string): Promise<HeldTo>
  fetch: typeof fetch
  /** Wall clock, milliseconds. */
  now(): number
  /** Unguessable and never the same twice. */
  newId(): string
  /** Keeps the invocation alive for `work`, which reports its own failures. */
  waitUntil(work: Promise<unknown>): void
  report(event: string, error: unknown, fields?: Readonly<Record<string, string>>): void
  /** Null: no call is traced. */
  tracing: Tracing | null
  ticket_secret: string
  /** Delay towards any region but the nearest, milliseconds. */
  region_rtt_ms: number
  times: RelayTimes
}

/** The isolate's own, so what one request learns of a pool serves the next. */
const pools = new PoolMemory()
const creditBook = new CreditBook()
const permits = new RatePermits()
const shares = new BudgetShares()
let files: FileBudget | null = null
const holds = new HoldMemory()
const ended = new EndedCalls()
const classNotices = new Notices()
const missedModels = new Notices()

/** One for the calls of this isolate and for its API. */
export function fileBudget({ OPEN_FILES }: Env): FileBudget {
  files ??= new FileBudget(OPEN_FILES === undefined ? null : Number(OPEN_FILES))
  return files
}

export function relayDeps(env: Env, context: Pick<ExecutionContext, 'waitUntil'>): RelayDeps {
  setLogLevel(env.LOG_LEVEL)
  const background = (work: Promise<unknown>) => context.waitUntil(work)
  return {
    authenticate: (request) => authenticate(request, env, Date.now(), background),
    catalogue: () => catalogue(env, Date.now(), background),
    program: (tenant, program, home) => programActor(env, tenant, program, home ?? null),
    pool: (region, model, shard) => poolActor(env, region, model, shard),
    tenant: (tenant) => tenantActor(env, tenant),
    idempotency: (tenant, key, tenant_shards) => idempotencyActor(env, tenant, key, tenant_shards),
    store: (tenant) => ({
      responses: (shard) => responsesActor(env, tenant, shard),
      timeout_ms: RELAY_TIMES.store_timeout_ms,
      report: logFailure,
    }),
    conversation: (tenant, shard) => conversationActor(env, tenant, shard),
    conversationKey: (tenant) => conversationKeyOf(tenant, env.TICKET_SECRET),
    pools,
    creditBook,
    permits,
    shares,
    files: fileBudget(env),
    holds,
    ended,
    classNotices,
    returnHosts: (call) => hostsActor(env).returnFor(call),
    missedModels,
    residency: (tenant, program) => fromStore(() => residencyOf(env.DB, tenant, program)),
    fetch: networkFetch(env),
    now: () => Date.now(),
    newId: () => crypto.randomUUID(),
    waitUntil: background,
    report: logFailure,
    tracing: tracingOf(env),
    ticket_secret: env.TICKET_SECRET,
    region_rtt_ms: Math.max(0, Number(env.SIMULATED_REGION_RTT_MS) || 0),
    times: RELAY_TIMES,
  }
}
