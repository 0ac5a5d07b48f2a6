import { expect, test } from 'vitest'
import { interval, isAbove, isBelow } from './interval.ts'

test('five samples: mean ± 2.776 s / √5', () => {
  // Of 1 to 5: s² = 2.5.
  const { mean, half_width, samples } = interval([1, 2, 3, 4, 5])
  expect(mean).toBe(3)
  expect(half_width).toBeCloseTo(2.776 * Math.sqrt(2.5 / 5), 10)
  expect(samples).toBe(5)
})

test('one sample has no interval, none has no mean', () => {
  expect(interval([7])).toEqual({ mean: 7, half_width: null, samples: 1 })
  expect(() => interval([])).toThrow(RangeError)
})

test('31 samples have the last tabled quantile, more the normal one', () => {
  const of = (count: number) => interval(Array.from({ length: count }, (_, at) => at % 2))
  const deviation = (count: number, ones: number) =>
    Math.sqrt(((ones * (count - ones)) / count / (count - 1)) * (1 / count))
  expect(of(31).half_width).toBeCloseTo(2.042 * deviation(31, 15), 10)
  expect(of(32).half_width).toBeCloseTo(1.96 * deviation(32, 16), 10)
})

test('below and above mean beyond doubt', () => {
  expect(isBelow({ mean: 0.9, half_width: 0.05, samples: 5 }, 1)).toBe(true)
  expect(isBelow({ mean: 0.9, half_width: 0.1, samples: 5 }, 1)).toBe(false)
  expect(isAbove({ mean: 1.1, half_width: 0.05, samples: 5 }, 1)).toBe(true)
  expect(isAbove({ mean: 1.1, half_width: 0.11, samples: 5 }, 1)).toBe(false)
  // A single sample within 2 % says nothing.
  expect(isBelow({ mean: 0.981, half_width: null, samples: 1 }, 1)).toBe(false)
  expect(isBelow({ mean: 0.979, half_width: null, samples: 1 }, 1)).toBe(true)
})
