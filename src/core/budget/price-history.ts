/**
 * What a call costs goes by the prices of the time at which it was placed on its engine, however late its record comes. So a
 * model keeps the prices that it had before.
 *
 * An isolate learns of a change within CACHE_TTL_MS (store/isolate-cache.ts). A change therefore holds from a little later
 * on, when all know it, and no two of them price a call differently. The first price of a model holds at once, and for
 * calls placed before it too: a Worker's clock that is set back does not make them free.
 */
import { z } from 'zod'
import { type StatedPrices, type TokenPrices, tokenPrices } from './call-cap.ts'

/** From a change to the first call that it holds for. */
export const PRICE_LEAD_MS = 15_000
/** Changes that a model remembers. A record from before them is charged by the oldest. */
export const PRICE_CHANGES_MAX = 64

const Price = z.number().nullable()
/** Prices that a model had until a time, the oldest first. */
export const PriceChanges = z.array(
  z.object({ until_ms: z.number(), prompt_price: Price, cached_prompt_price: Price, output_price: Price }),
)

/** `price_changes`: JSON of PriceChanges. */
export interface PricedModel extends StatedPrices {
  price_changes: string
}

/** Null: the model had no price. */
export function pricesAt(model: PricedModel, at_ms: number): TokenPrices | null {
  if (model.price_changes === '[]') return tokenPrices(model)
  const before = PriceChanges.parse(JSON.parse(model.price_changes)).find(({ until_ms }) => at_ms < until_ms)
  return tokenPrices(before ?? model)
}
