import { expect, it } from 'vitest'
import { OfflineSeats, PEAK_HALF_LIFE_US } from './offline-seats.ts'

it('leaves as many places as online calls had of late, and gives them back as they stay away', () => {
  const seats = new OfflineSeats()
  expect([seats.max(1, 0), seats.max(8, 0)]).toEqual([1, 7])
  seats.noted(4, 0)
  expect(seats.max(8, 0)).toBe(4)
  seats.noted(0, 1)
  expect(seats.max(8, PEAK_HALF_LIFE_US)).toBe(6)
  expect(seats.max(8, 5 * PEAK_HALF_LIFE_US)).toBe(7)
  seats.noted(12, 6 * PEAK_HALF_LIFE_US)
  expect(seats.max(8, 6 * PEAK_HALF_LIFE_US)).toBe(0)
})
