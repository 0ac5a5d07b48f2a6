import { expect, test } from 'vitest'
import { seededRandom } from '../random.ts'
import { fitError, fitNonNegative, predict, type Sample } from './least-squares.ts'

const TRUE = [500, 3, 0, 40]

function samples(noise: (random: () => number) => number): Sample[] {
  const random = seededRandom(4)
  return Array.from({ length: 600 }, () => {
    const features = [1, Math.floor(random() * 5000), random() * 100, Math.floor(random() * 60)]
    return { features, measured: predict(TRUE, features) * noise(random) }
  })
}

test('exact measurements give the coefficients, none of them negative, one in twenty stalled', () => {
  const stalled = samples((random) => (random() < 0.05 ? 8 : 1))
  const fitted = fitNonNegative(stalled, 4)
  for (const [i, value] of TRUE.entries()) {
    expect(fitted[i]).toBeGreaterThanOrEqual(0)
    expect(Math.abs((fitted[i] ?? 0) - value)).toBeLessThan(Math.max(0.1, 0.03 * value))
  }
})

test('relative to the prediction, noise of a factor up to 2 either way does not bias', () => {
  const noisy = samples((random) => 2 ** (2 * random() - 1))
  const ratio = (fitted: readonly number[]) =>
    noisy.reduce((sum, { features }) => sum + predict(fitted, features) / predict(TRUE, features), 0) / noisy.length
  expect(Math.abs(ratio(fitNonNegative(noisy, 4, 'predicted')) - 1)).toBeLessThan(0.06)
  expect(ratio(fitNonNegative(noisy, 4))).toBeLessThan(0.9)
})

test('an error is a percentage of what was measured', () => {
  const error = fitError([110, 95, 100, 140].map((predicted) => ({ predicted, measured: 100 })))
  expect(error.rows).toBe(4)
  expect(error.mean_abs_percent).toBeCloseTo(13.75)
  expect(error.p95_abs_percent).toBeCloseTo(40)
})
