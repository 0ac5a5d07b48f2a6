import { expect, test } from 'vitest'
import { CONCURRENT_MAX } from '../../../../engine/queue/limits/limit-spec.ts'
import { Overload } from './overload.ts'

const S = 1_000_000

test('an overload leaves fewer calls at once, many refusals of it count once, and the number grows again', () => {
  const overload = new Overload(null)
  expect(overload.limit(0)).toBe(CONCURRENT_MAX)
  overload.refused(20, 10 * S)
  overload.refused(19, 10.5 * S)
  expect(overload.limit(10.5 * S)).toBe(14)
  expect(overload.limit(12 * S)).toBe(15)
  expect(overload.limit(60 * S)).toBeGreaterThan(30)
  expect(overload.limit(3600 * S)).toBe(CONCURRENT_MAX)
})

test('at least one call goes, and never more than the operator allows', () => {
  const overload = new Overload(8)
  for (let second = 10; second < 40; second += 1.5) overload.refused(1, second * S)
  expect(overload.limit(39 * S)).toBe(1)
  expect(overload.limit(3600 * S)).toBe(8)
})
