/**
 * How long to wait before the nth try in a row: doubles from `min_ms` to `max_ms`, and half of it is random, so that those
 * which lost the same dependency do not return in one instant.
 */
export interface BackoffBounds {
  min_ms: number
  max_ms: number
}

/** `failures` ≥ 1 counts the tries that failed in a row; `random` is in [0, 1). */
export function backoffMs(failures: number, bounds: BackoffBounds, random: number): number {
  const doublings = Math.min(Math.max(0, failures - 1), 30)
  const ceiling_ms = Math.min(bounds.max_ms, bounds.min_ms * 2 ** doublings)
  return Math.round(ceiling_ms / 2 + (ceiling_ms / 2) * random)
}
