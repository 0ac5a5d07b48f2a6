import { vi } from 'vitest'

/** Tries again until `check` passes. The limit ends a test that hangs, and says nothing of how fast a machine is. */
export function soon(check: () => Promise<void> | void): Promise<void> {
  return vi.waitFor(check, { timeout: 50_000, interval: 50 })
}
