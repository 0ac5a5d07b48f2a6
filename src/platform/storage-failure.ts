/**
 * Whether an actor failed in its runtime and not in our code. workerd tells a caller no more of it than a reference; its own
 * log has the cause. On one machine that is a full disk as a rule: an actor whose write fails is broken and starts anew.
 */
import type { ApiErrorFields } from './api-error.ts'

const RUNTIME_FAILURE = /^internal error; reference = /

export function isStorageFailure(error: unknown): boolean {
  return error instanceof Error && RUNTIME_FAILURE.test(error.message)
}

/** 503: what the client is told of it. */
export const STORAGE_UNAVAILABLE: ApiErrorFields = {
  message:
    'The storage of this service takes no writes at the moment. Send the request again after Retry-After. (For the operator: on one machine, see whether the disk is full.)',
  code: 'storage_unavailable',
}
