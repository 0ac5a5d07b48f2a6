/**
 * How full an engine is, and how long a call would wait there.
 *
 * Load is queued calls per seat: (waiting + running + leases since the report − seats) / seats. −1 is idle, 0 is every seat
 * taken, 1 is a queue as long as the batch. This one measure decides which engine is least used and whether a region is too
 * full.
 *
 * Expected wait is the queued work, since the modelled shares of one engine's calls add up to its busy time (service.ts).
 * It counts prompt tokens still to be prefilled, and an assumed output for each call beyond the seats. It ignores that a
 * scheduler by attained service lets short programs pass, so it is too high for them. It only decides whether a pin is
 * left. An engine whose provider limits it says itself how long a call would wait for that.
 *
 * An online call takes the place of offline ones, so they are no load for it. An offline call waits behind all of them.
 */

import { DEFAULT_SERVICE_RATES } from '../call/service.ts'
import type { EngineSnapshot } from './pool-types.ts'

/** Assumed output of a queued call about which nothing is known: the mean of a chat call (Autellix §6.1: 277). */
export const OUTPUT_TOKENS_ASSUMED = 256
const US_PER_S = 1_000_000

export function engineLoad(engine: EngineSnapshot): number {
  const seats = Math.max(1, engine.seats)
  return (engine.waiting + engine.running + engine.leases_since_report - seats) / seats
}

/**
 * The engine as an online call finds it. Reported prompt tokens are taken to be spread evenly over its calls. A lease since the report counts in full:
 * what kind of call it is of is not known before.
 */
export function withoutOffline(engine: EngineSnapshot): EngineSnapshot {
  const { offline = 0, waiting, running, queued_tokens } = engine
  if (offline === 0) return engine
  const calls = waiting + running
  const online = Math.max(0, calls - offline)
  const online_waiting = Math.min(online, Math.max(0, waiting - offline))
  return {
    ...engine,
    ...{ waiting: online_waiting, running: online - online_waiting },
    queued_tokens: Math.round((queued_tokens * online) / Math.max(1, calls)),
  }
}

/** Microseconds per prefilled token on this engine. An engine that did not report a rate gets the reference engine's. */
function prefillUsPerToken(engine: EngineSnapshot): number {
  return engine.prefill_tokens_per_s === null
    ? DEFAULT_SERVICE_RATES.prefill_us_per_token
    : US_PER_S / engine.prefill_tokens_per_s
}

export function prefillCostUs(engine: EngineSnapshot, prompt_tokens: number): number {
  return Math.round(prompt_tokens * prefillUsPerToken(engine))
}

export function expectedWaitUs(engine: EngineSnapshot): number {
  const prefill_us = prefillUsPerToken(engine)
  const decode_us =
    (prefill_us * DEFAULT_SERVICE_RATES.decode_us_per_token) / DEFAULT_SERVICE_RATES.prefill_us_per_token
  const queued_calls = Math.max(0, engineLoad(engine) * Math.max(1, engine.seats))
  const queued_us = Math.round(engine.queued_tokens * prefill_us + queued_calls * OUTPUT_TOKENS_ASSUMED * decode_us)
  return queued_us + (engine.limit_wait_us ?? 0)
}

/** KV in use as a share of capacity, 0 to 1. */
export function kvUse(engine: EngineSnapshot): number {
  return engine.kv_capacity_tokens === 0 ? 1 : Math.min(1, engine.kv_used_tokens / engine.kv_capacity_tokens)
}
