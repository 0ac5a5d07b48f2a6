/** What an answer says of a provider's limits, in one form for all names of headers (src/fronts/attached/limits/limit-news.ts). */
import { DAY_US, MINUTE_US, type Quantity } from './limit-spec.ts'
import type { LimitNews } from './provider-limit.ts'

const HOUR_US = DAY_US / 24

export interface ToldLimit extends LimitNews {
  quantity: Quantity
  /** By the header's name; null: it says none. */
  window_us: number | null
}

/** How the provider counts: what a call may take, when it comes, or what it took. Null: not known. */
export type Counting = 'reserved' | 'used' | null

/**
 * Of a limit whose header names none: the shortest that the reset fits in. It may be longer than that, which resets show
 * (ProviderLimit); a window that is taken to be too long would stop nearly all work.
 */
export function windowOf(reset_us: number | null): number {
  return [MINUTE_US, HOUR_US, DAY_US].find((window_us) => (reset_us ?? 0) <= window_us * 1.05) ?? DAY_US
}
