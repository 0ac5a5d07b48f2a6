/** Which part of a timeline is seen, and where its marks stand. Pure. */

/** Shares of the whole, 0 ≤ from < to ≤ 1. */
export interface Seen {
  from: number
  to: number
}

export const WHOLE: Seen = { from: 0, to: 1 }
/** The least share that is seen at once. */
const SEEN_MIN = 1 / 512

/** `factor` under 1: nearer. What is at the share `at` of the view stays there. */
export function zoomed({ from, to }: Seen, factor: number, at = 0.5): Seen {
  const width = Math.min(1, Math.max(SEEN_MIN, (to - from) * factor))
  return placed(from + (to - from - width) * at, width)
}

/** By so many shares of the view, as far as there is something. */
export function moved({ from, to }: Seen, views: number): Seen {
  return placed(from + (to - from) * views, to - from)
}

function placed(from: number, width: number): Seen {
  const least = Math.min(1 - width, Math.max(0, from))
  return { from: least, to: least + width }
}

/** Round times between the two, `most` of them at most. */
export function ticksMs(from_ms: number, to_ms: number, most: number): number[] {
  const least_ms = (to_ms - from_ms) / Math.max(1, most)
  const power = 10 ** Math.floor(Math.log10(least_ms))
  const step_ms = ([1, 2, 5].find((times) => times * power >= least_ms) ?? 10) * power
  const first = Math.ceil(from_ms / step_ms)
  const count = Math.floor(to_ms / step_ms) - first + 1
  return Array.from({ length: Math.max(0, count) }, (_, at) => (first + at) * step_ms)
}
