import { expect, it } from 'vitest'
import { canonicalJson } from './canonical-json.ts'

it('is the same for the same value, and keeps the order of arrays', () => {
  expect(canonicalJson({ b: [{ d: 1, c: null }], a: 'x' })).toBe('{"a":"x","b":[{"c":null,"d":1}]}')
  expect(canonicalJson([2, 1])).not.toBe(canonicalJson([1, 2]))
})
