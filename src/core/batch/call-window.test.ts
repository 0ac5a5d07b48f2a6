import { expect, it } from 'vitest'
import { CallWindow, WINDOW_MAX, WINDOW_MIN, WINDOW_START } from './call-window.ts'

/** Serves windows of lines on so many idle seats: those beyond them wait for a whole service. Returns the last sizes. */
function play(window: CallWindow, seats: (round: number) => number, rounds: number): number[] {
  const sizes: number[] = []
  for (let round = 0; round < rounds; round += 1) {
    const { size } = window
    for (let line = 0; line < size; line += 1) {
      const ahead = Math.floor(line / Math.max(1, seats(round)))
      window.served(seats(round) === 0 ? 60 : ahead * 2, 2)
    }
    sizes.push(window.size)
  }
  return sizes
}

it('grows to the seats that are idle, and not far beyond', () => {
  const sizes = play(new CallWindow(), () => 16, 100).slice(20)
  expect(Math.min(...sizes)).toBeGreaterThanOrEqual(16)
  expect(Math.max(...sizes)).toBeLessThanOrEqual(3 * 16)
})

it('goes back to one line while online calls take every seat, and returns within a few rounds', () => {
  const window = new CallWindow()
  const sizes = play(window, (round) => (round >= 20 && round < 60 ? 0 : 16), 66)
  expect(sizes[59]).toBe(WINDOW_MIN)
  expect(sizes[65]).toBeGreaterThanOrEqual(16)
})

it('stays within its bounds, and counts refusals of one window once', () => {
  const window = new CallWindow()
  expect(window.size).toBe(WINDOW_START)
  for (let line = 0; line < 500; line += 1) window.served(0, 1)
  expect(window.size).toBe(WINDOW_MAX)
  for (let line = 0; line < 20; line += 1) window.refused()
  expect(window.size).toBe(WINDOW_MAX / 2)
})
