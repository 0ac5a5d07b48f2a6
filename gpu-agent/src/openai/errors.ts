/** Errors of an engine front, in OpenAI's shape. A client's own mistake is never retryable; an engine's state is. */
import { RETRY_AFTER_S_MAX, type StreamError } from '../../../src/protocol/index.ts'

/** Credit comes by hand. */
const ACCOUNT_RETRY_S = 3600
/** Paths and messages that a client's body flows into are cut to this, so that an error stays small. */
const TEXT_CHARS_MAX = 512

export function badRequest(code: string, message: string, param: string | null): StreamError {
  return refusal(400, 'invalid_request_error', code, message, param, false)
}

export function unavailable(
  code: 'engine_full' | 'draining' | 'engine_down' | 'epoch_gone',
  message: string,
): StreamError {
  return refusal(503, 'server_error', code, message, null, true)
}

/** The engine's queue is at its bound; `retry_after_s` by the rate at which it drains. Another engine may have room. */
export function engineFull(message: string, retry_after_s: number): StreamError {
  const after_s = Math.min(Math.max(1, Math.ceil(retry_after_s)), RETRY_AFTER_S_MAX)
  return { ...refusal(429, 'rate_limit_error', 'engine_full', message, null, true), retry_after_s: after_s }
}

/** A provider's limit has no room for longer than the call may wait. Another engine may have. `limit`: as in "limit of 60 requests per minute". */
export function limitExhausted(limit: string, retry_after_s: number): StreamError {
  const after_s = Math.min(Math.max(1, Math.ceil(retry_after_s)), RETRY_AFTER_S_MAX)
  const message = `the provider's ${limit} is used up: it has room again in ${spanText(after_s)}`
  const error = refusal(429, 'rate_limit_error', 'provider_quota_exhausted', message, null, true)
  return { ...error, retry_after_s: after_s }
}

/** The account of the provider's key can pay for nothing. */
export function accountSpent(): StreamError {
  const message = "the provider refuses calls: the account of the operator's key has no credit or quota left"
  const error = refusal(429, 'rate_limit_error', 'provider_quota_exhausted', message, null, true)
  return { ...error, retry_after_s: ACCOUNT_RETRY_S }
}

/** What is left of its program's budget does not cover the prompt and a token of output. */
export function budgetExceeded(): StreamError {
  const message =
    "what is left of the program's budget does not cover this call: start another program, or send a shorter prompt"
  return refusal(402, 'insufficient_quota', 'program_budget_exceeded', message, null, false)
}

/** Null: the provider does not say. */
export function tooLargeForLimit(known: { limit: string; needed: number } | null): StreamError {
  const message =
    known === null
      ? "the call is larger than the provider's limit: send a shorter prompt, or ask for less output"
      : `the call needs ${known.needed}, and the provider's limit is ${known.limit}: send a shorter prompt, or ask for less output`
  return refusal(400, 'invalid_request_error', 'call_exceeds_limit', message, null, false)
}

function spanText(seconds: number): string {
  if (seconds < 120) return `${seconds} s`
  const minutes = Math.ceil(seconds / 60)
  return minutes < 120 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`
}

/** Another engine may be able to. */
export function cannotResume(reason: string): StreamError {
  const message = `this engine cannot go on with an answer that another one began: ${reason}`
  return refusal(502, 'server_error', 'cannot_resume', message, null, true)
}

/** The engine died or broke under a call that it had accepted. */
export function engineFailed(message: string): StreamError {
  return refusal(502, 'server_error', 'engine_failed', message, null, true)
}

export function deadlineExceeded(): StreamError {
  return refusal(504, 'server_error', 'deadline_exceeded', 'the call was open for longer than it may be', null, false)
}

/** The model has no token with which the output could go on as its schema asks: another engine has none either. */
export function incompleteOutput(): StreamError {
  const message = 'the model cannot write what the output format asks for'
  return refusal(500, 'server_error', 'output_incomplete', message, null, false)
}

function refusal(
  status: number,
  type: string,
  code: string,
  message: string,
  param: string | null,
  retryable: boolean,
): StreamError {
  return { error: { message: cut(message), type, param: param === null ? null : cut(param), code }, status, retryable }
}

function cut(text: string): string {
  return text.length <= TEXT_CHARS_MAX ? text : `${text.slice(0, TEXT_CHARS_MAX - 1)}…`
}
