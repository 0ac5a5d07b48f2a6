/** Errors of an engine front, in OpenAI's shape. A client's own mistake is never retryable; an engine's state is. */
import type { StreamError } from '../../../../src/protocol/index.ts'

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

/** The engine died or broke under a call that it had accepted. */
export function engineFailed(message: string): StreamError {
  return refusal(502, 'server_error', 'engine_failed', message, null, true)
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
