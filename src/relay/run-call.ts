/**
 * One call's journey: identify → infer → admit → lease → dispatch → stream → settle. Two RPCs at most and one fetch, no durable write. A
 * short prompt needs no pin, so its admit and lease run in parallel. A long prompt is leased where its program's KV is. Where the
 * isolate holds a credit for the pin's engine, the call is leased without an RPC.
 */

import { BUDGET_LEFT_HEADER, budgetLeftText, PERIODS_LEFT_HEADER, periodsLeftText } from '../core/budget/budget-text.ts'
import type { AnswerSoFar } from '../core/call/answer-so-far.ts'
import { type FieldWarnings, fieldWarnings, WARNINGS_HEADER, warningsHeader } from '../core/call/field-warnings.ts'
import { SHORT_PROMPT_TOKENS } from '../core/pool/pool-types.ts'
import { tooManyNewPrograms } from '../core/program/run-limits.ts'
import { type ApiErrorFields, apiError, RETRY_AFTER_S } from '../platform/api-error.ts'
import { type Admission, type Admitted, admit } from './admit.ts'
import type { Answer, AnswerContext, Ending, SettledAnswer } from './answer.ts'
import { type Sharing, share, withShare } from './call-share.ts'
import { emitCallTelemetry } from './call-telemetry.ts'
import { leaseByCredit, mayLeaseByCredit } from './credit-lease.ts'
import type { RelayDeps } from './deps.ts'
import type { AnswerFacts } from './dialects/dialect.ts'
import { DIALECTS, type DialectName } from './dialects/index.ts'
import { dispatch } from './dispatch.ts'
import { fullResponse } from './full-response.ts'
import { claimIdempotencyKey } from './idempotent-call.ts'
import { type IdentifiedCall, identify } from './identify.ts'
import { type Inferred, inferProgram, reportAnswer } from './infer-program.ts'
import { type Leased, type Leasing, lease } from './lease.ts'
import { missedModel } from './missed-model.ts'
import { noticeClass } from './notice-class.ts'
import { noEngine, programNotReached } from './restrictions.ts'
import { releaseLease, SettleNotes } from './settle.ts'
import { soundDataOf, withSoundUsage } from './sound-usage.ts'
import { answerStreaming } from './stream.ts'
import { StageTimes } from './timing.ts'
import { tellingBudget } from './usage-budget.ts'

const RELAY_FAILED: Ending = { outcome: 'failed', error_code: 'relay_failed' }

/** `offline`: a line of a batch. It belongs to no program, ranks below every other call, and has no rate limit. */
export async function runCall(
  request: Request,
  dialect: DialectName,
  deps: RelayDeps,
  kind: 'online' | 'offline' = 'online',
): Promise<Response> {
  const times = new StageTimes(deps.now, deps.tracing?.begin(request.headers, deps.now) ?? null)
  const identified = await times.measure('identify', () => identify(request, DIALECTS[dialect], deps, kind))
  if (identified.status === 'refused') {
    const { http_status, error, headers } = identified
    return apiError(http_status, error, headers, DIALECTS[dialect].errors)
  }
  const { call } = identified
  const claiming = await claimIdempotencyKey(call, deps)
  if (claiming.status === 'answer') return claiming.response
  const { claim } = claiming
  try {
    const { answer, call: placed } = await journey(request.signal, call, withCallId(deps, call.id), times)
    if (claim !== null) deps.waitUntil(answer.ended.then((ending) => claim.ended(ending)))
    emitCallTelemetry(placed, answer, deps, times)
    return answer.response
  } catch (error) {
    claim?.ended(RELAY_FAILED)
    throw error
  }
}

/** Every report about this call names it. */
function withCallId(deps: RelayDeps, call: string): RelayDeps {
  return { ...deps, report: (event, error) => deps.report(event, error, { call }) }
}

async function journey(
  signal: AbortSignal,
  asked: IdentifiedCall,
  deps: RelayDeps,
  times: StageTimes,
): Promise<{ call: IdentifiedCall; answer: SettledAnswer }> {
  if (!deps.files.enterCall(asked.tenant)) return { call: asked, answer: tooManyOpen(asked, times) }
  try {
    const made = await permitted(signal, asked, deps, times)
    void made.answer.ended.finally(() => deps.files.leaveCall(asked.tenant))
    return made
  } catch (error) {
    deps.files.leaveCall(asked.tenant)
    throw error
  }
}

function tooManyOpen(asked: IdentifiedCall, times: StageTimes): SettledAnswer {
  const message =
    'This tenant, or this server, has as many open calls as it may. Send the call again when one has ended.'
  return refuse(asked, null, times, 429, { message, code: 'too_many_open_calls' }, RETRY_AFTER_S)
}

