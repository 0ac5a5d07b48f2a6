import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  BYTES_PER_TOKEN_DEFAULT,
  BYTES_PER_TOKEN_MAX,
  BYTES_PER_TOKEN_MIN,
  estimatePromptTokens,
  learnBytesPerToken,
  utf8Bytes,
} from './prompt-estimate.ts'

describe('the estimate', () => {
  it('is bytes by the learned ratio, by the default before any is known, and at least 1', () => {
    expect(estimatePromptTokens(2048 * BYTES_PER_TOKEN_DEFAULT, null)).toBe(2048)
    expect(estimatePromptTokens(2048 * BYTES_PER_TOKEN_DEFAULT + 1, null)).toBe(2049)
    expect(estimatePromptTokens(9000, 3)).toBe(3000)
    expect(estimatePromptTokens(0, null)).toBe(1)
  })

  it('keeps an absurd ratio within its bounds', () => {
    expect(estimatePromptTokens(1600, 1e9)).toBe(1600 / BYTES_PER_TOKEN_MAX)
    expect(estimatePromptTokens(1600, 0)).toBe(1600 / BYTES_PER_TOKEN_MIN)
  })
})

describe('the ratio', () => {
  it('is the first measurement, then moves a twentieth of the way', () => {
    const first = learnBytesPerToken(null, { prompt_bytes: 300, prompt_tokens: 100 })
    expect(first).toBe(3)
    expect(learnBytesPerToken(first, { prompt_bytes: 500, prompt_tokens: 100 })).toBeCloseTo(3.1, 10)
  })

  it('does not learn from nothing', () => {
    expect(learnBytesPerToken(3, { prompt_bytes: 0, prompt_tokens: 5 })).toBe(3)
    expect(learnBytesPerToken(null, { prompt_bytes: 5, prompt_tokens: 0 })).toBeNull()
  })

  it('comes to what is measured', () => {
    let ratio: number | null = 4
    for (let call = 0; call < 200; call += 1)
      ratio = learnBytesPerToken(ratio, { prompt_bytes: 250, prompt_tokens: 100 })
    expect(ratio).toBeCloseTo(2.5, 3)
  })
})

it('counts UTF-8 bytes as an encoder does, lone surrogates included', () => {
  const encoder = new TextEncoder()
  fc.assert(
    fc.property(fc.array(fc.nat(0xffff)), (units) => {
      const text = String.fromCharCode(...units)
      expect(utf8Bytes(text)).toBe(encoder.encode(text).length)
    }),
  )
  expect(utf8Bytes('aé€😀')).toBe(1 + 2 + 3 + 4)
  // Longer than what is encoded at once, so that pieces end inside of pairs.
  for (const text of ['a', 'é', 'a€', 'a😀', '😀', '\ud800', 'a\udc00']) {
    const long = text.repeat(20_001)
    expect(utf8Bytes(long)).toBe(encoder.encode(long).length)
  }
})
