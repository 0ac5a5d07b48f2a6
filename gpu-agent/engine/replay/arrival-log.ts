/**
 * The last calls that came to one engine, and how each went: what a replay needs. Bounded by ARRIVALS_MAX, so a replay costs
 * the same however long the engine runs. Times are the agent's monotonic clock.
 */
import type { OrderedCall } from '../types.ts'

/** Calls that are remembered, those that came last. */
export const ARRIVALS_MAX = 2_000

/** What an engine measured of a call that has ended. */
export interface ArrivalEnd {
  at_us: number
  /** Time in the steps of the engine. */
  service_us: number
  wait_us: number
  /** Prompt and output: what it held of the KV cache at its end. */
  kv_tokens: number
}

export interface Arrival {
  readonly call: OrderedCall
  /** The control plane's id of the call. */
  readonly id: string
  readonly at_us: number
  /** Null: not counted yet. */
  prompt_tokens: number | null
  /** Null: it is open. */
  end: ArrivalEnd | null
}

export class ArrivalLog {
  readonly #arrivals = new Map<string, Arrival>()
  /** Calls that were open when they were forgotten, and are still. */
  readonly #forgotten_open = new Set<string>()
  #forgotten_until_us = Number.NEGATIVE_INFINITY

  /** In order of arrival. */
  get arrivals(): Iterable<Arrival> {
    return this.#arrivals.values()
  }

  get size(): number {
    return this.#arrivals.size
  }

  /** Until when calls ran of which nothing is remembered. What came before cannot be replayed. */
  get forgotten_until_us(): number {
    return this.#forgotten_open.size > 0 ? Number.POSITIVE_INFINITY : this.#forgotten_until_us
  }

  arrived(call: OrderedCall, id: string, at_us: number): void {
    this.#arrivals.set(call.lease, { call, id, at_us, prompt_tokens: null, end: null })
    const [oldest] = this.#arrivals.values()
    if (this.#arrivals.size <= ARRIVALS_MAX || oldest === undefined) return
    this.#arrivals.delete(oldest.call.lease)
    if (oldest.end === null) this.#forgotten_open.add(oldest.call.lease)
    else this.#forgottenUntil(oldest.end.at_us)
  }

  promptTokens(lease: string, prompt_tokens: number): void {
    const arrival = this.#arrivals.get(lease)
    if (arrival !== undefined) arrival.prompt_tokens = prompt_tokens
  }

  /** A call that was never served took no time of the engine, so it is forgotten. */
  ended(lease: string, end: ArrivalEnd): void {
    if (this.#forgotten_open.delete(lease)) this.#forgottenUntil(end.at_us)
    const arrival = this.#arrivals.get(lease)
    if (arrival === undefined) return
    if (end.service_us === 0) this.#arrivals.delete(lease)
    else arrival.end = end
  }

  #forgottenUntil(at_us: number): void {
    this.#forgotten_until_us = Math.max(this.#forgotten_until_us, at_us)
  }
}
