import { expect, it } from 'vitest'
import { learnedLengths, MODEL_ANSWERS_MIN, NODE_ANSWERS_MIN } from './learned-lengths.ts'
import {
  type Answer,
  answersIn,
  LENGTH_BINS_MAX,
  LengthSketch,
  lengthsOf,
  meanUnder,
  mergedLengths,
  NO_LENGTHS,
  withAnswers,
} from './output-lengths.ts'

const answers = (lengths: readonly number[], limit = Number.POSITIVE_INFINITY): Answer[] =>
  lengths.map((tokens) => ({ output_tokens: Math.min(tokens, limit), is_cut: tokens >= limit }))
/** 1, 2, …, in an order of its own. */
const counted = (to: number) => Array.from({ length: to }, (_, at) => ((at * 37) % to) + 1)
const lengths = (given: readonly Answer[]) => {
  const found = lengthsOf(withAnswers(NO_LENGTHS, given))
  if (found === null) throw new Error('nothing is known')
  return found
}

it('has the quantiles of what was answered within a bin, and its mean', () => {
  const { quantiles, mean_tokens } = lengths(answers(counted(400)))
  expect(mean_tokens).toBeCloseTo(200.5, 1)
  for (const percent of [5, 25, 50, 75, 95])
    expect(Math.abs((quantiles[percent] ?? 0) / (4 * percent) - 1), `${percent} %`).toBeLessThan(0.1)
  expect(quantiles.every((tokens, at) => tokens >= (quantiles[at - 1] ?? 1))).toBe(true)
})

it('answers that all met the limit are of that length', () => {
  const { quantiles, mean_tokens } = lengths(answers(new Array(30).fill(80), 40))
  expect(mean_tokens).toBe(40)
  expect([quantiles[0] ?? 0, quantiles[100] ?? 0].every((tokens) => Math.abs(tokens / 40 - 1) < 0.15)).toBe(true)
})

it('a low limit hides nothing that answers with a higher one show', () => {
  // Half of the answers were cut at 100, and say only that they are longer.
  const { mean_tokens } = lengths([...answers(counted(400), 100), ...answers(counted(400))])
  expect(Math.abs(mean_tokens / 200.5 - 1)).toBeLessThan(0.05)
})

it('is the mean of min(X, max) under a limit', () => {
  const found = lengths(answers(counted(400)))
  expect(meanUnder(found, 1000)).toBe(found.mean_tokens)
  // 1 to 99, and 301 times 100.
  expect(Math.abs(meanUnder(found, 100) / ((99 * 50 + 301 * 100) / 400) - 1)).toBeLessThan(0.02)
})

it('is merged as if one had seen all, and stays bounded', () => {
  const some = counted(3000).map((tokens) => tokens ** 2)
  const parts = [some.slice(0, 500), some.slice(500)].map((part) => withAnswers(NO_LENGTHS, answers(part, 5_000_000)))
  const merged = mergedLengths(parts)
  expect(LengthSketch.parse(merged)).toEqual(merged)
  expect(answersIn(merged)).toBe(3000)
  expect(Math.max(merged.ended.length, merged.cut.length)).toBeLessThanOrEqual(LENGTH_BINS_MAX)
  const whole = lengths(answers(some, 5_000_000))
  expect(Math.abs((lengthsOf(merged)?.mean_tokens ?? 0) / whole.mean_tokens - 1)).toBeLessThan(0.01)
  expect(lengthsOf(NO_LENGTHS)).toBeNull()
})

const node = (content: string, max_tokens: number, model = 'm') => ({
  ...{ id: 'n', model, endpoint: '/v1/chat/completions' as const, requests: 'lines' as const, each: 1 },
  body: { messages: [{ role: 'user', content }], max_tokens },
})
const ran = (content: string, tokens: number, count: number) => ({
  node: node(content, 64),
  lengths: withAnswers(NO_LENGTHS, answers(new Array(count).fill(tokens))),
})

it('a node has the lengths of nodes that asked the same, and with too few answers those of its model', () => {
  const find = learnedLengths([
    ran('one word: {{q}}', 2, NODE_ANSWERS_MIN),
    ran('explain {{q}}', 50, NODE_ANSWERS_MIN - 1),
  ])
  expect(find(node('one word: {{q}}', 8))?.mean_tokens).toBeCloseTo(2, 5)
  const of_model = (2 * NODE_ANSWERS_MIN + 50 * (NODE_ANSWERS_MIN - 1)) / (2 * NODE_ANSWERS_MIN - 1)
  for (const content of ['explain {{q}}', 'never asked']) {
    expect(Math.abs((find(node(content, 64))?.mean_tokens ?? 0) / of_model - 1)).toBeLessThan(0.01)
  }
  expect(find(node('one word: {{q}}', 8, 'other'))).toBeNull()
  expect(learnedLengths([ran('x', 5, MODEL_ANSWERS_MIN - 1)])(node('y', 5))).toBeNull()
  expect(learnedLengths([ran('x', 5, MODEL_ANSWERS_MIN)])(node('y', 5))?.mean_tokens).toBeCloseTo(5, 5)
})
