/**
 * Identify: the tenant of the call, its program, and its request. Everything that can be refused without an actor is
 * refused here, cheapest first: the key, then ids in headers, then the body.
 */

import type { BudgetStated } from '../core/budget/budget.ts'
import type { LedgerLimits } from '../core/budget/budget-ledger.ts'
import { readBudget } from '../core/budget/budget-text.ts'
import { callWants } from '../core/budget/call-wants.ts'
import { pricesAt } from '../core/budget/price-history.ts'
import type { CallWants } from '../core/budget/reservation.ts'
import { KEY_CHARS_MAX } from '../core/call/idempotency-table.ts'
import { identify as identifyProgram } from '../core/call/identity.ts'
import { type TokenBounds, tokenBounds } from '../core/call/lease-terms.ts'
import { estimatePromptTokens, utf8Bytes } from '../core/call/prompt-estimate.ts'
import { withoutVolatileHead } from '../core/call/prompt-head.ts'
import type { ScannedMessage } from '../core/call/scanned-message.ts'
import type { ServiceReading } from '../core/call/service.ts'
import { type ConversationCall, conversationCall } from '../core/conversation/conversation-call.ts'
import { type ConversationTurn, conversationTurn } from '../core/conversation/conversation-turn.ts'
import { nearestFirst, type Place } from '../core/pool/regions.ts'
import { classSource, programClass } from '../core/program/program-class.ts'
import { toolHint } from '../core/tools/tool-hint.ts'
import { toolResults } from '../core/tools/tool-results.ts'
import { TOOL_TIMES_HEADER, toolTimes } from '../core/tools/tool-times.ts'
import { type ApiErrorFields, authenticationFailure } from '../platform/api-error.ts'
import { DISPATCHED_BODY_BYTES_MAX, type ProgramSource, type ToolResult, type ToolTime } from '../protocol/index.ts'
import type { Objective } from '../protocol/objective.ts'
import type { Region } from '../store/catalogue.ts'
import type { TenantIdentity } from '../store/keys.ts'
import { tooLarge } from './body.ts'
import type { TakenShare } from './budget-shares.ts'
import type { RelayDeps } from './deps.ts'
import type { Dialect, NativeBody, ParsedCall } from './dialects/dialect.ts'
import { type ForwardedBody, forwardedBody, splicedBody } from './dialects/openai-body.ts'
import { idempotencyKey, KEY_HEADER } from './idempotency-key.ts'
import { lowerOutputLimit } from './output-limit.ts'
import { HOME_FAULT, type ProgramHome, programHome } from './program-home.ts'
import { promptBytes } from './prompt-bytes.ts'
import { readCall } from './read-call.ts'
import { type RequestHeaders, requestHeaders } from './request-headers.ts'
import { allowedRegions, mayUse, modelNotFound, wantedRegions } from './restrictions.ts'
import { STRICT_FAULT, strictOf, strictRefusal } from './strict.ts'

export interface IdentifiedCall extends Omit<ParsedCall, 'body' | 'native'> {
  /** Ours, never the client's: a client's X-Call-Id is not read. */
  id: string
  tenant: string
  /** Id of the API key. */
  key: string
  tenant_weight: number
  /** What classes of its tenant's programs weigh, other than 1. */
  class_weights: Readonly<Record<string, number>>
  /** A line of a batch. */
  offline: boolean
  /** What a learned order makes small for its program. */
  objective: Objective
  /** Null: no limit. */
  calls_per_minute_max: number | null
  live_programs_max: number | null
  tenant_shards: number
  /** Null: the call is a program of its own and leaves no state behind. */
  program: string | null
  /** Its conversation, of a call that names no program. Null: it is not followed. */
  conversation: ConversationCall | null
  /** Trace id of its traceparent. */
  trace: string | null
  /** Why the call belongs to it. */
  source: ProgramSource
  /** Headers and fields that name another program. */
  overruled: readonly string[]
  thread: string | null
  main_thread: boolean
  parents: string[] | null
  /** Where it stands in its conversation, of a call whose session names the program. Null: it is not followed. */
  turn: ConversationTurn | null
  /** What tools returned since the answer before it. */
  tool_results: readonly ToolResult[]
  /** What the client measured of them. */
  tool_times: readonly ToolTime[]
  /** The client's hint of how long the tool after the call takes. Null: it gives none. */
  expect_tool_us: number | null
  app: string | null
  class: string
  reading: ServiceReading
  prompt_tokens_estimate: number
  /** The most that its engine can use. */
  bounds: TokenBounds
  /** What it may use of a budget. */
  wants: CallWants
  /** What its tenant and its key may spend. Null: neither has a limit. */
  limits: LedgerLimits | null
  /** Its share of those. Null: none is limited, or it has not been asked for. */
  share: TakenShare | null
  /** Of the program that it opens. Null: it states none. */
  budget: BudgetStated | null
  /** Retries under it are one call; null: the client sent none. */
  idempotency_key: string | null
  /** Headers of the answer that say how the client's body was changed. */
  answer_headers: Readonly<Record<string, string>>
  /** JSON for the engine. */
  forwarded: ForwardedBody
  /** In place of it, for an engine whose server speaks the client's API. Null: none may have it. */
  native: NativeBody | null
  /** The client's. */
  headers: RequestHeaders
  /** Regions that may serve the call, nearest first. */
  regions: readonly Region[]
  /** Regions in which an agent has ever served the model. */
  linked_regions: ReadonlySet<string>
  /** The regions that the call names, if any: a program that it opens is held to them. */
  wanted_regions: readonly string[] | null
  /** Where the actor of a program that the call opens is to live. Null: near its caller. */
  home: ProgramHome | null
  /** Whether the key, the call or its program leaves regions out. */
  held: boolean
}