async function permitted(
  signal: AbortSignal,
  asked: IdentifiedCall,
  deps: RelayDeps,
  times: StageTimes,
): Promise<{ call: IdentifiedCall; answer: SettledAnswer }> {
  const permit = asked.offline ? null : await deps.permits.take(asked, deps)
  if (permit?.status === 'refused') return { call: asked, answer: rateLimited(asked, times, permit.retry_after_s) }
  const sharing = await share(asked, deps)
  if (sharing.status === 'refused') return { call: asked, answer: refuseShare(asked, sharing, times) }
  try {
    const made = await inProgram(signal, sharing.call, deps, times)
    void made.answer.ended.finally(() => sharing.call.share?.ended())
    return made
  } catch (error) {
    sharing.call.share?.ended()
    throw error
  }
}

function refuseShare(
  call: IdentifiedCall,
  { http_status, error, retry_after_s }: Sharing & { status: 'refused' },
  times: StageTimes,
): SettledAnswer {
  return refuse(call, null, times, http_status, error, retry_after_s)
}

async function inProgram(
  signal: AbortSignal,
  asked: IdentifiedCall,
  deps: RelayDeps,
  times: StageTimes,
): Promise<{ call: IdentifiedCall; answer: SettledAnswer }> {
  const inferred = await inferProgram(asked, deps, times)
  if (!hasRoom(inferred.call, deps)) return { call: inferred.call, answer: noRoom(inferred.call, times) }
  const answer = await placeAndServe(signal, inferred, deps, times)
  reportAnswer(inferred, answer.ended, deps)
  return { call: inferred.call, answer }
}

/** A call without a program needs none. */
function hasRoom({ tenant, program }: IdentifiedCall, deps: RelayDeps): boolean {
  return program === null || deps.files.useProgram(tenant, program, deps.now())
}

function noRoom(call: IdentifiedCall, times: StageTimes): SettledAnswer {
  const { retry_after_s, ...error } = tooManyNewPrograms()
  return refuse(call, null, times, 429, error, retry_after_s)
}

function rateLimited(asked: IdentifiedCall, times: StageTimes, retry_after_s: number): SettledAnswer {
  const message = `This tenant may make ${asked.calls_per_minute_max} calls a minute. Send the call again after Retry-After.`
  return refuse(asked, null, times, 429, { message, code: 'rate_limit_exceeded' }, retry_after_s)
}

async function placeAndServe(
  signal: AbortSignal,
  { call: asked, answer: so_far }: Inferred,
  deps: RelayDeps,
  times: StageTimes,
): Promise<SettledAnswer> {
  const lease_id = deps.newId()
  const { admitted, leasing } = await place(asked, lease_id, deps, times)
  if (admitted.status === 'refused') {
    if (leasing?.status === 'leased') releaseLease(leasing.leased, asked.model, deps)
    return refuse(asked, null, times, admitted.http_status, admitted.error, admitted.retry_after_s)
  }
  const admission = withShare(admitted.admission, asked)
  const call = { ...heldTo(asked, admission.regions), class: admission.class }
  const notes = new SettleNotes(call, admission, deps)
  if (call.regions.length === 0 && asked.regions.length > 0) {
    if (leasing?.status === 'leased') releaseLease(leasing.leased, call.model, deps)
    notes.callEnded('failed', 'region_not_allowed')
    return refuse(call, admission, times, 403, programNotReached(call.wanted_regions, admission.regions ?? []), null)
  }
  const kept = leasing === null ? null : withinRegions(leasing, call, deps)
  const leasedNow = kept ?? (await times.measure('lease', () => lease(call, admission.pin, [], deps, lease_id)))
  if (leasedNow.status === 'none') {
    notes.callEnded('failed', 'no_engine')
    missedModel(call, deps)
    return refuse(call, admission, times, 503, noEngine(call.model, call.regions, call.held), leasedNow.retry_after_s)
  }
  if (kept !== null && asked.class !== call.class) noticeClass(call, leasedNow.leased, deps)
  return serve(signal, call, admission, leasedNow.leased, notes, so_far, deps, times)
}

/** Narrows the call's regions to those that its program may use. */
function heldTo(call: IdentifiedCall, regions: readonly string[] | null): IdentifiedCall {
  if (regions === null) return call
  return { ...call, regions: call.regions.filter(({ id }) => regions.includes(id)), held: true }
}

/** Gives back a lease that was taken before the program's regions were known, if it is outside of them. */
function withinRegions(leasing: Leasing, call: IdentifiedCall, deps: RelayDeps): Leasing | null {
  if (leasing.status === 'none' || call.regions.some(({ id }) => id === leasing.leased.region.id)) return leasing
  releaseLease(leasing.leased, call.model, deps)
  return null
}

