import { expect, test } from 'vitest'
import { binScores, lengthScore } from './score.ts'

const exact = { told_tokens: 14.5, tokens: 14, words: 10 }
const far = { told_tokens: 14.5, tokens: 214, words: 150 }

test('accuracy counts what is within 5 and 15, in tokens and in words', () => {
  expect(lengthScore([exact, far], 0.7)).toEqual({
    answers: 2,
    ...{ acc5_tokens: 0.5, acc15_tokens: 0.5, mae_tokens: 100 },
    ...{ acc5_words: 0.5, acc15_words: 0.5, mae_words: expect.closeTo((0.15 + 139.85) / 2) },
    mae_short_tokens: 0.5,
  })
  const near = { told_tokens: 14.5, tokens: 29, words: 10 }
  expect(lengthScore([near], 1)).toMatchObject({ acc5_tokens: 0, acc15_tokens: 1, acc5_words: 1 })
})

test('bins are those of the real lengths, and the first eleven alone', () => {
  expect(binScores([exact, far])).toEqual([{ from_tokens: 10, answers: 1, acc5_tokens: 1, acc15_tokens: 1 }])
})
