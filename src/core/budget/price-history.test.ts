import { expect, it } from 'vitest'
import { tokenPrices } from './call-cap.ts'
import { pricesAt } from './price-history.ts'

const price = (prompt_price: number | null) => ({ prompt_price, cached_prompt_price: null, output_price: prompt_price })

it('goes by the prices of the time of the call, and by those of today where none is remembered', () => {
  const changes = [
    { until_ms: 100, ...price(1) },
    { until_ms: 200, ...price(null) },
  ]
  const model = { ...price(3), price_changes: JSON.stringify(changes) }
  expect(pricesAt(model, 99)).toEqual(tokenPrices(price(1)))
  expect(pricesAt(model, 100)).toBeNull()
  expect(pricesAt(model, 200)).toEqual(tokenPrices(price(3)))
  expect(pricesAt({ ...price(3), price_changes: '[]' }, 0)).toEqual(tokenPrices(price(3)))
})
