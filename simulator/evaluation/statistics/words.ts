/** Numbers and lists as sentences have them. */
import type { Interval } from './interval.ts'

/** Three significant digits, without trailing zeros. */
export function figure(value: number): string {
  if (!Number.isFinite(value)) return '–'
  if (value !== 0 && Math.abs(value) >= 1000) return Math.round(value).toLocaleString('en-US')
  return `${Number(value.toPrecision(3))}`
}

/** `4.2 ± 0.3`; without the interval for one sample. */
export function withInterval({ mean, half_width }: Interval): string {
  return half_width === null ? figure(mean) : `${figure(mean)} ± ${figure(half_width)}`
}

export function percent(share: number): string {
  return `${figure(share * 100)} %`
}

/** `a`, `a and b`, `a, b and c`. */
export function listed(items: readonly string[]): string {
  if (items.length <= 1) return items.join('')
  return `${items.slice(0, -1).join(', ')} and ${items.at(-1)}`
}
