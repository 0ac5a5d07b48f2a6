/**
 * Every error that a client sees has its API's shape, so that the SDKs raise their own exception classes from it. Without a
 * format it is OpenAI's, {"error":{"message","type","param","code"}}. One function builds them. Nothing else in the Worker
 * writes an error body.
 */
import type { ErrorBody } from '../protocol/index.ts'

/** Seconds after which a client may try again when nothing better is known. */
export const RETRY_AFTER_S = 1

/** What a caller states; `type` follows from the status where it is left out. */
export interface ApiErrorFields {
  message: string
  type?: string
  param?: string | null
  code?: string | null
}

/** How an API writes the errors that come before an answer, and which headers all of its answers have. */
export interface ErrorFormat {
  /** The JSON of the body. `headers` are those of the answer. */
  body(status: number, error: ErrorBody, headers: Headers): object
  /** Adds the API's headers. `call`: the id of the call, null where there is none. */
  addHeaders(headers: Headers, call: string | null): void
}

export const OPENAI_ERRORS: ErrorFormat = {
  body: (_status, error) => ({ error }),
  addHeaders: () => {},
}

function errorBody(status: number, fields: ApiErrorFields): ErrorBody {
  return {
    message: fields.message,
    type: fields.type ?? typeOfStatus(status),
    param: fields.param ?? null,
    code: fields.code ?? null,
  }
}

export function apiError(
  status: number,
  fields: ApiErrorFields,
  headers?: HeadersInit,
  format: ErrorFormat = OPENAI_ERRORS,
): Response {
  const all = new Headers(headers)
  format.addHeaders(all, all.get('x-call-id'))
  all.set('content-type', 'application/json')
  all.set('cache-control', 'no-store')
  return new Response(JSON.stringify(format.body(status, errorBody(status, fields), all)), { status, headers: all })
}

/** OpenAI's error types by HTTP status. */
function typeOfStatus(status: number): string {
  if (status === 401) return 'authentication_error'
  if (status === 403) return 'permission_error'
  if (status === 429) return 'rate_limit_error'
  return status < 500 ? 'invalid_request_error' : 'server_error'
}

/** Why a request without a usable API key is refused, and how: 401, or 403 where the key is good and its tenant is not. */
export function authenticationFailure(reason: 'missing' | 'several' | 'unknown' | 'disabled'): {
  http_status: number
  error: ApiErrorFields
  headers: Record<string, string>
} {
  if (reason === 'disabled') {
    const message = 'The tenant of this API key is disabled. Ask the operator of this service.'
    return { http_status: 403, error: { message, code: 'tenant_disabled' }, headers: {} }
  }
  if (reason === 'several') {
    const message = 'The request has different API keys in Authorization, x-api-key and api-key. Send one.'
    return { http_status: 400, error: { message, code: 'several_api_keys' }, headers: {} }
  }
  const headers = { 'www-authenticate': 'Bearer' }
  if (reason === 'unknown') {
    return { http_status: 401, error: { message: 'The API key is not valid.', code: 'invalid_api_key' }, headers }
  }
  const message = 'No API key was given: send it as a bearer token, or as x-api-key.'
  return { http_status: 401, error: { message, code: 'missing_api_key' }, headers }
}

export function unauthorised(
  reason: 'missing' | 'several' | 'unknown' | 'disabled',
  format: ErrorFormat = OPENAI_ERRORS,
): Response {
  const { http_status, error, headers } = authenticationFailure(reason)
  return apiError(http_status, error, headers, format)
}
