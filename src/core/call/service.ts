/**
 * Service: what a call costs the engine that runs it, in integer microseconds. Two readings are always carried.
 *
 * `wall` is the summed duration of the steps in which the call was scheduled (Autellix §4.2: model execution time). It
 * charges a call for its neighbours in the batch. `modelled` is the call's own share of GPU work: prompt tokens that had to
 * be prefilled, tokens generated, and nearly nothing for prompt tokens whose KV was resident. The shares of one engine's
 * calls add up to about the engine's busy time, so the modelled work in a queue is also the time to drain it.
 *
 * The modelled reading is linear in tokens with integer rates. That makes conservation exact: the charges of single steps
 * sum to the charge of the whole call, to the microsecond, for any chunking of the prefill.
 */

/** Which reading orders calls; a pool says which. */
export type ServiceReading = 'wall' | 'modelled'

export interface ServiceRates {
  prefill_us_per_token: number
  decode_us_per_token: number
  cached_us_per_token: number
}

/**
 * The reference engine: an 8B model on one data-centre GPU, as public mock workers model it (8,000 prefill tokens/s; a
 * decode step of 6 ms + 0.35 ms per sequence). At 40 sequences a step takes 20 ms, 500 us for each. Decode : prefill is
 * 4 : 1, between schedulers that charge decode alone and those that charge 2 : 1, and what hosted APIs ask per token.
 * A resident token still occupies KV and is read by attention: 1 us, so that no call is free. Unlike engines are
 * compared by their speed factor; ordering needs ratios only.
 */
export const DEFAULT_SERVICE_RATES: ServiceRates = Object.freeze({
  prefill_us_per_token: 125,
  decode_us_per_token: 500,
  cached_us_per_token: 1,
})

/** Token counts of a whole call or of one step. All are counts of tokens processed in that span alone. */
export interface ServiceTokens {
  /** Prompt tokens whose KV was computed. A token recomputed after a preemption counts once: the scheduler chose that. */
  uncached_prompt_tokens: number
  /** Prompt tokens whose prefill was skipped; charged in the call's first step. */
  cached_prompt_tokens: number
  /** Tokens sampled. The last prefill chunk samples the first one. */
  output_tokens: number
  /** Embeddings read: each takes a pass over the model for one token, as a token of output does. Absent: none. */
  embeddings?: number
}

/** Modelled service of a call, or of one step of it: sums of steps equal the call exactly. */
export function modelledServiceUs(tokens: ServiceTokens, rates: ServiceRates = DEFAULT_SERVICE_RATES): number {
  return (
    tokens.uncached_prompt_tokens * rates.prefill_us_per_token +
    tokens.cached_prompt_tokens * rates.cached_us_per_token +
    (tokens.output_tokens + (tokens.embeddings ?? 0)) * rates.decode_us_per_token
  )
}

/** Service of one lease in the ordering reading, scaled to the reference engine. Integer. */
export function orderingServiceUs(
  lease: { service_wall_us: number; service_modelled_us: number },
  reading: ServiceReading,
  speed_factor: number,
): number {
  const service_us = reading === 'wall' ? lease.service_wall_us : lease.service_modelled_us
  return Math.min(Math.round(service_us * speed_factor), Number.MAX_SAFE_INTEGER)
}
