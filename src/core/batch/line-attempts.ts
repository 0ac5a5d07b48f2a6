/**
 * Whether a line that was answered with an error is tried again, and when. Nobody waits for a single line, so a lack of
 * engines or of room is waited out until the batch expires. A failure that may be the line's own fault is tried
 * LINE_ATTEMPTS_MAX times. Anything else is the line's answer.
 */
import { type BackoffBounds, backoffMs } from '../backoff.ts'

/** With its waits, about three minutes: longer than a host takes to come back. */
export const LINE_ATTEMPTS_MAX = 10
const RETRY: BackoffBounds = { min_ms: 500, max_ms: 30_000 }

/** `code`: of the error. Null: there is none. `broken`: the answer broke off. */
type LineFailure = { http_status: number; code: string | null; retry_after_s: number | null } | 'broken'

/** `wait_ms` null: no more tries. `is_refused`: engines had no room. `random` is in [0, 1). */
export function nextAttempt(
  failure: LineFailure,
  attempts: number,
  random: number,
): { wait_ms: number | null; is_refused: boolean } {
  const backoff_ms = backoffMs(attempts, RETRY, random)
  if (failure === 'broken') return { wait_ms: attempts < LINE_ATTEMPTS_MAX ? backoff_ms : null, is_refused: false }
  const { http_status, code, retry_after_s } = failure
  const is_refused = http_status === 429 || (code?.startsWith('no_engine') ?? false)
  if (is_refused) return { wait_ms: Math.max(backoff_ms, (retry_after_s ?? 0) * 1000), is_refused }
  const may_pass = http_status >= 500 && attempts < LINE_ATTEMPTS_MAX
  return { wait_ms: may_pass ? backoff_ms : null, is_refused }
}
