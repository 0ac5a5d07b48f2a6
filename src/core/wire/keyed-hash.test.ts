import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ENCODED_UNITS_MIN, KeyedHash, PIECE_UNITS } from './keyed-hash.ts'

const of = (texts: readonly string[], key: readonly [number, number] = [1, 2]) => {
  const hash = new KeyedHash(key)
  for (const text of texts) hash.text(text)
  return hash.digest()
}

it('is the same for the same texts, however it was used before', () => {
  const hash = new KeyedHash([1, 2])
  const first = hash
    .text('a')
    .number(2 ** 52 + 1)
    .digest()
  hash.text('something else').digest()
  expect(
    hash
      .text('a')
      .number(2 ** 52 + 1)
      .digest(),
  ).toBe(first)
})

it('is a positive safe integer that differs by text, by key and by where one text ends', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), fc.string({ unit: 'binary' }), (one, other) => {
      const hash = of([one, other])
      expect(Number.isSafeInteger(hash) && hash > 0).toBe(true)
      expect(hash).not.toBe(of([one, other], [1, 3]))
      if (one !== other) expect(of([one])).not.toBe(of([other]))
      if (one !== '') expect(hash).not.toBe(of(['', one + other]))
    }),
  )
})

it('hashes a range as the text that it holds', () => {
  expect(new KeyedHash([1, 2]).text('xabcx', 1, 4).digest()).toBe(of(['abc']))
})

it('gives the hash of what was added so far without an effect on the rest', () => {
  const hash = new KeyedHash([1, 2])
  const first = hash.text('a').soFar()
  expect(first).toBe(of(['a']))
  expect(hash.soFar()).toBe(first)
  expect(hash.text('b').digest()).toBe(of(['a', 'b']))
})

describe('a long text', () => {
  const lengths = [ENCODED_UNITS_MIN - 1, ENCODED_UNITS_MIN, PIECE_UNITS - 1, PIECE_UNITS, PIECE_UNITS + 1, 50_000]

  it.each(lengths)('of %i units differs by each of its units, its length and its end', (length) => {
    const text = 'x'.repeat(length)
    const changed = [0, 1, length - 2, length - 1, PIECE_UNITS - 1, PIECE_UNITS].filter((at) => at < length)
    const others = changed.map((at) => `${text.slice(0, at)}y${text.slice(at + 1)}`)
    const ends = [`${text}x`, `${text}\0`, text.slice(1), `${text.slice(1)}\0`, `\0${text.slice(1)}`]
    const hashes = new Set([text, ...others, ...ends].map((one) => of([one])))
    expect(hashes.size).toBe(1 + new Set(others).size + ends.length)
  })

  it('is the text that a range holds, and no text beside another', () => {
    const text = 'x'.repeat(PIECE_UNITS) + 'y'.repeat(100)
    expect(new KeyedHash([1, 2]).text(`ab${text}c`, 2, text.length + 2).digest()).toBe(of([text]))
    expect(of([text.slice(0, PIECE_UNITS), text.slice(PIECE_UNITS)])).not.toBe(of([text]))
    expect(of([text, text])).not.toBe(of([text]))
  })

  it('keeps characters whole where it is cut into pieces', () => {
    const before = 'x'.repeat(PIECE_UNITS - 1)
    expect(of([`${before}\u{1f600}${before}`])).not.toBe(of([`${before}\u{1f601}${before}`]))
    expect(of([`${before}\u{1f600}${before}`])).not.toBe(of([`${before}\u{2f600}${before}`]))
  })
})

it('has no collisions among many short texts, and spreads them over shards', () => {
  const hashes = Array.from({ length: 20_000 }, (_, index) => of([`message ${index}`]))
  expect(new Set(hashes).size).toBe(hashes.length)
  const shards = new Array(8).fill(0)
  for (const hash of hashes) shards[hash % 8] += 1
  for (const count of shards) expect(Math.abs(count - hashes.length / 8)).toBeLessThan(250)
})
