import { expect, it } from 'vitest'
import { costNanos, outputRoom, tokenPrices } from './call-cap.ts'

const prices = { prompt_picos: 150_000, cached_prompt_picos: 75_000, output_picos: 600_000 }

it('leaves for output what the prompt does not take, by the tightest limit', () => {
  expect(outputRoom({}, 1_000)).toBe(Number.POSITIVE_INFINITY)
  expect(outputRoom({ tokens: 150 }, 100)).toBe(50)
  // 100 tokens of prompt take 12,500 µs, each of output 500.
  expect(outputRoom({ service_us: 20_000 }, 100)).toBe(15)
  // 100 tokens of prompt cost 15,000 billionths, each of output 600.
  expect(outputRoom({ cost_nanos: 20_000, prices }, 100)).toBe(8)
  expect(outputRoom({ tokens: 150, service_us: 20_000, cost_nanos: 20_000, prices }, 100)).toBe(8)
})

it('leaves nothing where the prompt alone is too much', () => {
  expect(outputRoom({ tokens: 99 }, 100)).toBeLessThan(0)
  expect(outputRoom({ service_us: 12_499 }, 100)).toBeLessThan(0)
  expect(outputRoom({ cost_nanos: 14_999, prices }, 100)).toBeLessThan(0)
  expect(outputRoom({ cost_nanos: 15_000, prices }, 100)).toBe(0)
})

it('costs less for a prompt that was cached, and is rounded up', () => {
  expect(costNanos(prices, { prompt_tokens: 100, cached_tokens: 40, output_tokens: 10 })).toBe(9_000 + 3_000 + 6_000)
  expect(costNanos({ ...prices, output_picos: 1 }, { prompt_tokens: 0, cached_tokens: 0, output_tokens: 1 })).toBe(1)
})

it('prices of a million tokens become whole trillionths of a token, and a model without one has none', () => {
  const stated = { prompt_price: 0.15, cached_prompt_price: null, output_price: 0.6 }
  expect(tokenPrices(stated)).toEqual({ prompt_picos: 150_000, cached_prompt_picos: 150_000, output_picos: 600_000 })
  expect(tokenPrices({ ...stated, cached_prompt_price: 0.075 })).toEqual(prices)
  expect(tokenPrices({ ...stated, output_price: null })).toBeNull()
})
