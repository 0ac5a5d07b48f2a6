/**
 * How much calls of this engine write, by what its model says of their prompts (LAMPS §4.2; src/core/tools/length-learner.ts).
 * Prompts are read before their calls run (read-prompt.ts): one in READ_EVERY to learn from, and all of them while the
 * classifier is better than the quantiles of the classes.
 *
 * Training takes seconds of this process. It is done batch by batch with pauses, so that the engine's steps wait for one batch
 * at most (10 ms with 576 components), and the engine loses about a tenth of its time meanwhile.
 */
import type { CallForecast } from '../../../../../src/core/call/forecast.ts'
import { LengthClassifier, meanTokens } from '../../../../../src/core/tools/length-classifier.ts'
import { LengthLearner, type LengthVerdict } from '../../../../../src/core/tools/length-learner.ts'

/** Reading costs a copy of the prompt's KV and a decode: 12 ms at 10 tokens, 40 ms at 600. */
export const READ_EVERY = 4
/** Longer prompts are not read. */
export const READ_TOKENS_MAX = 1024
const BATCH_PAUSE_MS = 50

export interface PromptLengthsOptions {
  /** Uniform in [0, 1); shuffles what is learned from. */
  random: () => number
  /** A classifier was trained and judged. */
  told: (verdict: LengthVerdict) => void
  batch_pause_ms?: number
}

export class PromptLengths {
  readonly #options: PromptLengthsOptions
  readonly #learner = new LengthLearner()
  #calls = 0
  #timer: NodeJS.Timeout | null = null

  constructor(options: PromptLengthsOptions) {
    this.#options = options
  }

  /** Whether the call's prompt is to be read before it runs. */
  wants(prompt_tokens: number): boolean {
    if (prompt_tokens > READ_TOKENS_MAX) return false
    this.#calls += 1
    return this.#learner.classifier !== null || this.#calls % READ_EVERY === 0
  }

  /** The forecast, with the length that the classifier says while it is in use. */
  forecast(forecast: CallForecast, embedding: Float32Array): CallForecast {
    const { classifier } = this.#learner
    if (classifier === null) return forecast
    return { ...forecast, output_tokens: meanTokens(classifier.probabilities(embedding)) }
  }

  /** A call whose prompt was read has been answered. `told_tokens`: what its class said. Null: nothing. */
  answered(embedding: Float32Array, tokens: number, told_tokens: number | null): void {
    this.#learner.saw({ embedding, tokens, told_tokens })
    if (this.#timer !== null) return
    const samples = this.#learner.toTrain()
    if (samples === null) return
    const training = LengthClassifier.training(samples, this.#options.random)
    this.#go(training, samples.length)
  }

  stop(): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
  }

  #go(training: Generator<void, LengthClassifier>, learned_from: number): void {
    this.#timer = setTimeout(() => {
      const step = training.next()
      if (!step.done) {
        this.#go(training, learned_from)
        return
      }
      this.#timer = null
      this.#options.told(this.#learner.trained(step.value, learned_from))
    }, this.#options.batch_pause_ms ?? BATCH_PAUSE_MS).unref()
  }
}
