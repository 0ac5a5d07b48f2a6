/**
 * Whether an actor failed in its runtime and not in our code. workerd tells a caller no more of it than a reference; its own
 * log has the cause. On one machine that is a full disk as a rule: an actor whose write fails is broken and starts anew.
 */
const RUNTIME_FAILURE = /^internal error; reference = /

export function isStorageFailure(error: unknown): boolean {
  return error instanceof Error && RUNTIME_FAILURE.test(error.message)
}