/** Admit and lease. A long prompt is leased where its program's KV is, and a lease by credit is for the pin, so they wait for it. */
async function place(
  call: IdentifiedCall,
  lease_id: string,
  deps: RelayDeps,
  times: StageTimes,
): Promise<{ admitted: Admitted; leasing: Leasing | null }> {
  const admitting = times.measure('admit', () => admit(call, lease_id, deps))
  if (call.prompt_tokens_estimate > SHORT_PROMPT_TOKENS || mayLeaseByCredit(call, deps)) {
    const admitted = await admitting
    const leased = admitted.status === 'admitted' ? leaseByCredit(call, admitted.admission, lease_id, deps) : null
    return { admitted, leasing: leased === null ? null : { status: 'leased', leased } }
  }
  const leasing = times.measure('lease', () => lease(call, null, [], deps, lease_id))
  const [admitted, leased] = await Promise.all([admitting, leasing])
  return { admitted, leasing: leased }
}

async function serve(
  signal: AbortSignal,
  call: IdentifiedCall,
  admission: Admission,
  first: Leased,
  notes: SettleNotes,
  so_far: AnswerSoFar | null,
  deps: RelayDeps,
  times: StageTimes,
): Promise<SettledAnswer> {
  const left = new AbortController()
  if (signal.aborted) left.abort(signal.reason)
  const leave = (): void => left.abort(signal.reason)
  signal.addEventListener('abort', leave, { once: true })
  let leased = first
  const leasedTo = (next: Leased): void => {
    leased = next
  }
  const accepted = Promise.withResolvers<void>()
  const checked = soundDataOf(call.bounds, () => deps.report('usage_nonsense', `of the agent ${leased.agent}`))
  const sound = tellingBudget(checked, admission)
  const format = withSoundUsage(call.answer, sound)
  const context: AnswerContext = {
    times: deps.times,
    errors: call.errors ?? call.dialect.errors,
    store: deps.store(call.tenant),
    gone: left.signal,
    accepted: accepted.promise,
    clientLeft: () => left.abort(new Error('the client has left')),
    headers: () => headersOf(call, admission, leased, times, notes.warnings),
    answer: so_far,
    startAnew: null,
    sound,
  }
  const taken = { gone: left.signal, accepted: accepted.resolve, leasedTo }
  const serving = dispatch(first, { call, admission, notes, deps, times, ...taken })
  const { id, model, prompt_tokens_estimate } = call
  const facts: AnswerFacts = {
    ...{ call: id, model, program: call.program, thread: admission.thread },
    ...{ now_ms: deps.now(), now: deps.now, prompt_tokens_estimate },
  }
  let answer: Answer
  try {
    answer = call.streaming
      ? await answerStreaming(serving, format.stream(facts), context)
      : await fullResponse(serving, () => format.whole(facts), context)
  } catch (error) {
    notes.callEnded(RELAY_FAILED.outcome, RELAY_FAILED.error_code)
    throw error
  }
  const ended = answer.ended.catch((error: unknown): Ending => {
    deps.report('relay_failed', error)
    return RELAY_FAILED
  })
  const settled = ended.then(({ outcome, error_code }) => {
    notes.callEnded(outcome, error_code)
    return notes.told
  })
  deps.waitUntil(settled)
  void ended.then(() => signal.removeEventListener('abort', leave))
  return { response: answer.response, ended, settled }
}

function refuse(
  call: IdentifiedCall,
  admission: Admission | null,
  times: StageTimes,
  status: number,
  error: ApiErrorFields,
  retry_after_s: number | null,
): SettledAnswer {
  const headers = headersOf(call, admission, null, times, fieldWarnings(call.warnings, null))
  if (retry_after_s !== null) headers.set('retry-after', String(retry_after_s))
  const ending: Ending = { outcome: 'failed', error_code: error.code ?? null }
  return {
    response: apiError(status, error, headers, call.dialect.errors),
    ended: Promise.resolve(ending),
    settled: Promise.resolve(),
  }
}

function headersOf(
  call: IdentifiedCall,
  admission: Admission | null,
  leased: Leased | null,
  times: StageTimes,
  warnings: FieldWarnings | null,
): Headers {
  const headers = new Headers({ 'x-call-id': call.id, 'server-timing': times.header(), ...call.answer_headers })
  call.dialect.errors.addHeaders(headers, call.id)
  if (call.program !== null) {
    headers.set('x-program-id', call.program)
    if (admission !== null) headers.set('x-thread-id', admission.thread)
  }
  const left = admission?.budget == null ? null : budgetLeftText(admission.budget)
  if (left !== null) headers.set(BUDGET_LEFT_HEADER, left)
  const periods_left = call.share === null ? null : periodsLeftText(call.share.standing)
  if (periods_left !== null) headers.set(PERIODS_LEFT_HEADER, periods_left)
  if (warnings !== null) headers.set(WARNINGS_HEADER, warningsHeader(warnings))
  if (leased !== null) {
    headers.set('x-engine-id', leased.engine)
    headers.set('x-region', leased.region.id)
  }
  return headers
}
