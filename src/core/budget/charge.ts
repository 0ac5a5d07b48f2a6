/**
 * What a call is charged, by its records alone, so that the same records always add up to the same sum.
 *
 * A call may have had several engines. The lease that was granted last served its client, and only that one is charged: a
 * tenant does not pay twice for a prompt because an engine was replaced. A lease that failed costs nothing.
 */
import type { Outcome } from '../../protocol/index.ts'
import type { Amounts } from './budget.ts'
import { costNanos, type TokenPrices } from './call-cap.ts'

/** Integers. */
export interface Charge {
  calls: number
  /** Cached ones too. */
  prompt_tokens: number
  cached_tokens: number
  output_tokens: number
  /** In the modelled reading. */
  service_us: number
  /** 0 where the model had no price. */
  cost_nanos: number
}

export const CHARGE_FIELDS = [
  ...(['calls', 'prompt_tokens', 'cached_tokens', 'output_tokens', 'service_us', 'cost_nanos'] as const),
] satisfies readonly (keyof Charge)[]

export const NO_CHARGE: Readonly<Charge> = Object.freeze({
  ...{ calls: 0, prompt_tokens: 0, cached_tokens: 0, output_tokens: 0, service_us: 0, cost_nanos: 0 },
})

export interface ChargedRecord {
  outcome: Outcome
  prompt_tokens: number
  cached_tokens: number
  output_tokens: number
  /** Output that another engine had generated, and that its client has too. */
  resumed_tokens: number
  service_modelled_us: number
}

/** `prices` null: the model has none. */
export function chargeOf(record: ChargedRecord, prices: TokenPrices | null): Charge {
  if (record.outcome === 'failed') return { ...NO_CHARGE }
  const { prompt_tokens, cached_tokens, service_modelled_us } = record
  const output_tokens = record.resumed_tokens + record.output_tokens
  return {
    ...{ calls: 1, prompt_tokens, cached_tokens, output_tokens },
    service_us: service_modelled_us,
    cost_nanos: prices === null ? 0 : costNanos(prices, { prompt_tokens, cached_tokens, output_tokens }),
  }
}

export interface ChargedLease {
  lease: string
  granted_at_ms: number
}

/** Whether `one` is charged in place of `other`, of the same call. */
export function isLater(one: ChargedLease, other: ChargedLease): boolean {
  if (one.granted_at_ms !== other.granted_at_ms) return one.granted_at_ms > other.granted_at_ms
  return one.lease > other.lease
}

/** In the units of a budget. */
export function amountsOf({ calls, prompt_tokens, output_tokens, service_us, cost_nanos }: Charge): Amounts {
  return { calls, tokens: prompt_tokens + output_tokens, service_us, cost_nanos }
}

export const DAY_CHARS = 'YYYY-MM-DD'.length
export const MONTH_CHARS = 'YYYY-MM'.length

/** UTC. */
export function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, DAY_CHARS)
}

/** `sign` −1: takes `of` away. */
export function addCharge(to: Charge, of: Readonly<Charge>, sign: 1 | -1 = 1): void {
  for (const field of CHARGE_FIELDS) to[field] += sign * of[field]
}
