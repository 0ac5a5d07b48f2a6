/**
 * Dispatch: hands the call to its engine's agent with a ticket. If that engine fails before its first data event, the call
 * goes to another engine, ENGINES_TRIED_MAX at most. The client does not notice. If it fails later, the call goes on
 * elsewhere from what has come, over LEASES_PER_CALL_MAX leases in all. Where no engine can, an answer in one piece, of which its
 * client has nothing yet, is computed anew.
 */

import { NOT_APPLIED_HEADER } from '../core/call/field-warnings.ts'
import { sortFields } from '../core/call/request-fields.ts'
import { openElsewhereUs } from '../core/pool/reported-charges.ts'
import { LEASES_PER_CALL_MAX } from '../core/program/program-state.ts'
import { type Attributes, SPAN_KIND } from '../core/wire/spans.ts'
import { RETRY_AFTER_S } from '../platform/api-error.ts'
import { sleep } from '../platform/deadline.ts'
import { NATIVE_PATHS, RESUME_FIELD, type Resume, type TicketClaims } from '../protocol/index.ts'
import { NATIVE_BODY_FIELDS } from '../protocol/request-fields.ts'
import type { Admission } from './admit.ts'
import { type AgentConnection, type AgentFailure, openAgentConnection } from './agent-connection.ts'
import type { GoOn, Served } from './answer.ts'
import { failureUnderShare } from './call-share.ts'
import { forgetCredits } from './credit-lease.ts'
import type { RelayDeps } from './deps.ts'
import type { NativeBody } from './dialects/dialect.ts'
import { type ForwardedBody, withField } from './dialects/openai-body.ts'
import type { IdentifiedCall } from './identify.ts'
import { type Leased, type Leasing, lease, travel } from './lease.ts'
import { leaseProof } from './lease-proof.ts'
import { missedModel } from './missed-model.ts'
import { noEngine } from './restrictions.ts'
import { expectedReason, releaseLease, type SettleNotes } from './settle.ts'
import { cacheSaltOf, ticketFor } from './ticket.ts'
import type { StageTimes } from './timing.ts'

/** Before anything of the answer has come. An answer in one piece is computed anew as long as fewer have had the call. */
export const ENGINES_TRIED_MAX = 3
/** `off`: an answer that breaks ends with an error. */
const RESUME_HEADER = 'x-resume'
/** After so long an engine that has failed is tried again, although it has not restarted. */
const SAME_ENGINE_MS = 2000
/** Of `resume_wait_ms_max`, until an answer that broke goes on, over all engines that break before they say more. */
const WAITS_PER_BREAK = 3
/** An agent's error: the engine is well, and cannot go on with the answer that another one began. */
const CANNOT_RESUME = 'cannot_resume'
/** W3C trace context: an instrumented agent's trace goes on through the engine. */
const PASSED_HEADERS = ['traceparent', 'tracestate'] as const

export interface Dispatch {
  call: IdentifiedCall
  admission: Admission
  notes: SettleNotes
  deps: RelayDeps
  times: StageTimes
  gone: AbortSignal
  /** An engine has read the call and not refused it. */
  accepted(): void
  /** Called for every lease as it is granted, so that headers name the current engine. */
  leasedTo(leased: Leased): void
}

interface Journey extends Dispatch {
  /** All that the call has had, in order. */
  leases: Leased[]
  /** Those of them that are told as lost. */
  lost: Set<string>
  /** Engines, each in its epoch, that have said that they cannot go on with this answer. Asked again they would say the same. */
  unable: Set<string>
  /** The last break of the answer that its client had more of than at the break before. Null: it has not broken. */
  broken: Break | null
}

interface Break {
  /** How much of the answer the client had. */
  had: number
  /** No engine is waited for past this. */
  waits_until_ms: number
}

/** Serves the call on `first`, or on another engine if `first` fails early. */
export function dispatch(first: Leased, journey: Dispatch): Promise<Served> {
  return serveOn(first, null, { ...journey, leases: [], lost: new Set(), unable: new Set(), broken: null })
}

