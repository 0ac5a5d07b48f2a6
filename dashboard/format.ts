/** Figures as people read them. */
import type { LivePosition } from '../src/protocol/live.ts'
import { leaseReason } from '../src/protocol/shown-program.ts'

/** Three significant digits, and the unit that fits. */
export function seconds(s: number | null | undefined): string {
  if (s === null || s === undefined) return '–'
  if (s === 0) return '0 s'
  if (s < 0.001) return '< 1 ms'
  if (s < 1) return `${Math.round(s * 1000)} ms`
  if (s < 60) return `${s.toFixed(s < 10 ? 2 : 1)} s`
  if (s < 3600) return `${Math.floor(s / 60)} min ${Math.round(s % 60)} s`
  return `${Math.floor(s / 3600)} h ${Math.round((s % 3600) / 60)} min`
}

export function count(n: number | null | undefined): string {
  if (n === null || n === undefined) return '–'
  if (n < 10_000) return String(Math.round(n))
  if (n < 1e6) return `${(n / 1000).toFixed(n < 100_000 ? 1 : 0)} k`
  return `${(n / 1e6).toFixed(1)} M`
}

/** Of billionths. The currency is the operator's. */
export const money = (nanos: number): string => (nanos / 1e9).toLocaleString(undefined, { maximumFractionDigits: 6 })

export function share(part: number, whole: number): string {
  return whole > 0 ? `${Math.round((100 * part) / whole)} %` : '–'
}

export const clock = (at: string | number): string => new Date(at).toLocaleTimeString()

export const dateTime = (at: string | null): string => (at === null ? '–' : new Date(at).toLocaleString())

/** Null: not known. */
export function rankText(rank: number | null, expected_remaining_tokens: number | null): string | null {
  if (rank === null) return null
  if (expected_remaining_tokens === null) return `Q${rank + 1}`
  return `${rank.toFixed(0)}, ~${count(expected_remaining_tokens)} tokens left`
}

/** Where an open call is in its engine's order. */
export const positionText = ({ waits, waited_s, before, order }: LivePosition): string =>
  `${waits ? `behind ${before} for ${seconds(waited_s)}` : 'in a seat'}: ${order}`

/** What an engine does with a program's context while its tool runs. */
const HANDLED: Readonly<Record<string, string>> = {
  preserve: 'context kept',
  discard: 'context discarded',
  swap: 'context moved to host memory',
}

export const handledText = (handling: string): string => HANDLED[handling] ?? handling

/** Why the balancer chose an engine: the API's reasons, in words. */
export const reasonText = (reason: string | null | undefined): string =>
  reason === null || reason === undefined ? '–' : (leaseReason(reason)?.label ?? reason)
