/** How far predicted lengths are from real ones, in tokens and in words, over all answers and by bin (LAMPS §6.4, table 3). */
import { BIN_TOKENS, binOf } from '../../../src/core/tools/length-classifier.ts'

export interface Predicted {
  told_tokens: number
  tokens: number
  words: number
}

export interface LengthScore {
  answers: number
  acc5_tokens: number
  acc15_tokens: number
  mae_tokens: number
  acc5_words: number
  acc15_words: number
  mae_words: number
  /** Of answers of up to 200 tokens. */
  mae_short_tokens: number
}

export interface BinScore {
  /** Answers of at least so many tokens, and fewer than BIN_TOKENS more. */
  from_tokens: number
  answers: number
  acc5_tokens: number
  acc15_tokens: number
}

const SHORT_TOKENS = 200
const BINS_SHOWN = 11

/** `words_per_token`: of the training set. A predicted number of tokens is so many words. */
export function lengthScore(all: readonly Predicted[], words_per_token: number): LengthScore {
  const tokens = all.map((one) => Math.abs(one.told_tokens - one.tokens))
  const words = all.map((one) => Math.abs(one.told_tokens * words_per_token - one.words))
  const short = all.flatMap((one, index) => (one.tokens < SHORT_TOKENS ? (tokens[index] as number) : []))
  return {
    answers: all.length,
    ...{ acc5_tokens: within(tokens, 5), acc15_tokens: within(tokens, 15), mae_tokens: mean(tokens) },
    ...{ acc5_words: within(words, 5), acc15_words: within(words, 15), mae_words: mean(words) },
    mae_short_tokens: mean(short),
  }
}

/** The first bins, those without an answer left out. */
export function binScores(all: readonly Predicted[]): BinScore[] {
  const bins = Map.groupBy(all, ({ tokens }) => binOf(tokens))
  return [...bins]
    .filter(([bin]) => bin < BINS_SHOWN)
    .sort(([a], [b]) => a - b)
    .map(([bin, of]) => {
      const errors = of.map((one) => Math.abs(one.told_tokens - one.tokens))
      const own = { from_tokens: bin * BIN_TOKENS, answers: of.length }
      return { ...own, acc5_tokens: within(errors, 5), acc15_tokens: within(errors, 15) }
    })
}

function within(errors: readonly number[], bound: number): number {
  return mean(errors.map((error) => Number(error <= bound)))
}

function mean(values: readonly number[]): number {
  return values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length
}
