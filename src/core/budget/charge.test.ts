import { expect, it } from 'vitest'
import { addCharge, chargeOf, isLater, NO_CHARGE } from './charge.ts'

const prices = { prompt_picos: 150_000, cached_prompt_picos: 75_000, output_picos: 600_000 }
const used = {
  prompt_tokens: 100,
  cached_tokens: 40,
  resumed_tokens: 0,
  output_tokens: 10,
  service_modelled_us: 12_540,
}

it('charges what was served, cached tokens at their own price, and nothing of a lease that failed', () => {
  const charge = chargeOf({ ...used, outcome: 'completed' }, prices)
  expect(charge).toEqual({
    ...{ calls: 1, prompt_tokens: 100, cached_tokens: 40, output_tokens: 10 },
    ...{ service_us: 12_540, cost_nanos: 9_000 + 3_000 + 6_000 },
  })
  expect(chargeOf({ ...used, outcome: 'cancelled' }, null)).toEqual({ ...charge, cost_nanos: 0 })
  expect(chargeOf({ ...used, outcome: 'failed' }, prices)).toEqual(NO_CHARGE)
})

it('is taken back to the last unit', () => {
  const sum = { ...NO_CHARGE }
  const charge = chargeOf({ ...used, outcome: 'completed' }, prices)
  addCharge(sum, charge)
  addCharge(sum, charge, -1)
  expect(sum).toEqual(NO_CHARGE)
})

it('is of the lease that was granted last, and the same one whichever record comes first', () => {
  const [first, second, twin] = [
    { lease: 'b', granted_at_ms: 1 },
    { lease: 'a', granted_at_ms: 2 },
    { lease: 'c', granted_at_ms: 2 },
  ] as const
  expect(isLater(second, first)).toBe(true)
  expect(isLater(first, second)).toBe(false)
  expect([isLater(twin, second), isLater(second, twin)]).toEqual([true, false])
})

it('a call that went on at another engine is charged what an unbroken one is', () => {
  const unbroken = chargeOf({ ...used, outcome: 'completed' }, prices)
  const [resumed_tokens, output_tokens] = [1, used.output_tokens - 1]
  expect(chargeOf({ ...used, resumed_tokens, output_tokens, outcome: 'completed' }, prices)).toEqual(unbroken)
})
