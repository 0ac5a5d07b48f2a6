/** `completion_window`: OpenAI has "24h". Here it is a whole number of seconds, minutes, hours or days. */

const UNIT_S = { s: 1, m: 60, h: 3600, d: 86_400 } as const
const COMPLETION_S_MIN = 10
const COMPLETION_S_MAX = 14 * UNIT_S.d
export const COMPLETION_WINDOW_RULE =
  'A completion_window is "24h", or another time from "10s" to "14d" in s, m, h or d.'

/** In seconds. Null: it is none. */
export function completionSeconds(text: string): number | null {
  const [, digits, unit] = /^(\d{1,7})([smhd])$/.exec(text) ?? []
  if (digits === undefined || unit === undefined) return null
  const seconds = Number(digits) * UNIT_S[unit as keyof typeof UNIT_S]
  return seconds >= COMPLETION_S_MIN && seconds <= COMPLETION_S_MAX ? seconds : null
}
