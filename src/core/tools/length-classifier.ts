/**
 * LAMPS' predictor of how much a call writes (§4.2, §5): what the model says of the last token of a prompt (its embedding) goes
 * through one linear layer to bins of ten tokens, trained by cross-entropy. Pure: the shuffle's randomness is passed in.
 *
 *     p(bin | embedding) = softmax(W · (embedding − mean) ÷ deviation + b)
 *
 * Each component is centred and scaled as in the training set, since a few components of a model's last layer are a hundred
 * times as large as the others. Trained by Adam (Kingma and Ba 2015) with decoupled weight decay.
 */
import { LogSketch } from '../classes/log-sketch.ts'
import type { CallSituation, OutputPredictor } from './forecast.ts'

export const LENGTH_BINS = 50
/** The last bin has what is longer. */
export const BIN_TOKENS = 10

export interface LengthSample {
  embedding: ArrayLike<number>
  tokens: number
}

export interface TrainingConfig {
  epochs: number
  batch: number
  rate: number
  /** Of each weight, at every step and in proportion to the rate. */
  decay: number
}

export const TRAINING: TrainingConfig = { epochs: 40, batch: 32, rate: 0.002, decay: 0.3 }

const BETA1 = 0.9
const BETA2 = 0.999
const EPSILON = 1e-8

export function binOf(tokens: number): number {
  return Math.min(LENGTH_BINS - 1, Math.floor(tokens / BIN_TOKENS))
}

/** The middle of a bin's whole numbers. */
export function tokensOf(bin: number): number {
  return bin * BIN_TOKENS + (BIN_TOKENS - 1) / 2
}

/** What a distribution over bins says of a length. */
export function meanTokens(shares: ArrayLike<number>): number {
  let sum = 0
  for (let bin = 0; bin < LENGTH_BINS; bin++) sum += tokensOf(bin) * (shares[bin] as number)
  return sum
}

export class LengthClassifier {
  readonly #mean: Float64Array
  readonly #scale: Float64Array
  /** A row for each bin, with its bias last. */
  readonly #weights: Float64Array

  /** `samples` have embeddings of one length; there is at least one. `random`: uniform in [0, 1). */
  static train(
    samples: readonly LengthSample[],
    random: () => number,
    config: TrainingConfig = TRAINING,
  ): LengthClassifier {
    const training = LengthClassifier.training(samples, random, config)
    for (let step = training.next(); ; step = training.next()) if (step.done) return step.value
  }

