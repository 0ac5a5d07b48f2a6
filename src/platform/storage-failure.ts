/**
 * How an actor fails in its runtime and not in our code: its storage takes nothing, or it was restarted under a request.
 *
 * Of a write that failed workerd tells a caller SQLite's code, or no more than a reference; its own log has the cause. On one
 * machine that is a full disk as a rule: an actor whose write fails is broken and starts anew.
 */
import type { ApiErrorFields } from './api-error.ts'

const RESTARTED = 'an actor restarted: '
const RUNTIME_FAILURE = /^internal error; reference = |: SQLITE_(?:FULL|IOERR)/

export function isStorageFailure(error: unknown): boolean {
  return error instanceof Error && RUNTIME_FAILURE.test(error.message)
}

/** 503: what the client is told of it. */
export const STORAGE_UNAVAILABLE: ApiErrorFields = {
  message:
    'The storage of this service takes no writes at the moment. Send the request again after Retry-After. (For the operator: on one machine, see whether the disk is full.)',
  code: 'storage_unavailable',
}

/** The object was restarted, or is asked more than it can answer: the same question may be asked again. */
export function isActorRestart(error: unknown): boolean {
  const { durableObjectReset, retryable, overloaded, message } = Object(error) as Partial<Record<string, unknown>>
  if (typeof message === 'string' && message.startsWith(RESTARTED)) return true
  return durableObjectReset === true || retryable === true || overloaded === true
}

/** What an actor throws where one that it has asked failed. A caller sees only the message of it. */
export function ofAskedActor(error: unknown): unknown {
  if (!isActorRestart(error)) return error
  return new Error(`${RESTARTED}${error instanceof Error ? error.message : String(error)}`)
}

/** 503: what the client is told of it. */
export const ACTOR_UNAVAILABLE: ApiErrorFields = {
  message: 'A part of this service is restarting or overloaded. Send the request again after Retry-After.',
  code: 'actor_unavailable',
}