/** `told`: what has come of the answer, for an engine that goes on with it. Null: it is computed from its beginning. */
async function serveOn(first: Leased, told: Resume | null, journey: Journey): Promise<Served> {
  const tried = journey.leases
  const { run } = journey.admission
  // The last lease that may be charged.
  let served = tried.at(-1)?.lease ?? null
  let leased = first
  for (;;) {
    // A stream's client has what has come: only an engine that can go on is chosen for it.
    const so_far = journey.call.streaming || canGoOn(leased, journey) ? told : null
    const is_anew = so_far === null && journey.broken !== null
    tried.push(leased)
    journey.leasedTo(leased)
    journey.notes.leaseOpened(leased)
    journey.call.share?.placed(leased.lease, run)
    const opened = await attempt(leased, so_far, journey)
    if (opened.status === 'data') {
      journey.accepted()
      journey.times.ttft_ms ??= journey.times.elapsed_ms
      journey.times.stream ??= journey.times.trace?.start('stream') ?? null
      return { ...opened, goOn: goOnFrom(leased, journey), anew: is_anew }
    }
    if (opened.status === 'cancelled') {
      loseLease(leased, 'client_left', journey)
      return opened
    }
    const failure = failureUnderShare(opened.failure, journey.call, journey.admission)
    if (!hasRefused(failure)) served = leased.lease
    journey.call.share?.placed(served, run)
    loseLease(leased, failure.error.code, journey)
    if (failure.error.code === CANNOT_RESUME) journey.unable.add(epochOf(leased))
    if (leased.by_credit === true && STALE.includes(failure.error.code ?? '')) {
      const asked = await askedAnew(journey)
      if (journey.gone.aborted) return { status: 'cancelled' }
      if (asked.status === 'none') return gaveUp(nowhere(failure, journey), asked.retry_after_s)
      leased = asked.leased
      continue
    }
    if (!failure.replaceable) return { ...opened, failure, retry_after_s: null }
    // An answer of which something has come is waited for rather than lost.
    const tries_max = journey.broken === null ? ENGINES_TRIED_MAX : LEASES_PER_CALL_MAX
    if (tried.length >= tries_max) return gaveUp(failure)
    const next = journey.broken === null ? await another(tried, journey) : await anotherInTime(journey)
    if (journey.gone.aborted) return { status: 'cancelled' }
    if (next.status === 'none') return gaveUp(failure, next.retry_after_s)
    leased = next.leased
  }
}

/** With these an engine's agent says what its pool knows by now, and what this isolate did not when it leased without asking. */
const STALE: readonly string[] = ['draining', 'engine_down', 'epoch_gone']

/** As a call that has had no lease. */
function askedAnew({ call, admission, deps, times }: Journey): Promise<Leasing> {
  return times.measure('lease', () => lease(call, admission.pin, [], deps))
}

function nowhere(failure: AgentFailure, { call, deps }: Journey): AgentFailure {
  missedModel(call, deps)
  const { message, code = null } = noEngine(call.model, call.regions, call.held)
  return { ...failure, error: { ...failure.error, message, code }, retry_after_s: null }
}

/** Told once for each lease, though a break and the search after it may both find that it is lost. */
function loseLease(leased: Leased, error_code: string | null | undefined, { call, deps, notes, lost }: Journey): void {
  if (lost.has(leased.lease)) return
  lost.add(leased.lease)
  if (error_code !== 'client_left') forgetCredits(leased, call, deps)
  notes.leaseLost(leased, error_code ?? 'engine_failed')
}

function epochOf({ engine, epoch }: Leased): string {
  return `${engine} ${epoch}`
}

/** The agent has said why it failed, so it charges nothing. Otherwise it may have served a part, of which its record tells. */
function hasRefused({ error }: AgentFailure): boolean {
  return !UNHEARD.includes(error.code ?? '')
}
const UNHEARD: readonly string[] = ['engine_unreachable', 'engine_ended_early', 'engine_malformed']

/**
 * How the call goes on when this lease breaks after something of its answer has come. Answers in several choices, in a server's own
 * API, and embeddings are computed anew or not at all.
 */
function goOnFrom(leased: Leased, journey: Journey): GoOn | null {
  const { call, gone, leases, deps } = journey
  if (call.headers.get(RESUME_HEADER) === 'off') return null
  const is_text = call.dialect.engine_path !== '/v1/embeddings' && nativeFor(leased, call) === null
  const is_resumable = is_text && call.bounds.sequences_max <= 1
  return async (told, failure) => {
    loseLease(leased, failure.error.code, journey)
    const so_far = is_resumable ? told : null
    const failed: Served = { status: 'failed', failure, retry_after_s: null }
    const is_over = so_far === null && !mayBeAnew(journey)
    if (is_over || leases.length >= LEASES_PER_CALL_MAX) return failed
    const had = so_far === null ? 0 : sizeOf(so_far)
    // An engine that broke before it said more has used up some of the time that there was.
    if (journey.broken === null || had > journey.broken.had) {
      const wait_ms = WAITS_PER_BREAK * deps.times.resume_wait_ms_max
      journey.broken = { had, waits_until_ms: deps.now() + wait_ms }
    }
    const next = await anotherInTime(journey)
    if (gone.aborted) return { status: 'cancelled' }
    return next.status === 'none' ? failed : serveOn(next.leased, so_far, journey)
  }
}

