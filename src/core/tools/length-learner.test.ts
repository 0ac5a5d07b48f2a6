import { describe, expect, it } from 'vitest'
import { LengthClassifier, TRAINING } from './length-classifier.ts'
import { HELD_OUT, JUDGES_MIN, LengthLearner, SAMPLES_MAX, type SeenAnswer, TRAIN_EVERY } from './length-learner.ts'

/** Uniform in [0, 1), the same for the same seed (Park and Miller). */
function seededRandom(seed: number): () => number {
  let state = seed + 1
  return () => {
    state = (state * 48_271) % 2_147_483_647
    return state / 2_147_483_647
  }
}

/**
 * Many components of its embedding say whether it is short or long, as in those of models. `told_tokens`: what its class says.
 */
function answer(index: number, told_tokens: number | null): SeenAnswer {
  const long = Math.floor(index / HELD_OUT) % 2
  const embedding = Array.from({ length: 64 }, (_, at) => (at + long) % 2)
  return { embedding, tokens: long === 1 ? 200 : 20, told_tokens }
}

function saw(learner: LengthLearner, answers: number, toldOf: (index: number) => number | null): void {
  for (let index = 0; index < answers; index++) learner.saw(answer(index, toldOf(index)))
}

const ENOUGH = Math.max(TRAIN_EVERY, HELD_OUT * JUDGES_MIN)
const train = (samples: readonly SeenAnswer[] | ReturnType<LengthLearner['toTrain']>) =>
  LengthClassifier.train(samples ?? [], seededRandom(1), { ...TRAINING, epochs: 60, rate: 0.02, decay: 0 })

describe('what is learned of lengths', () => {
  it('begins once there are answers to learn from and others to judge by, and again after as many', () => {
    const learner = new LengthLearner()
    saw(learner, ENOUGH - 1, () => 110)
    expect(learner.toTrain()).toBeNull()
    learner.saw(answer(0, 110))
    expect(learner.toTrain()).toHaveLength(ENOUGH - Math.floor(ENOUGH / HELD_OUT))
    expect(learner.toTrain()).toBeNull()
    saw(learner, TRAIN_EVERY, () => 110)
    expect(learner.toTrain()).not.toBeNull()
  })

  it('is bounded', () => {
    const learner = new LengthLearner()
    saw(learner, 3 * SAMPLES_MAX, () => 110)
    expect(learner.samples).toBe(SAMPLES_MAX)
    expect(learner.toTrain()).toHaveLength(SAMPLES_MAX - SAMPLES_MAX / HELD_OUT)
  })

  it('is used where it is better than what classes say, by answers that it has not learned from', () => {
    const learner = new LengthLearner()
    saw(learner, ENOUGH, () => 110)
    const classifier = train(learner.toTrain())
    expect(learner.classifier).toBeNull()
    const verdict = learner.trained(classifier, 90)
    expect(verdict).toMatchObject({ learned_from: 90, judged_by: Math.floor(ENOUGH / HELD_OUT), in_use: true })
    expect(verdict.quantiles).toEqual({ acc5: 0, acc15: 0, mae_tokens: 90 })
    expect(verdict.classifier.acc15).toBe(1)
    expect(verdict.classifier.mae_tokens).toBeLessThan(15)
    expect(learner.classifier).toBe(classifier)
    expect(learner.verdict).toBe(verdict)
  })

  it('is not used where classes say as much, nor any longer once they do', () => {
    const learner = new LengthLearner()
    saw(learner, ENOUGH, () => 110)
    learner.trained(train(learner.toTrain()), 90)
    expect(learner.classifier).not.toBeNull()
    saw(learner, SAMPLES_MAX, (index) => answer(index, null).tokens)
    expect(learner.trained(train(learner.toTrain()), 450)).toMatchObject({ in_use: false, quantiles: { acc15: 1 } })
    expect(learner.classifier).toBeNull()
  })

  it('is not used where nothing is told to compare it with', () => {
    const learner = new LengthLearner()
    saw(learner, ENOUGH, () => null)
    expect(learner.trained(train(learner.toTrain()), 90)).toMatchObject({ judged_by: 0, in_use: false })
  })
})
