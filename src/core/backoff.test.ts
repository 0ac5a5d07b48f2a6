import fc from 'fast-check'
import { expect, test } from 'vitest'
import { backoffMs } from './backoff.ts'

test('doubles from the least to the greatest wait and stays there', () => {
  const waits = [1, 2, 3, 4, 5, 1000].map((failures) => backoffMs(failures, { min_ms: 100, max_ms: 1000 }, 0.999_999))
  expect(waits).toEqual([100, 200, 400, 800, 1000, 1000])
})

test('property: never below half of the least nor above the greatest wait', () => {
  fc.assert(
    fc.property(fc.nat(), fc.double({ min: 0, max: 0.999, noNaN: true }), (failures, random) => {
      const wait_ms = backoffMs(failures, { min_ms: 100, max_ms: 5000 }, random)
      return wait_ms >= 50 && wait_ms <= 5000
    }),
  )
})
