import { expect, test } from 'vitest'
import { percentile } from './watch-page.ts'

test('a percentile of counted frames is the first one that so many frames do not exceed', () => {
  const frames = { 167: 94, 333: 1, 500: 5 }
  expect([percentile(frames, 0.5), percentile(frames, 0.95), percentile(frames, 1)]).toEqual([16.7, 33.3, 50])
  expect(percentile({}, 0.95)).toBe(0)
})
