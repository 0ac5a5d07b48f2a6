/**
 * What a call's penalties and biases do to the logits of its next token, in the library's terms. They come before the
 * sampling filters, as in vLLM and llama.cpp's own server.
 *
 * llama.cpp's penalties sampler counts one list of tokens for all three penalties. Repetition looks at prompt and output,
 * frequency and presence at the output alone (as in OpenAI's API and vLLM). So the sampler gets the distinct tokens of both for
 * repetition, and the other two are added up as biases. Counting goes on from where it was, so a whole output is counted once.
 */
import type { LlamaModel, SequenceEvaluateOptions, Token } from 'node-llama-cpp'
import { TokenBias } from 'node-llama-cpp'
import type { Sampling } from '../../types.ts'

const NO_TOKENS: ReadonlySet<number> = new Set()

/** Beyond any difference of logits. */
const FORCING_BIAS = 1e9

type Adjustments = Pick<SequenceEvaluateOptions, 'tokenBias' | 'repeatPenalty'>

export class TokenAdjustments {
  readonly #model: LlamaModel
  readonly #sampling: Sampling
  readonly #prompt_tokens: number
  readonly #generated = new Map<number, number>()
  readonly #met = new Set<number>()
  #counted = 0

  constructor(model: LlamaModel, sampling: Sampling, prompt_tokens: number) {
    this.#model = model
    this.#sampling = sampling
    this.#prompt_tokens = prompt_tokens
  }

  /** For the token after `tokens`: the call's prompt and its output so far. */
  of(tokens: readonly number[]): Adjustments {
    this.#count(tokens)
    const biases = this.#biases(tokens)
    const adjustments: Adjustments = {}
    if (biases.size > 0) adjustments.tokenBias = tokenBias(this.#model, biases)
    const { repetition_penalty: penalty = 1 } = this.#sampling
    if (penalty !== 1) {
      adjustments.repeatPenalty = {
        punishTokens: [...this.#met] as Token[],
        penalty,
        frequencyPenalty: 0,
        presencePenalty: 0,
      }
    }
    return adjustments
  }

  #count(tokens: readonly number[]): void {
    for (; this.#counted < tokens.length; this.#counted++) {
      const token = tokens[this.#counted] as number
      this.#met.add(token)
      if (this.#counted >= this.#prompt_tokens) this.#generated.set(token, (this.#generated.get(token) ?? 0) + 1)
    }
  }

  #biases(tokens: readonly number[]): Map<number, number> {
    const { frequency_penalty = 0, presence_penalty = 0, logit_bias, bad_words = [] } = this.#sampling
    const biases = new Map(logit_bias)
    if (frequency_penalty !== 0 || presence_penalty !== 0) {
      for (const [token, times] of this.#generated) {
        biases.set(token, (biases.get(token) ?? 0) - times * frequency_penalty - presence_penalty)
      }
    }
    for (const token of this.#barred(tokens.length - this.#prompt_tokens)) biases.set(token, Number.NEGATIVE_INFINITY)
    for (const word of bad_words) {
      const last = word.at(-1)
      if (last !== undefined && endsWith(tokens, this.#prompt_tokens, word)) biases.set(last, Number.NEGATIVE_INFINITY)
    }
    return biases
  }

  /** What would end the call and must not yet. */
  *#barred(generated: number): Generator<number> {
    const { min_tokens = 0, ignore_eos = false, stop_tokens = NO_TOKENS } = this.#sampling
    const early = generated < min_tokens
    if (early) yield* stop_tokens
    if (!early && !ignore_eos) return
    for (const token of endTokens(this.#model)) if (!stop_tokens.has(token)) yield token
  }
}

/** Whether `tokens` from `start` on end in all of `word` but its last token. */
function endsWith(tokens: readonly number[], start: number, word: readonly number[]): boolean {
  const at = tokens.length - (word.length - 1)
  return at >= start && word.slice(0, -1).every((token, index) => tokens[at + index] === token)
}

/** Makes a sampler draw `token` and no other. */
export function forced(model: LlamaModel, token: number): TokenBias {
  return tokenBias(model, new Map([[token, FORCING_BIAS]]))
}

/** The library's biases. Its own setter drops those of tokens that end generation, which clients may bias too. */
function tokenBias(model: LlamaModel, biases: ReadonlyMap<number, number>): TokenBias {
  const bias = TokenBias.for(model)
  const own: unknown = Reflect.get(bias, '_biases')
  if (!(own instanceof Map)) throw new Error('this version of node-llama-cpp keeps biases in an unknown way')
  for (const [token, value] of biases) own.set(token, value)
  return bias
}

const END_TOKENS = new WeakMap<LlamaModel, readonly number[]>()

function endTokens(model: LlamaModel): readonly number[] {
  let tokens = END_TOKENS.get(model)
  if (tokens === undefined) {
    tokens = [...model.iterateAllTokens()].filter((token) => model.isEogToken(token))
    END_TOKENS.set(model, tokens)
  }
  return tokens
}
