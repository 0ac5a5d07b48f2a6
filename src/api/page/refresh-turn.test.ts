import { expect, it } from 'vitest'
import { REFRESH_EVERY_MS_MAX, REFRESH_PARTS, RefreshTurn } from './refresh-turn.ts'

it('gives the turn to one viewer at a time, once in an interval', () => {
  const turn = new RefreshTurn()
  expect(turn.take(0, 1_000)).toBe(true)
  expect(turn.take(10, 1_000)).toBe(false)
  turn.done(20)
  expect(turn.take(500, 1_000)).toBe(false)
  expect(turn.take(950, 1_000)).toBe(true)
})

it('waits longer after a refresh that took long, and never longer than its bound', () => {
  const turn = new RefreshTurn()
  turn.take(0, 1_000)
  turn.done(300)
  expect(turn.take(0.9 * 300 * REFRESH_PARTS - 1, 1_000)).toBe(false)
  expect(turn.take(0.9 * 300 * REFRESH_PARTS, 1_000)).toBe(true)
  const begun_ms = 0.9 * 300 * REFRESH_PARTS
  turn.done(begun_ms + 4_000)
  expect(turn.take(begun_ms + REFRESH_EVERY_MS_MAX, 1_000)).toBe(true)
})

it('goes on where a viewer left while it asked', () => {
  const turn = new RefreshTurn()
  turn.take(0, 1_000)
  expect(turn.take(4_999, 1_000)).toBe(false)
  expect(turn.take(5_000, 1_000)).toBe(true)
})