export type Identified =
  | { status: 'identified'; call: IdentifiedCall }
  | { status: 'refused'; http_status: number; error: ApiErrorFields; headers?: HeadersInit }

export async function identify(
  request: Request,
  dialect: Dialect,
  deps: RelayDeps,
  kind: 'online' | 'offline',
): Promise<Identified> {
  const authentication = await deps.authenticate(request)
  if (authentication.status === 'refused') {
    return { status: 'refused', ...authenticationFailure(authentication.reason) }
  }
  const { identity: who } = authentication
  const read = await readCall(request, dialect, deps.store(who.tenant))
  if (read.status === 'refused') return read
  const { scanned } = read
  const headers = requestHeaders(request.headers)
  const head = headOf(headers)
  if (head === null) return refused(400, HEAD_FAULT)
  const strict = strictOf(headers)
  if (strict === null) return refused(400, STRICT_FAULT)
  const unused = strict || who.strict ? strictRefusal(read.call.warnings) : null
  if (unused !== null) return refused(400, unused)
  const idempotency_key = idempotencyKey(headers)
  if (idempotency_key === false) return refused(400, KEY_FAULT)
  const home = programHome(headers)
  if (home === false) return refused(400, HOME_FAULT)
  const header = headers.get
  const identity = identifyProgram({
    ...{ header, metadata: read.call.metadata, body: read.body, stored: read.call.stored ?? null },
  })
  if (!identity.ok) return refused(400, { message: identity.message, param: identity.param, code: 'invalid_id' })

  const hint = toolHint(read.call.metadata, header)
  if (!hint.ok) return refused(400, { message: hint.message, param: hint.param, code: 'invalid_value' })

  const budget = readBudget(header, read.call.metadata)
  if (!budget.ok) return refused(400, { message: budget.message, param: budget.param, code: 'invalid_value' })

  const { models, regions, linked } = await deps.catalogue()
  const { body: sent, ...call } = read.call
  const prompt = head === 'keep' ? sent : withoutVolatileHead(sent)
  const model = models.get(call.model)
  if (model === undefined || !mayUse(who.models, model.id)) return refused(404, modelNotFound(call.model))
  const wanted = wantedRegions(headers, read.call.metadata)
  if (wanted.status === 'refused') return refused(400, wanted.error)
  const allowed = allowedRegions(regions, who.regions, wanted.regions)
  if (allowed.status === 'refused') return refused(allowed.http_status, allowed.error)
  const near = nearestFirst(allowed.regions, placeOf(request))
  const measured = deps.pools.bytesPerToken(
    near.map((region) => region.id),
    model.id,
  )
  const bytes_per_token = measured ?? model.bytes_per_token
  const prompt_bytes = scanned?.prompt_bytes ?? promptBytes(prompt)
  const prompt_tokens_estimate = estimatePromptTokens(prompt_bytes, bytes_per_token)
  const textBytes = scanned === null ? undefined : (message: object) => (message as ScannedMessage).text_bytes
  const tool_results = toolResults(prompt, textBytes).map(({ name, bytes }) => ({
    name,
    tokens: estimatePromptTokens(bytes, bytes_per_token),
  }))
  const { body, headers: answer_headers } = call.lowers_output_limit
    ? lowerOutputLimit(prompt, prompt_tokens_estimate, model.context_tokens_max)
    : { body: prompt, headers: {} }
  const sent_call = { ...call, body }
  const forwarded = scanned === null ? forwardedBody(sent_call) : splicedBody(sent_call, scanned.raw)
  const native = call.native === undefined ? null : withOutputLimit(call.native, body)
  if (isLonger(forwarded, DISPATCHED_BODY_BYTES_MAX)) return tooLarge(DISPATCHED_BODY_BYTES_MAX)
  const bounds = tokenBounds(body, Math.max(forwarded.length, read.bytes), model.context_tokens_max)
  return {
    status: 'identified',
    call: {
      ...call,
      id: deps.newId(),
      tenant: who.tenant,
      key: who.key,
      tenant_weight: who.weight,
      class_weights: who.class_weights,
      offline: kind === 'offline',
      objective: who.objective ?? model.objective,
      calls_per_minute_max: who.calls_per_minute_max,
      live_programs_max: who.live_programs_max,
      tenant_shards: who.shards,
      limits: who.limits,
      share: null,
      ...(kind === 'offline' ? ALONE : await namedOrInferred(identity, who, dialect, body, wanted.regions, deps)),
      overruled: identity.overruled,
      thread: identity.thread,
      main_thread: identity.main_thread,
      parents: identity.parents,
      turn: identity.by_session && kind === 'online' ? await turnOf(who, dialect, body, deps) : null,
      tool_results,
      tool_times: toolTimes(header(TOOL_TIMES_HEADER)),
      expect_tool_us: hint.expect_tool_us,
      app: identity.app,
      class: programClass(classSource(body, identity.app)),
      reading: model.ordering_service,
      prompt_tokens_estimate,
      bounds,
      wants: callWants(
        body,
        bounds,
        {
          prompt_bytes,
          prompt_tokens_estimate,
          context_tokens_max: model.context_tokens_max,
        },
        pricesAt(model, deps.now()),
      ),
      budget: budget.budget,
      native,
      answer_headers,
      idempotency_key,
      forwarded,
      headers,
      regions: near,
      linked_regions: linked.get(model.id) ?? NOWHERE,
      wanted_regions: wanted.regions,
      home,
      held: who.regions !== null || wanted.regions !== null,
    },
  }
}

