import { describe, expect, it } from 'vitest'
import { drawOutputTokens, lengthAt, lengthTable, lengthTableOf, limited } from './length-table.ts'
import { OUTPUT_LENGTHS } from './model-lengths.ts'

const even = lengthTable(
  Array.from({ length: 101 }, (_, percent) => 1 + percent),
  51,
  4096,
)

/** As many draws as there are points, evenly spread: the table itself, without luck. */
function grid(points: number): number[] {
  return Array.from({ length: points }, (_, at) => (at + 0.5) / points)
}

describe('output lengths', () => {
  it('draws min(X, max_out, max_len - in)', () => {
    expect(limited(300, 4096, { input_tokens: 100, max_output_tokens: 512 })).toBe(300)
    expect(limited(600, 4096, { input_tokens: 100, max_output_tokens: 512 })).toBe(512)
    expect(limited(600, 4096, { input_tokens: 3700, max_output_tokens: 512 })).toBe(396)
    expect(limited(600, 4096, { input_tokens: 4096, max_output_tokens: 512 })).toBe(1)
    const draws = grid(1000).map((at) => drawOutputTokens(even, { input_tokens: 9, max_output_tokens: 20 }, () => at))
    expect(Math.max(...draws)).toBe(20)
    expect(draws.filter((tokens) => tokens === 20)).toHaveLength(1000 - 185)
  })

  it('is linear between quantiles', () => {
    expect([0, 0.25, 0.5, 0.99].map((at) => lengthAt(even, at))).toEqual([1, 26, 51, 100])
  })

  it('has the mean of the lengths that it was made from, a long tail included', () => {
    const lengths = [...Array.from({ length: 999 }, (_, at) => 100 + (at % 50)), 4000]
    const table = lengthTableOf(lengths, 4096)
    const mean = grid(100_000).reduce((sum, at) => sum + lengthAt(table, at), 0) / 100_000
    expect(table.mean_tokens).toBeCloseTo(128.3, 0)
    expect(Math.abs(mean / table.mean_tokens - 1)).toBeLessThan(0.01)
  })

  it('takes a single length, and refuses none, wrong counts and quantiles that fall', () => {
    const one = lengthTableOf([7], 100)
    expect(grid(10).map((at) => lengthAt(one, at))).toEqual(Array(10).fill(7))
    expect(() => lengthTableOf([], 100)).toThrow('at least one output')
    expect(() => lengthTable([1, 2], 1, 100)).toThrow('101 quantiles')
    expect(() => lengthTable([...Array(100).fill(9), 3], 9, 100)).toThrow('ascend')
  })
})

describe("the SamuLLM authors' models", () => {
  it.each(Object.keys(OUTPUT_LENGTHS))('%s: the table has the published mean', (model) => {
    const table = OUTPUT_LENGTHS[model]
    if (table === undefined) throw new RangeError(model)
    const mean = grid(20_000).reduce((sum, at) => sum + lengthAt(table, at), 0) / 20_000
    expect(Math.abs(mean / table.mean_tokens - 1)).toBeLessThan(0.02)
  })
})
