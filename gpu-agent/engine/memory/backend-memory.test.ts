import { describe, expect, it } from 'vitest'
import { measuredMemory, memoryOf } from './backend-memory.ts'

describe('memoryOf', () => {
  const costs = { save_us_per_token: 1, restore_us_per_token: 2, base_us: 3 }

  it('takes the backend’s costs, and what it measured of prefill as the cost of recomputing', () => {
    expect(memoryOf({ swapCosts: () => costs, copies_prefixes: true }, 8_000, 5_000)).toEqual({
      swap: { costs, recompute_us_per_token: 125, image_tokens_max: 5_000 },
      copies_prefixes: true,
    })
  })

  it('swaps nothing where the backend cannot, or the cost of computing is unknown', () => {
    const swap = null
    expect(memoryOf({ swapCosts: () => null, copies_prefixes: true }, 8_000, 5_000)).toEqual({
      swap,
      copies_prefixes: true,
    })
    expect(memoryOf({ swapCosts: () => costs, copies_prefixes: false }, null, 1)).toEqual({
      swap,
      copies_prefixes: false,
    })
  })
})

describe('measuredMemory', () => {
  const measured = { prefill_tokens_per_s: 2_000, step_us: 40_000, kv_bytes_per_token: 23_040 }

  it('has a line for each of computing and moving, and a batch without the call itself', () => {
    const swap = { save_us_per_token: 20, restore_us_per_token: 10, base_us: 400 }
    const { costs, step_us, other_tokens } = measuredMemory({ ...measured, swap }, 4)
    expect(costs.forward).toEqual({ base_us: 0, free_tokens: 0, per_token_us: 500, per_pair_us: 0 })
    expect(costs.swap).toEqual({ base_us: 400, free_tokens: 0, per_token_us: 15, per_pair_us: 0 })
    expect([step_us, other_tokens, costs.kv_bytes_per_token]).toEqual([40_000, 3 * 512, 23_040])
  })

  it('moves nothing where that is not possible', () => {
    expect(measuredMemory({ ...measured, swap: null }, 1)).toMatchObject({ costs: { swap: null }, other_tokens: 0 })
  })
})