/** A limit that was lowered holds for the client's own body too. */
function withOutputLimit({ api, body }: NativeBody, { max_tokens }: ParsedCall['body']): NativeBody {
  return api === 'messages' && max_tokens !== body.max_tokens ? { api, body: { ...body, max_tokens } } : { api, body }
}

const NOWHERE: ReadonlySet<string> = new Set()

/** Of a batch's line, whatever its body names: a program of its own, without state. */
const ALONE = { program: null, source: 'none', trace: null, conversation: null } as const

/** Without inference a trace is the only name left. With it, the trace is one of several hints (infer-program.ts). */
async function namedOrInferred(
  { program, source, trace }: { program: string | null; source: ProgramSource; trace: string | null },
  who: TenantIdentity,
  { engine_path }: Dialect,
  body: ParsedCall['body'],
  wanted: readonly string[] | null,
  deps: RelayDeps,
): Promise<Pick<IdentifiedCall, 'program' | 'source' | 'trace' | 'conversation'>> {
  const follows = program === null && who.inference && engine_path === CHAT_PATH
  const restrictions = wanted === null && who.regions === null ? null : JSON.stringify([wanted, who.regions])
  const conversation = follows ? conversationCall(body, await deps.conversationKey(who.tenant), restrictions) : null
  if (program !== null || trace === null || conversation !== null) return { program, source, trace, conversation }
  return { program: trace, source: 'trace', trace, conversation }
}

async function turnOf(
  { tenant, inference }: TenantIdentity,
  { engine_path }: Dialect,
  body: ParsedCall['body'],
  deps: RelayDeps,
): Promise<ConversationTurn | null> {
  if (!inference || engine_path !== CHAT_PATH) return null
  return conversationTurn(body, await deps.conversationKey(tenant))
}

const CHAT_PATH = '/v1/chat/completions'

/** What happens to a volatile head (core/prompt-head.ts). A client that means it as part of its prompt can keep it. */
const HEAD_HEADER = 'X-Prompt-Head'
const HEAD_FAULT: ApiErrorFields = {
  message: `${HEAD_HEADER} is \`strip\` (the default) or \`keep\`.`,
  param: HEAD_HEADER,
  code: 'invalid_value',
}

const KEY_FAULT: ApiErrorFields = {
  message: `${KEY_HEADER} has 1 to ${KEY_CHARS_MAX} printable ASCII characters.`,
  param: KEY_HEADER,
  code: 'invalid_value',
}

function headOf(headers: RequestHeaders): 'strip' | 'keep' | null {
  const value = headers.get(HEAD_HEADER) ?? 'strip'
  return value === 'strip' || value === 'keep' ? value : null
}

/** Counts bytes of a text only if it may be too long: a UTF-16 unit has at most 3 bytes. */
function isLonger(text: ForwardedBody, bytes_max: number): boolean {
  if (typeof text !== 'string') return text.length > bytes_max
  return text.length * 3 > bytes_max && utf8Bytes(text) > bytes_max
}

function refused(http_status: number, error: ApiErrorFields): Identified {
  return { status: 'refused', http_status, error }
}

/** Where Cloudflare locates the client, as text in `request.cf`. */
function placeOf(request: Request): Place | null {
  const { latitude, longitude } = (request.cf ?? {}) as { latitude?: string; longitude?: string }
  if (latitude === undefined || longitude === undefined) return null
  const place = { latitude: Number(latitude), longitude: Number(longitude) }
  return Number.isFinite(place.latitude) && Number.isFinite(place.longitude) ? place : null
}
