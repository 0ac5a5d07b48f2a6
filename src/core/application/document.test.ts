import fc from 'fast-check'
import { expect, it } from 'vitest'
import { chunksOf } from './document.ts'

it('cuts at paragraphs, lines and words, in this order', () => {
  expect(chunksOf('one two\n\nthree four', 12)).toEqual(['one two\n\n', 'three four'])
  expect(chunksOf('one two\nthree four', 12)).toEqual(['one two\n', 'three four'])
  expect(chunksOf('one two three', 9)).toEqual(['one two ', 'three'])
  expect(chunksOf('abcdefgh', 3)).toEqual(['abc', 'def', 'gh'])
  expect(chunksOf('', 3)).toEqual([])
})

it('loses nothing, exceeds nothing and tears no character', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), fc.integer({ min: 2, max: 20 }), (text, chars_max) => {
      const chunks = chunksOf(text, chars_max)
      expect(chunks.join('')).toBe(text)
      for (const chunk of chunks) {
        expect(chunk.length).toBeGreaterThan(0)
        expect(chunk.length).toBeLessThanOrEqual(chars_max)
        expect(chunk.isWellFormed()).toBe(text.isWellFormed() || chunk.isWellFormed())
      }
    }),
  )
})
