/**
 * `Idempotency-Key`: a client's retries are one call. Only calls with the header ask the IdempotencyActor, once, before the
 * call starts. If it does not answer, the call is refused and not served: its client has asked that it not run twice, and
 * may safely try again.
 *
 * A key stands for the body that an engine gets, and for whether a stream is wanted. Identity headers do not count: a retry
 * of an instrumented client has its own trace.
 */
import type { IdempotencyRpc, KeyClaim } from '../actors/contracts.ts'
import { KEPT_MS, type KeyVerdict } from '../core/call/idempotency-table.ts'
import { apiError, type ErrorFormat } from '../platform/api-error.ts'
import { within } from '../platform/deadline.ts'
import type { Ending } from './answer.ts'
import type { RelayDeps } from './deps.ts'
import { KEY_HEADER } from './idempotency-key.ts'
import type { IdentifiedCall } from './identify.ts'
import { askTwice } from './rpc.ts'

/** While the first call runs. If its client leaves, workerd notices within a second, which frees the key. */
const RETRY_OPEN_S = 1
const RETRY_FULL_S = 60
/** OpenAI's SDKs obey it. Without it they would retry any 409. */
const NO_RETRY = { 'x-should-retry': 'false' }

export type Claiming =
  /** `claim` null: the client sent no key. */
  { status: 'serve'; claim: IdempotentCall | null } | { status: 'answer'; response: Response }

export async function claimIdempotencyKey(call: IdentifiedCall, deps: RelayDeps): Promise<Claiming> {
  const { idempotency_key: key } = call
  if (key === null) return { status: 'serve', claim: null }
  const claim: KeyClaim = { key, fingerprint: await fingerprintOf(call), call: call.id }
  const asking = askTwice(() => keysOf(call, claim, deps).claim(claim))
  const waited = await within(asking, deps.times.key_timeout_ms)
  if (waited.status === 'in_time' && waited.value.status === 'answered') {
    const verdict = waited.value.value
    if (verdict.status === 'claimed') return { status: 'serve', claim: new IdempotentCall(claim, call, deps) }
    return { status: 'answer', response: answerOf(verdict, key, call.dialect.errors) }
  }
  if (waited.status === 'in_time' && waited.value.status === 'failed') deps.report('key_failed', waited.value.error)
  // The claim may have succeeded all the same. This call will not run.
  deps.waitUntil(asking.then(() => tell(deps, call, claim, { status: 'failed' })))
  return { status: 'answer', response: unavailable(call.dialect.errors) }
}

type OfTenant = Pick<IdentifiedCall, 'tenant' | 'tenant_shards'>

/** All messages about a call go to the same object, even if its tenant gets more shards in the meantime. */
function keysOf({ tenant, tenant_shards }: OfTenant, { key }: KeyClaim, deps: RelayDeps): IdempotencyRpc {
  return deps.idempotency(tenant, key, tenant_shards)
}

/** A key whose call runs. */
export class IdempotentCall {
  readonly #claim: KeyClaim
  readonly #of: OfTenant
  readonly #deps: RelayDeps
  readonly #heartbeat: ReturnType<typeof setInterval>

  constructor(claim: KeyClaim, of: OfTenant, deps: RelayDeps) {
    this.#claim = claim
    this.#of = of
    this.#deps = deps
    this.#heartbeat = setInterval(() => {
      const told = askTwice(() => keysOf(of, claim, deps).heard(claim))
      deps.waitUntil(reported(told, deps))
    }, deps.times.key_heard_ms)
  }

  ended({ outcome, json }: Ending): void {
    clearInterval(this.#heartbeat)
    const end =
      outcome === 'completed' ? { status: 'answered' as const, answer: json ?? null } : { status: 'failed' as const }
    this.#deps.waitUntil(tell(this.#deps, this.#of, this.#claim, end))
  }
}

function tell(
  deps: RelayDeps,
  of: OfTenant,
  claim: KeyClaim,
  end: { status: 'answered'; answer: string | null } | { status: 'failed' },
): Promise<void> {
  return reported(
    askTwice(() => keysOf(of, claim, deps).ended({ claim, end })),
    deps,
  )
}

async function reported(told: ReturnType<typeof askTwice<void>>, deps: RelayDeps): Promise<void> {
  const reply = await told
  if (reply.status === 'failed') deps.report('key_note_failed', reply.error)
}

async function fingerprintOf(call: IdentifiedCall): Promise<string> {
  const { forwarded } = call
  const json = typeof forwarded === 'string' ? forwarded : new TextDecoder().decode(forwarded)
  const text = `${call.dialect.name}\n${call.streaming}\n${json}`
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text))
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, '0')).join('')
}

function answerOf(verdict: Exclude<KeyVerdict, { status: 'claimed' }>, key: string, format: ErrorFormat): Response {
  const param = KEY_HEADER
  switch (verdict.status) {
    case 'answered':
      return verdict.answer === null ? notKept(verdict.call, format) : replay(verdict.call, verdict.answer, format)
    case 'open': {
      const message = `The call of this ${KEY_HEADER} is still running. Its answer goes to the client that sent it first.`
      const headers = { 'retry-after': String(RETRY_OPEN_S), 'x-call-id': verdict.call }
      return apiError(409, { message, param, code: 'idempotency_in_progress' }, headers, format)
    }
    case 'reused': {
      const message = `This ${KEY_HEADER} was used with another body (call ${verdict.call}). Use one key per call.`
      return apiError(422, { message, param, code: 'idempotency_key_reused' }, { 'x-call-id': verdict.call }, format)
    }
    case 'full': {
      const message = `Too many keys such as '${key.slice(0, 16)}' were used within ${KEPT_MS / 60_000} minutes.`
      const headers = { 'retry-after': String(RETRY_FULL_S) }
      return apiError(429, { message, param, code: 'idempotency_keys_exceeded' }, headers, format)
    }
    case 'unavailable':
      return unavailable(format)
  }
}

function unavailable(format: ErrorFormat): Response {
  const message = `This ${KEY_HEADER} could not be checked, so the call was not started. Send it again.`
  return apiError(503, { message, code: 'idempotency_unavailable' }, { 'retry-after': '1' }, format)
}

function replay(call: string, answer: string, format: ErrorFormat): Response {
  const fields = { 'content-type': 'application/json', 'cache-control': 'no-store', 'x-call-id': call }
  const headers = new Headers({ ...fields, 'idempotent-replayed': 'true' })
  format.addHeaders(headers, call)
  return new Response(answer, { headers })
}

function notKept(call: string, format: ErrorFormat): Response {
  const message = `The call of this ${KEY_HEADER} was answered in full, but its answer was a stream or too long to be kept.`
  const headers = { ...NO_RETRY, 'x-call-id': call }
  return apiError(409, { message, param: KEY_HEADER, code: 'idempotency_answer_not_kept' }, headers, format)
}