/** Its client has nothing of an answer in one piece before its end. */
function mayBeAnew({ call, leases }: Journey): boolean {
  return !call.streaming && leases.length < ENGINES_TRIED_MAX
}

function canGoOn(leased: Leased, { unable }: Journey): boolean {
  return leased.resumes === true && !unable.has(epochOf(leased))
}

function sizeOf({ tokens, output_tokens, content, reasoning, tool_calls }: Resume): number {
  const calls = tool_calls.reduce((sum, call) => sum + call.name.length + call.arguments.length, 0)
  return (output_tokens ?? tokens.length) + content.length + reasoning.length + calls
}

/**
 * An engine that goes on with answers, or any one where the answer may be computed anew. Where no other has room, one that has
 * failed may come back within seconds, or only the way to it was broken.
 */
async function anotherInTime(journey: Journey): Promise<Leasing> {
  const { call, admission, deps, gone, broken } = journey
  const may_be_anew = mayBeAnew(journey)
  const passed_over = [...journey.leases]
  const began_ms = deps.now()
  const until_ms = Math.min(began_ms + deps.times.resume_wait_ms_max, broken?.waits_until_ms ?? began_ms)
  const suits = (leased: Leased): boolean => may_be_anew || leased.resumes === true
  for (;;) {
    const next = await another(passed_over, journey)
    if (gone.aborted || (next.status === 'leased' && suits(next.leased))) return next
    if (next.status === 'leased') {
      releaseLease(next.leased, call.model, deps)
      passed_over.push(next.leased)
      continue
    }
    if (deps.now() >= until_ms) return next
    const again = await lease(call, admission.pin, [], deps)
    if (again.status === 'leased') {
      const { epoch } = again.leased
      const may_serve = deps.now() - began_ms >= SAME_ENGINE_MS || passed_over.every((one) => one.epoch !== epoch)
      if (may_serve && (may_be_anew || canGoOn(again.leased, journey))) return again
      releaseLease(again.leased, call.model, deps)
    }
    await sleep(deps.times.resume_retry_ms)
  }
}

/**
 * A lease on an engine that has not failed, of another agent if possible: an early failure is more often that of a host or
 * its network than of one engine among several.
 */
async function another(failed: readonly Leased[], { call, admission, deps, times }: Dispatch): Promise<Leasing> {
  const tried = failed.map(({ engine }) => engine)
  const doubtful = failed.flatMap(({ region, shard, agent }) => {
    const engines = deps.pools.recall(region.id, call.model, shard)?.engines ?? []
    return engines.filter((one) => one.agent === agent && !tried.includes(one.engine)).map(({ engine }) => engine)
  })
  return times.measure('lease', async () => {
    if (doubtful.length > 0) {
      const elsewhere = await lease(call, admission.pin, [...tried, ...doubtful], deps)
      if (elsewhere.status === 'leased') return elsewhere
    }
    return lease(call, admission.pin, tried, deps)
  })
}

/** Every engine that could be tried has failed or is full (429). It is not the client's fault, and a retry may succeed. */
function gaveUp(failure: AgentFailure, retry_after_s = RETRY_AFTER_S): Served {
  const status = failure.status === 429 ? 429 : 503
  return { status: 'failed', failure: { ...failure, status }, retry_after_s: failure.retry_after_s ?? retry_after_s }
}

