/**
 * Learns from an engine's own answers how much calls write, by the classifier of length-classifier.ts, and says whether that
 * is better than what their classes say. Both are judged by the same answers, which no training has seen: one in HELD_OUT.
 * What is compared is what engines are told, the mean of either's distribution.
 *
 * It keeps the last SAMPLES_MAX answers, and trains again after so many further ones. The classifier is used only while it is
 * the better one by both the mean error and the share of answers within 15 tokens. Training is the caller's: it takes
 * seconds, and this keeps no clock.
 */
import { type LengthClassifier, type LengthSample, meanTokens } from './length-classifier.ts'

/** Embeddings of 576 numbers: 1.4 MB. */
export const SAMPLES_MAX = 600
/** Answers to learn from before the first training, and between two. */
export const TRAIN_EVERY = 120
/** One in so many answers is not learned from. */
export const HELD_OUT = 4
/** Fewer judge nothing. */
export const JUDGES_MIN = 25

export interface SeenAnswer extends LengthSample {
  /** What its class said of it before. Null: nothing. */
  told_tokens: number | null
}

/** Of answers that were held out. */
export interface LengthAccuracy {
  acc5: number
  acc15: number
  mae_tokens: number
}

export interface LengthVerdict {
  learned_from: number
  judged_by: number
  classifier: LengthAccuracy
  /** What engines are told without it. */
  quantiles: LengthAccuracy
  /** The classifier is better, and calls are told what it says. */
  in_use: boolean
}

export class LengthLearner {
  #learned: SeenAnswer[] = []
  #held_out: SeenAnswer[] = []
  #seen = 0
  #since_training = 0
  #classifier: LengthClassifier | null = null
  #verdict: LengthVerdict | null = null

  /** Null: none was trained, or it is not better. */
  get classifier(): LengthClassifier | null {
    return this.#verdict?.in_use === true ? this.#classifier : null
  }

  /** Null: nothing was trained yet. */
  get verdict(): LengthVerdict | null {
    return this.#verdict
  }

  /** Of which there are no more than SAMPLES_MAX, all together. */
  get samples(): number {
    return this.#learned.length + this.#held_out.length
  }

  /** An answer was written. */
  saw(answer: SeenAnswer): void {
    this.#seen += 1
    const kept = this.#seen % HELD_OUT === 0 ? this.#held_out : this.#learned
    kept.push(answer)
    const most = kept === this.#held_out ? SAMPLES_MAX / HELD_OUT : SAMPLES_MAX - SAMPLES_MAX / HELD_OUT
    if (kept.length > most) kept.shift()
    this.#since_training += 1
  }

  /** What to train with, if it is time. Null: it is not. */
  toTrain(): readonly LengthSample[] | null {
    if (this.#since_training < TRAIN_EVERY || this.#held_out.length < JUDGES_MIN) return null
    this.#since_training = 0
    return [...this.#learned]
  }

  /** It was trained with so many answers. */
  trained(classifier: LengthClassifier, learned_from: number): LengthVerdict {
    const judges = this.#held_out.filter(({ told_tokens }) => told_tokens !== null)
    const own = accuracyOf(judges.map((one) => [meanTokens(classifier.probabilities(one.embedding)), one.tokens]))
    const quantiles = accuracyOf(judges.map((one) => [one.told_tokens ?? 0, one.tokens]))
    const better = own.mae_tokens < quantiles.mae_tokens && own.acc15 > quantiles.acc15
    this.#classifier = classifier
    this.#verdict = {
      ...{ learned_from, judged_by: judges.length, classifier: own, quantiles },
      in_use: judges.length >= JUDGES_MIN && better,
    }
    return this.#verdict
  }
}

function accuracyOf(pairs: readonly (readonly [told_tokens: number, tokens: number])[]): LengthAccuracy {
  const errors = pairs.map(([told_tokens, tokens]) => Math.abs(told_tokens - tokens))
  const share = (most: number) => errors.filter((error) => error <= most).length / Math.max(1, errors.length)
  const sum = errors.reduce((total, error) => total + error, 0)
  return { acc5: share(5), acc15: share(15), mae_tokens: sum / Math.max(1, errors.length) }
}
