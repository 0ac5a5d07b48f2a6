/**
 * Waiting with a time limit. workerd's RPC promises cannot be cancelled, so a promise keeps running after its wait is given
 * up. A caller that gives up declares here that a late failure does not matter.
 */
import { startPauseProofTimer } from './pause-proof-timer.ts'

export type Within<T> = { status: 'in_time'; value: T } | { status: 'late' }

/** `promise`'s value if it comes within `limit_ms`; it may still settle later. Rejects as `promise` does. */
export async function within<T>(promise: Promise<T>, limit_ms: number): Promise<Within<T>> {
  const { promise: late, resolve } = Promise.withResolvers<Within<T>>()
  const disarm = startPauseProofTimer(limit_ms, () => resolve({ status: 'late' }))
  try {
    return await Promise.race([promise.then((value) => ({ status: 'in_time' as const, value })), late])
  } finally {
    disarm()
  }
}

export function sleep(ms: number): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  setTimeout(resolve, ms)
  return promise
}
