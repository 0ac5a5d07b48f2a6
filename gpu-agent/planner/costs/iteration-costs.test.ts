import { describe, expect, it } from 'vitest'
import { simpleCosts } from '../testing/costs.ts'
import { A100_COSTS } from './a100.ts'
import { between, IterationCosts } from './iteration-costs.ts'
import type { ModelCosts } from './model-costs.ts'

/** L = 2, h = 8, c = 1000. */
const costs = new IterationCosts(
  simpleCosts({ base_us: 100, per_sequence_us: 10, per_token_us: 1, per_prompt_token_us: 2 }),
)

describe('FLOPs', () => {
  it('of a prefill iteration are eq. 1: 2cBs + 4LhBs²', () => {
    expect(costs.prefillFlops(3, 5)).toBe(2 * 1000 * 3 * 5 + 4 * 2 * 8 * 3 * 25)
  })

  it('of a decode iteration are eq. 2: 2cB + 4LhS, and of many the sum while S grows by B', () => {
    expect(costs.decodeFlops(3, 50, 1)).toBe(2 * 1000 * 3 + 4 * 2 * 8 * 50)
    const single = [50, 53, 56, 59].map((tokens) => costs.decodeFlops(3, tokens, 1))
    expect(costs.decodeFlops(3, 50, 4)).toBe(single.reduce((sum, one) => sum + one, 0))
  })
})

describe('the duration of an iteration', () => {
  it('is a line for each B, with constants between the knots', () => {
    expect(costs.decodeS(4, 20, 60)).toBeCloseTo((100 + 4 * 10 + 60) / 1e6, 12)
    expect(costs.prefillS(4, 20, 60)).toBeCloseTo((100 + 4 * 10 + 60 * 3) / 1e6, 12)
    expect(between([1, 8, 32], 20)).toEqual([1, 2, 0.5])
    expect(between([1, 8, 32], 1)).toEqual([0, 0, 0])
    expect(between([1, 8, 32], 99)).toEqual([2, 2, 0])
  })

  it('counts FLOPs on one GPU, padded tokens and tokens in their own units', () => {
    const knots = [1]
    const phase = { compute: [[3, 5]], prepare: [[0.5, 1]], sample: [[0.25, 2]] } as ModelCosts['decode']
    const one = new IterationCosts({
      ...costs.costs,
      tp: 2,
      knots,
      prefill: phase,
      decode: phase,
      elements: 1e6,
      layers: 1000,
      hidden: 1000,
    })
    // 4·L·h·S = 4e6 · 50 = 0.2 GFLOP, on each of two GPUs 0.1; B·s = 2 · 30; S = 50.
    expect(one.decodeS(2, 30, 50) * 1e6).toBeCloseTo(3 * 0.1 + 5 + 0.5 * 60 + 1 + 0.25 * 50 + 2, 6)
    // 2·c·B·s = 0.12 GFLOP and 4·L·h·B·s² = 7.2.
    expect(one.prefillS(2, 30, 50) * 1e6).toBeCloseTo((3 * (0.12 + 7.2)) / 2 + 5 + 0.5 * 60 + 1 + 0.25 * 50 + 2, 6)
  })
})

describe('costs on A100', () => {
  it.each(A100_COSTS.models.map((one) => [`${one.model} tp ${one.tp}`, one] as const))(
    '%s: longer work takes longer',
    (_name, model) => {
      const compiled = new IterationCosts(model)
      for (const calls of [1, 16, 100, 256]) {
        expect(compiled.decodeS(calls, 200, calls * 100)).toBeGreaterThan(0.001)
        expect(compiled.decodeS(calls, 400, calls * 300)).toBeGreaterThan(compiled.decodeS(calls, 200, calls * 100))
        expect(compiled.prefillS(calls, 200, calls * 200)).toBeGreaterThan(compiled.prefillS(calls, 10, calls * 10))
      }
      expect(model.kv_tokens).toBeGreaterThanOrEqual(model.max_model_tokens)
      expect(model.loading_s).toBeGreaterThan(0)
    },
  )

  it('labels what no log was fitted to', () => {
    const basis = (model: string) => A100_COSTS.models.filter((one) => one.model === model).map((one) => one.basis)
    expect(basis('vicuna-13b-v1.5')).toEqual(['fitted', 'fitted', 'fitted', 'transferred'])
    for (const model of [
      'Llama-2-70b-chat-hf',
      'CodeLlama-34b-Instruct-hf',
      'WizardLM-13B-V1.2',
      'Mistral-7B-Instruct-v0.2',
      'stablelm-tuned-alpha-7b',
      'Mixtral-8x7B-Instruct-v0.1',
    ])
      expect(new Set(basis(model))).toEqual(new Set(['transferred']))
    // Two GPUs are the fewest that hold 70 billion parameters.
    expect(A100_COSTS.models.filter(({ model }) => model === 'Llama-2-70b-chat-hf').map(({ tp }) => tp)).toEqual([
      2, 4, 8,
    ])
  })
})
