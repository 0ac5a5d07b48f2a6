import { expect, test } from 'vitest'
import { throughputAt, throughputRatio } from './read-off.ts'

const CURVE = [
  { rate: 1, latency_ms: 20 },
  { rate: 2, latency_ms: 40 },
  { rate: 4, latency_ms: 140 },
]

test('the rate lies on the straight line between the rates played', () => {
  // From (2, 40) to (4, 140) latency grows by 50 a program per second: 90 is reached at 3.
  expect(throughputAt(CURVE, 90)).toEqual({ kind: 'at', rate: 3 })
  expect(throughputAt(CURVE, 30)).toEqual({ kind: 'at', rate: 1.5 })
})

test('an SLO that a rate meets exactly is met there', () => {
  expect(throughputAt(CURVE, 40)).toEqual({ kind: 'at', rate: 2 })
  expect(throughputAt(CURVE, 140)).toEqual({ kind: 'at_least', rate: 4 })
})

test('beyond what was played only a bound is known', () => {
  expect(throughputAt(CURVE, 19.9)).toEqual({ kind: 'below', rate: 1 })
  expect(throughputAt(CURVE, 1000)).toEqual({ kind: 'at_least', rate: 4 })
})

test('a curve that leaves the SLO and comes back counts up to where it left', () => {
  const dented = [...CURVE, { rate: 8, latency_ms: 50 }]
  expect(throughputAt(dented, 90)).toEqual({ kind: 'at', rate: 3 })
})

test('an empty curve has no throughput', () => {
  expect(() => throughputAt([], 10)).toThrow(RangeError)
})

test('ratios are taken seed by seed', () => {
  const twice = CURVE.map(({ rate, latency_ms }) => ({ rate: rate * 2, latency_ms }))
  const thrice = CURVE.map(({ rate, latency_ms }) => ({ rate: rate * 3, latency_ms }))
  // Seed 1: 2×, seed 2: 3×; Student's t with one degree of freedom: 12.706 · 0.7071 / √2.
  const ratio = throughputRatio([twice, thrice], [CURVE, CURVE], 90)
  expect(ratio?.bound).toBe('exact')
  expect(ratio?.ratio.mean).toBeCloseTo(2.5, 10)
  expect(ratio?.ratio.half_width).toBeCloseTo(12.706 * 0.5, 3)
})

test('a ratio of bounds is a lower bound only where it can be one', () => {
  const quick = CURVE.map(({ rate, latency_ms }) => ({ rate, latency_ms: latency_ms / 10 }))
  const slow = CURVE.map(({ rate, latency_ms }) => ({ rate, latency_ms: latency_ms * 10 }))
  // Ours meets it everywhere: at least 4, over 3.
  expect(throughputRatio([quick], [CURVE], 90)).toMatchObject({ bound: 'at_least', ratio: { mean: 4 / 3 } })
  // The other one meets it nowhere: less than 1.
  expect(throughputRatio([CURVE], [slow], 90)).toMatchObject({ bound: 'at_least', ratio: { mean: 3 } })
  expect(throughputRatio([slow], [CURVE], 90)).toBeNull()
  expect(throughputRatio([CURVE], [quick], 90)).toBeNull()
})
