import { describe, expect, it } from 'vitest'
import { type KnownTools, outputBySituation } from './forecast.ts'
import {
  BIN_TOKENS,
  binOf,
  LENGTH_BINS,
  LengthClassifier,
  type LengthSample,
  outputByPrompt,
  TRAINING,
  tokensOf,
} from './length-classifier.ts'

/** Uniform in [0, 1), the same for the same seed (Park and Miller). */
function seededRandom(seed: number): () => number {
  let state = seed + 1
  return () => {
    state = (state * 48_271) % 2_147_483_647
    return state / 2_147_483_647
  }
}

/** Two components of four say how long the answer is, and one is large for nothing. */
function drawn(count: number, seed: number): LengthSample[] {
  const random = seededRandom(seed)
  return Array.from({ length: count }, () => {
    const [long, list] = [random() < 0.5, random() < 0.5]
    const tokens = (long ? 200 : 30) + (list ? 100 : 0) + Math.floor(random() * 5)
    const noise = () => (random() - 0.5) / 10
    return { embedding: [1e3 + noise(), Number(long) + noise(), Number(list) + noise(), noise()], tokens }
  })
}

describe('bins', () => {
  it('have ten tokens each, and the last one all that is longer', () => {
    expect([0, 9, 10, 499, 500, 10_000].map(binOf)).toEqual([0, 0, 1, 49, 49, 49])
    expect([tokensOf(0), tokensOf(1)]).toEqual([4.5, 14.5])
    expect(LENGTH_BINS * BIN_TOKENS).toBe(500)
  })
})

describe('the classifier', () => {
  const config = { ...TRAINING, epochs: 100, rate: 0.02, decay: 0 }
  const classifier = LengthClassifier.train(drawn(400, 1), seededRandom(2), config)

  it('tells lengths apart that the embedding tells apart, also of prompts that it has not seen', () => {
    const near = drawn(100, 3).filter(
      ({ embedding, tokens }) => Math.abs(classifier.likeliestTokens(embedding) - tokens) <= 15,
    )
    expect(near.length).toBeGreaterThanOrEqual(98)
  })

  it('is sure of itself by shares that sum to 1', () => {
    const [sample] = drawn(1, 4)
    const shares = classifier.probabilities(sample?.embedding ?? [])
    expect(shares.reduce((sum, share) => sum + share, 0)).toBeCloseTo(1)
    expect(Math.max(...shares)).toBeGreaterThan(0.5)
  })

  it('gives the same for the same seed', () => {
    const again = LengthClassifier.train(drawn(400, 1), seededRandom(2), config)
    const [sample] = drawn(1, 5)
    const embedding = sample?.embedding ?? []
    expect(again.probabilities(embedding)).toEqual(classifier.probabilities(embedding))
  })

  it('refuses embeddings of another length', () => {
    expect(() => classifier.probabilities([1, 2])).toThrow(/another model/)
    const mixed = [...drawn(2, 6), { embedding: [1], tokens: 3 }]
    expect(() => LengthClassifier.train(mixed, seededRandom(1))).toThrow(/one length/)
    expect(() => LengthClassifier.train([], seededRandom(1))).toThrow(/one length/)
  })

  it('predicts for calls whose prompt is known, and leaves the others to what is known of their situation', () => {
    const predictor = outputByPrompt(classifier, outputBySituation)
    const known: KnownTools = { of_class: null, of_tenant: () => null }
    const situation = { position: 0, last: null, offered: null, expect_tool_us: null }
    const prompt_embedding = [1e3, 1, 0, 0]
    expect(predictor.outputTokens({ ...situation, prompt_embedding }, known)?.mean).toBeCloseTo(204.5, -1)
    expect(predictor.outputTokens(situation, known)).toBeNull()
  })
})
