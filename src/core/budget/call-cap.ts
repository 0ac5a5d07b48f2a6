/**
 * The most that one call may use, as its ticket says it, and what that leaves for its output once its prompt is counted.
 * The control plane reserves the cap before the call runs. The agent enforces it, since only an engine counts tokens.
 *
 * Modelled service and cost are linear in tokens, so both become a number of output tokens. The prompt counts as if nothing
 * of it were cached.
 */
import { DEFAULT_SERVICE_RATES } from '../call/service.ts'

/** Per token, in trillionths of the operator's currency: millionths of the price of a million tokens. */
export interface TokenPrices {
  prompt_picos: number
  cached_prompt_picos: number
  output_picos: number
}

/** What the operator states of a model, for a million tokens. Null: it has no price. */
export interface StatedPrices {
  prompt_price: number | null
  /** Null: that of the prompt. */
  cached_prompt_price: number | null
  output_price: number | null
}

const PICOS_PER_PRICE = 1_000_000

export function tokenPrices({ prompt_price, cached_prompt_price, output_price }: StatedPrices): TokenPrices | null {
  if (prompt_price === null || output_price === null) return null
  const picos = (price: number) => Math.round(price * PICOS_PER_PRICE)
  return {
    prompt_picos: picos(prompt_price),
    cached_prompt_picos: picos(cached_prompt_price ?? prompt_price),
    output_picos: picos(output_price),
  }
}

export interface CallCap {
  /** Of the prompts and all outputs. */
  tokens?: number | undefined
  /** In the modelled reading. */
  service_us?: number | undefined
  cost_nanos?: number | undefined
  /** With `cost_nanos`. */
  prices?: TokenPrices | undefined
}

const PICOS_PER_NANO = 1000

/**
 * Output tokens that all sequences of the call may have together. Negative or 0: the budget does not cover the prompt and a
 * token. Infinite: nothing limits them.
 */
export function outputRoom({ tokens, service_us, cost_nanos, prices }: CallCap, prompt_tokens: number): number {
  const { prefill_us_per_token, decode_us_per_token } = DEFAULT_SERVICE_RATES
  let room = Number.POSITIVE_INFINITY
  if (tokens !== undefined) room = Math.min(room, tokens - prompt_tokens)
  if (service_us !== undefined) {
    room = Math.min(room, (service_us - prompt_tokens * prefill_us_per_token) / decode_us_per_token)
  }
  if (cost_nanos !== undefined && prices !== undefined) {
    const left_picos = cost_nanos * PICOS_PER_NANO - prompt_tokens * prices.prompt_picos
    if (left_picos < 0) return -1
    if (prices.output_picos > 0) room = Math.min(room, left_picos / prices.output_picos)
  }
  return Math.floor(room)
}

/** Rounded up to a whole billionth. */
export function costNanos(
  prices: TokenPrices,
  used: { prompt_tokens: number; cached_tokens: number; output_tokens: number },
): number {
  const picos =
    (used.prompt_tokens - used.cached_tokens) * prices.prompt_picos +
    used.cached_tokens * prices.cached_prompt_picos +
    used.output_tokens * prices.output_picos
  return Math.ceil(picos / PICOS_PER_NANO)
}
