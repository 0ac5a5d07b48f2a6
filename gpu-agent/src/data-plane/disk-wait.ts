/** A disk that is full takes nothing until someone frees it. No client waits for that. */
export const DISK_WAIT_MS = 5000

/** False after `limit_ms`; `written` may still resolve later. */
export async function isOnDisk(written: Promise<void>, limit_ms: number): Promise<boolean> {
  const { promise: late, resolve } = Promise.withResolvers<false>()
  const timer = setTimeout(() => resolve(false), limit_ms)
  try {
    return await Promise.race([written.then(() => true as const), late])
  } finally {
    clearTimeout(timer)
  }
}
