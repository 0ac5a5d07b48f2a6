import { describe, expect, it } from 'vitest'
import { ApplicationTokens } from '../../../src/protocol/application-tokens.ts'
import { mean } from '../../statistics.ts'
import { chainSummary, ensembling, mixed, ROUTED_REQUESTS, routing } from './applications.ts'

const tokens = (file: ApplicationTokens, node = 0): number[] => {
  const { requests } = file.nodes[node] ?? {}
  return Array.isArray(requests) ? requests : []
}

describe("the paper's applications", () => {
  it('are files that the planner takes', () => {
    const files = [
      ensembling(50, 256, { seed: 1 }),
      routing({ known_lengths: true, seed: 1 }),
      mixed('mixed', chainSummary(100, 4, 900, { seed: 1 }), ensembling(50, 256, { seed: 1 })),
    ]
    for (const file of files) expect(ApplicationTokens.parse(file)).toEqual(file)
  })

  it('have the published marginals: ensembling inputs of 5 to 127, mean 21', () => {
    const inputs = tokens(ensembling(20_000, 256, { seed: 3 }))
    expect(Math.min(...inputs)).toBeGreaterThanOrEqual(5)
    expect(Math.max(...inputs)).toBeLessThanOrEqual(127)
    expect(mean(inputs)).toBeCloseTo(21, 0)
  })

  it('routing inputs of 9 to 577, mean 310, and outputs of 3 to 1,585, mean 199, in the shares of Table 1', () => {
    const file = routing({ known_lengths: true, seed: 3 })
    const inputs = file.nodes.flatMap((_, node) => tokens(file, node))
    const outputs = file.nodes.flatMap(({ output_tokens }) => output_tokens ?? [])
    expect(file.nodes.map((_, node) => tokens(file, node).length)).toEqual(Object.values(ROUTED_REQUESTS))
    expect(Math.abs(mean(inputs) / 310 - 1)).toBeLessThan(0.03)
    expect(Math.abs(mean(outputs) / 199 - 1)).toBeLessThan(0.05)
    expect(Math.max(...inputs)).toBeLessThanOrEqual(577)
    expect(Math.max(...outputs)).toBeLessThanOrEqual(1585)
  })

  it.each([
    [100, 60],
    [300, 201],
  ])('%d documents have 3 chunks in the median, and the longest has %d', (documents, longest) => {
    const chunks = [1, 2, 3, 4, 5].map((seed) => {
      const list = chainSummary(documents, 1, 900, { seed }).nodes[0]?.documents?.chunks ?? []
      expect(list).toHaveLength(documents)
      expect(Math.max(...list)).toBe(longest)
      return list.toSorted((a, b) => a - b)[documents >> 1] ?? 0
    })
    expect(Math.abs(mean(chunks) - 3)).toBeLessThanOrEqual(0.5)
  })

  it('draw the same for the same seed, and other lengths for another', () => {
    expect(ensembling(20, 256, { seed: 1 })).toEqual(ensembling(20, 256, { seed: 1 }))
    expect(tokens(ensembling(20, 256, { seed: 1 }))).not.toEqual(tokens(ensembling(20, 256, { seed: 2 })))
  })
})