  /** As `train`, batch by batch, for those who have other work between batches. */
  static *training(
    samples: readonly LengthSample[],
    random: () => number,
    config: TrainingConfig = TRAINING,
  ): Generator<void, LengthClassifier> {
    const { mean, scale } = normalisation(samples)
    const width = mean.length + 1
    const classifier = new LengthClassifier(mean, scale, new Float64Array(LENGTH_BINS * width))
    const inputs = samples.map(({ embedding }) => classifier.#input(embedding))
    const bins = samples.map(({ tokens }) => binOf(tokens))
    const adam = new Adam(classifier.#weights, width, config)
    const order = samples.map((_, index) => index)
    for (let epoch = 0; epoch < config.epochs; epoch++) {
      shuffle(order, random)
      for (let from = 0; from < order.length; from += config.batch) {
        const batch = order.slice(from, from + config.batch)
        const gradient = new Float64Array(classifier.#weights.length)
        for (const index of batch) {
          const input = inputs[index] as Float64Array
          const shares = classifier.#softmax(input)
          for (let bin = 0; bin < LENGTH_BINS; bin++) {
            const error = ((shares[bin] as number) - Number(bin === bins[index])) / batch.length
            for (let at = 0; at < width; at++) (gradient[bin * width + at] as number) += error * (input[at] as number)
          }
        }
        adam.step(gradient)
        yield
      }
    }
    return classifier
  }

  private constructor(mean: Float64Array, scale: Float64Array, weights: Float64Array) {
    this.#mean = mean
    this.#scale = scale
    this.#weights = weights
  }

  /** Of each bin; they sum to 1. */
  probabilities(embedding: ArrayLike<number>): Float64Array {
    if (embedding.length !== this.#mean.length) throw new RangeError('the embedding is of another model')
    return this.#softmax(this.#input(embedding))
  }

  /** The middle of the likeliest bin, as in the paper. */
  likeliestTokens(embedding: ArrayLike<number>): number {
    const shares = this.probabilities(embedding)
    let best = 0
    for (let bin = 1; bin < LENGTH_BINS; bin++) if ((shares[bin] as number) > (shares[best] as number)) best = bin
    return tokensOf(best)
  }

  #input(embedding: ArrayLike<number>): Float64Array {
    const input = new Float64Array(this.#mean.length + 1)
    for (let at = 0; at < this.#mean.length; at++)
      input[at] = ((embedding[at] as number) - (this.#mean[at] as number)) / (this.#scale[at] as number)
    input[this.#mean.length] = 1
    return input
  }

  #softmax(input: Float64Array): Float64Array {
    const width = input.length
    const shares = new Float64Array(LENGTH_BINS)
    let highest = Number.NEGATIVE_INFINITY
    for (let bin = 0; bin < LENGTH_BINS; bin++) {
      let logit = 0
      for (let at = 0; at < width; at++) logit += (this.#weights[bin * width + at] as number) * (input[at] as number)
      shares[bin] = logit
      highest = Math.max(highest, logit)
    }
    let sum = 0
    for (let bin = 0; bin < LENGTH_BINS; bin++) {
      shares[bin] = Math.exp((shares[bin] as number) - highest)
      sum += shares[bin] as number
    }
    for (let bin = 0; bin < LENGTH_BINS; bin++) (shares[bin] as number) /= sum
    return shares
  }
}

/** By the classifier where the situation has an embedding, and by `otherwise` where it has none. */
export function outputByPrompt(classifier: LengthClassifier, otherwise: OutputPredictor): OutputPredictor {
  return {
    outputTokens: (situation: CallSituation, known) => {
      const { prompt_embedding = null } = situation
      if (prompt_embedding === null) return otherwise.outputTokens(situation, known)
      const sketch = new LogSketch()
      for (const [bin, share] of classifier.probabilities(prompt_embedding).entries()) sketch.add(tokensOf(bin), share)
      return sketch
    },
  }
}

class Adam {
  readonly #weights: Float64Array
  readonly #width: number
  readonly #config: TrainingConfig
  readonly #first: Float64Array
  readonly #second: Float64Array
  #steps = 0

  /** The last weight of each `width` is a bias, which does not decay. */
  constructor(weights: Float64Array, width: number, config: TrainingConfig) {
    this.#weights = weights
    this.#width = width
    this.#config = config
    this.#first = new Float64Array(weights.length)
    this.#second = new Float64Array(weights.length)
  }

  step(gradient: Float64Array): void {
    this.#steps += 1
    const { rate, decay } = this.#config
    const [first_left, second_left] = [1 - BETA1 ** this.#steps, 1 - BETA2 ** this.#steps]
    for (let at = 0; at < gradient.length; at++) {
      const slope = gradient[at] as number
      const first = BETA1 * (this.#first[at] as number) + (1 - BETA1) * slope
      const second = BETA2 * (this.#second[at] as number) + (1 - BETA2) * slope * slope
      this.#first[at] = first
      this.#second[at] = second
      const weight = this.#weights[at] as number
      const is_bias = at % this.#width === this.#width - 1
      const decayed = is_bias ? weight : weight * (1 - rate * decay)
      this.#weights[at] = decayed - (rate * (first / first_left)) / (Math.sqrt(second / second_left) + EPSILON)
    }
  }
}

function normalisation(samples: readonly LengthSample[]): { mean: Float64Array; scale: Float64Array } {
  const size = samples[0]?.embedding.length ?? 0
  if (size === 0 || samples.some(({ embedding }) => embedding.length !== size)) {
    throw new RangeError('a classifier is trained with embeddings of one length')
  }
  const mean = new Float64Array(size)
  const scale = new Float64Array(size)
  for (const { embedding } of samples)
    for (let at = 0; at < size; at++) (mean[at] as number) += (embedding[at] as number) / samples.length
  for (const { embedding } of samples)
    for (let at = 0; at < size; at++)
      (scale[at] as number) += ((embedding[at] as number) - (mean[at] as number)) ** 2 / samples.length
  // A component that never differs says nothing.
  for (let at = 0; at < size; at++) scale[at] = Math.sqrt(scale[at] as number) || 1
  return { mean, scale }
}

function shuffle(order: number[], random: () => number): void {
  for (let last = order.length - 1; last > 0; last--) {
    const at = Math.floor(random() * (last + 1))
    const kept = order[last] as number
    order[last] = order[at] as number
    order[at] = kept
  }
}
