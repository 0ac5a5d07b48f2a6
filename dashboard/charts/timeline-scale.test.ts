import { expect, test } from 'vitest'
import { moved, ticksMs, WHOLE, zoomed } from './timeline-scale.ts'

test('a view zooms around a place and stays within the whole', () => {
  const near = zoomed(WHOLE, 0.5, 0.25)
  expect(near).toEqual({ from: 0.125, to: 0.625 })
  expect(zoomed(near, 2, 0.25)).toEqual(WHOLE)
  expect(zoomed({ from: 0.75, to: 1 }, 2, 0)).toEqual({ from: 0.5, to: 1 })
  const nearest = zoomed(WHOLE, 1e-9)
  expect(nearest.to - nearest.from).toBeCloseTo(1 / 512)
})

test('a view moves by shares of itself, to the end and no further', () => {
  expect(moved({ from: 0.25, to: 0.5 }, 0.5)).toEqual({ from: 0.375, to: 0.625 })
  expect(moved({ from: 0.25, to: 0.5 }, -9)).toEqual({ from: 0, to: 0.25 })
  expect(moved({ from: 0.25, to: 0.5 }, 9)).toEqual({ from: 0.75, to: 1 })
})

test('marks stand at round times, no more than there is room for', () => {
  expect(ticksMs(0, 17_000, 6)).toEqual([0, 5_000, 10_000, 15_000])
  expect(ticksMs(1_234, 1_789, 5)).toEqual([1_400, 1_600])
  expect(ticksMs(0, 1, 3)).toEqual([0, 0.5, 1])
  expect(ticksMs(3, 3.1, 1)).toHaveLength(1)
})
