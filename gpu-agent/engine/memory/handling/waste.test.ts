import { describe, expect, it } from 'vitest'
import {
  chooseHandling,
  curveUs,
  leastWaste,
  type MemoryCosts,
  PRESERVE_US_MAX,
  REVISE_FACTOR,
  reviseAfterUs,
  reviseHandling,
  wasteOf,
} from './waste.ts'

const COSTS: MemoryCosts = {
  forward: { base_us: 1_000, free_tokens: 10, per_token_us: 100, per_pair_us: 0.5 },
  swap: { base_us: 500, free_tokens: 0, per_token_us: 20, per_pair_us: 0 },
  kv_bytes_per_token: 1_000,
}
const BATCH = { context_tokens: 1_000, other_tokens: 9_000 }

describe('the time of work on tokens', () => {
  it('has a base, a cost for each token beyond those that are free, and one for each pair', () => {
    expect(curveUs(COSTS.forward, 0)).toBe(0)
    expect(curveUs(COSTS.forward, 10)).toBe(1_025)
    expect(curveUs(COSTS.forward, 1_000)).toBe(1_000 + 99_000 + 250_000)
  })
})

describe('waste', () => {
  it('is equation 1 for preserve, 2 for discard and 3 for swap, in byte-seconds', () => {
    const { preserve, discard, swap } = wasteOf(COSTS, BATCH, 3e6)
    expect(preserve).toBe(3 * 1_000 * 1_000)
    expect(discard).toBeCloseTo(0.35 * 10_000 * 1_000)
    expect(swap).toBeCloseTo(2 * 0.0205 * 10_000 * 1_000)
  })

  it('decides for the least, and among equal ones for what moves and computes less', () => {
    expect(leastWaste({ preserve: 2, discard: 2, swap: 2 })).toBe('preserve')
    expect(leastWaste({ preserve: 3, discard: 2, swap: 2 })).toBe('swap')
    expect(leastWaste({ preserve: 3, discard: 2, swap: 4 })).toBe('discard')
    expect(leastWaste({ preserve: 3, discard: 1, swap: 2 })).toBe('discard')
    expect(leastWaste({ preserve: 1, discard: 2, swap: 3 })).toBe('preserve')
    expect(leastWaste({ preserve: 3, discard: 2, swap: null })).toBe('discard')
    expect(leastWaste({ preserve: 2, discard: 2, swap: null })).toBe('preserve')
  })

  it('decides among those that are allowed, and drops what can be handled in none of these ways', () => {
    const waste = { preserve: 1, discard: 3, swap: 2 }
    expect(leastWaste(waste, ['discard', 'swap'])).toBe('swap')
    expect(leastWaste(waste, ['discard'])).toBe('discard')
    expect(leastWaste({ ...waste, swap: null }, ['swap'])).toBe('discard')
    expect(chooseHandling(COSTS, BATCH, 1e9, ['preserve']).handling).toBe('preserve')
  })

  it('preserves for short tools, swaps for long ones, and computes short contexts again', () => {
    const handlingOf = (tool_us: number, context_tokens = 1_000, costs = COSTS) =>
      chooseHandling(costs, { context_tokens, other_tokens: 9_000 }, tool_us).handling
    expect(handlingOf(90)).toBe('preserve')
    expect(handlingOf(400_000)).toBe('preserve')
    expect(handlingOf(420_000)).toBe('swap')
    expect(handlingOf(20e6)).toBe('swap')
    const slow_link = { ...COSTS, swap: { base_us: 1_500, free_tokens: 0, per_token_us: 20, per_pair_us: 0 } }
    expect(handlingOf(20e6, 10, slow_link)).toBe('discard')
    expect(handlingOf(20e6, 1_000, { ...COSTS, swap: null })).toBe('discard')
  })

  it('counts the rest of the batch: where nothing else runs, a context is dropped sooner', () => {
    const alone = { context_tokens: 1_000, other_tokens: 0 }
    const no_link = { ...COSTS, swap: null }
    expect(chooseHandling(no_link, alone, 400_000).handling).toBe('discard')
    expect(chooseHandling(no_link, BATCH, 400_000).handling).toBe('preserve')
  })
})

describe('a preserved context whose tool lasts too long', () => {
  it('is decided again after a multiple of the prediction, and no later than the bound', () => {
    expect(reviseAfterUs(1e6)).toBe(REVISE_FACTOR * 1e6)
    expect(reviseAfterUs(PRESERVE_US_MAX)).toBe(PRESERVE_US_MAX)
  })

  it('goes once what it has wasted is more than moving or computing it', () => {
    expect(reviseHandling(COSTS, BATCH, 300_000).handling).toBe('preserve')
    expect(reviseHandling(COSTS, BATCH, 500_000).handling).toBe('swap')
    expect(reviseHandling({ ...COSTS, swap: null }, BATCH, 5e6).handling).toBe('discard')
  })

  it('goes at the bound, even where keeping it wastes least', () => {
    const dear = { ...COSTS, forward: { ...COSTS.forward, per_token_us: 1e9 }, swap: null }
    expect(reviseHandling(dear, BATCH, PRESERVE_US_MAX - 1).handling).toBe('preserve')
    expect(reviseHandling(dear, BATCH, PRESERVE_US_MAX).handling).toBe('discard')
    expect(reviseHandling(COSTS, BATCH, PRESERVE_US_MAX).handling).toBe('swap')
  })
})