async function attempt(leased: Leased, so_far: Resume | null, journey: Dispatch): Promise<AgentConnection> {
  const { call, deps, gone, times } = journey
  const arrived = times.start('dispatch')
  const headers = new Headers({
    authorization: `Bearer ${await ticketOf(leased, so_far, journey)}`,
    'content-type': 'application/json',
    accept: 'text/event-stream',
  })
  for (const name of PASSED_HEADERS) {
    const value = call.headers.get(name)
    if (value !== null) headers.set(name, value)
  }
  const span = times.trace?.start('dispatch', SPAN_KIND.client) ?? null
  if (span !== null) headers.set('traceparent', span.traceparent)
  let first_data = (): void => {}
  const onHeaders = (response: Headers): void => {
    journey.notes.hintsNotApplied(response.get(NOT_APPLIED_HEADER))
    arrived()
    first_data = times.start('first_data')
  }
  await travel(call, leased.region, deps)
  const native = so_far === null ? nativeFor(leased, call) : null
  const sorted = native === null ? null : sortFields(native.body, NATIVE_BODY_FIELDS[native.api])
  journey.notes.sent(sorted?.ignored ?? null)
  const url = `${baseOf(leased)}${native === null ? call.dialect.engine_path : NATIVE_PATHS[native.api]}`
  const body = sorted === null ? bodyOf(call, so_far) : JSON.stringify({ ...sorted.body, stream: true })
  const { accepted: onAccepted } = journey
  const opened = await openAgentConnection({
    ...{ url, headers, body, gone, fetch: deps.fetch, limits: deps.times, onHeaders, onAccepted },
  })
  arrived()
  first_data()
  span?.end(attributesOf(leased), opened.status === 'failed' ? (opened.failure.error.code ?? 'engine_failed') : null)
  return opened
}

/** The client's own body, where the engine's server speaks its API. */
function nativeFor({ native_apis = [] }: Leased, { native }: IdentifiedCall): NativeBody | null {
  return native !== null && native_apis.includes(native.api) ? native : null
}

/** The call as its engine gets it. Its own fields cannot have that name: what is unknown has been left out. */
function bodyOf({ forwarded }: IdentifiedCall, so_far: Resume | null): ForwardedBody {
  return so_far === null ? forwarded : withField(forwarded, RESUME_FIELD, so_far)
}

function baseOf({ url }: Leased): string {
  return url.replace(/\/$/, '')
}

function attributesOf({ lease, agent, engine, region, reason }: Leased): Attributes {
  return {
    'switchyard.lease': lease,
    'switchyard.agent': agent,
    'switchyard.engine': engine,
    'switchyard.region': region.id,
    'switchyard.lease.reason': reason,
  }
}

async function ticketOf(leased: Leased, so_far: Resume | null, { call, admission, deps }: Dispatch): Promise<string> {
  const { run, thread, settled_service_us, critical_path_us, program_wait_us, program_output_tokens } = admission
  const { position, last_tool } = admission
  const { lease, agent, engine, epoch, region } = leased
  const open_elsewhere_us = openElsewhereUs(leased.charges, admission.open_leases, engine, admission.reading)
  const { tenant, tenant_weight, class_weights, objective, model, expect_tool_us } = call
  const program_weight = admission.weight * (class_weights[admission.class] ?? 1)
  const granted = {
    ...{ tenant, program: call.program ?? call.id, run, call: call.id },
    ...{ lease, agent, engine, region: region.id, model },
  }
  const { speed_factor } = leased
  const reason = expectedReason(leased)
  const terms = { granted_at_ms: deps.now(), speed_factor, ...call.bounds, key: call.key, reason }
  const claims = {
    ...granted,
    lease_proof: await leaseProof(granted, terms, deps.ticket_secret),
    ...{ tenant_weight, objective, thread, epoch, class: admission.class, source: call.source },
    sequence: admission.sequence,
    ...{ settled_service_us, open_elsewhere_us, critical_path_us, program_wait_us, program_output_tokens },
    ...(call.offline ? { offline: true as const } : {}),
    ...(program_weight === 1 ? {} : { program_weight }),
    ...(position === null ? {} : { position }),
    ...(last_tool === null ? {} : { last_tool }),
    ...(expect_tool_us === null ? {} : { expect_tool_us }),
    ...capOf(admission, deps.now()),
    ...(so_far === null ? {} : { resumes: true as const }),
    cache_salt: await cacheSaltOf(tenant, deps.ticket_secret),
  }
  return ticketFor(claims, leased.ticket_kid, deps.ticket_secret, deps.now())
}

/** What the call may use of a budget, as its agent is told. */
function capOf({ reserved, budget }: Admission, now_ms: number): Pick<TicketClaims, 'budget'> {
  if (reserved === null) return {}
  const { calls: _, ...amounts } = reserved.amounts
  const { prices } = reserved
  const ends_at_ms = budget?.limits.ends_at_ms ?? null
  const cap = {
    ...amounts,
    ...(prices === null ? {} : { prices }),
    ...(ends_at_ms === null ? {} : { ends_in_ms: Math.max(0, Math.ceil(ends_at_ms - now_ms)) }),
  }
  return { budget: cap }
}
