/** Properties of the own count: never more than the limit in any window, and nearly all of it when there is work. */
import { describe, expect, it } from 'vitest'
import { seeded } from '../testing/seats-server.ts'
import { SlidingWindow, TokenBucket } from './window-count.ts'

const MINUTE = 60_000_000

/** Takes whatever fits, looking at random times. Returns what was taken when. */
function played(seed: number, amount: number, minutes: number, costs: (random: () => number) => number) {
  const random = seeded(seed)
  const window = new SlidingWindow(MINUTE)
  const taken: { at_us: number; cost: number }[] = []
  let cost = costs(random)
  for (let now_us = 0; now_us < minutes * MINUTE; now_us += Math.ceil(random() * 100_000)) {
    while (window.used(now_us) + cost <= amount) {
      window.take(cost, now_us)
      taken.push({ at_us: now_us, cost })
      cost = costs(random)
    }
  }
  return taken
}

describe('a sliding window', () => {
  const seeds = Array.from({ length: 12 }, (_, index) => index + 1)

  it.each(seeds)('lets no more than the limit through in any window, and nearly all of it (seed %i)', (seed) => {
    const large = seed % 2 === 0
    const amount = large ? 200_000 : 60
    const costs = (random: () => number): number => (large ? Math.ceil(random() * 4000) : 1)
    const taken = played(seed, amount, 10, costs)
    let sum = 0
    let first = 0
    for (const { at_us, cost } of taken) {
      sum += cost
      for (let oldest = taken[first]; oldest !== undefined && oldest.at_us <= at_us - MINUTE; oldest = taken[first]) {
        sum -= oldest.cost
        first += 1
      }
      expect(sum).toBeLessThanOrEqual(amount)
    }
    const total = taken.reduce((all, { cost }) => all + cost, 0)
    expect(total / (amount * 10)).toBeGreaterThan(0.97)
  })

  it('gives back what a call did not use, until it has left the window', () => {
    const window = new SlidingWindow(MINUTE)
    window.take(100, 0)
    window.correct(-60, 0)
    expect(window.used(1000)).toBe(40)
    expect(window.used(2 * MINUTE)).toBe(0)
    window.correct(-40, 0)
    expect(window.used(2 * MINUTE)).toBe(0)
  })

  it('says when there is room again, and means it', () => {
    const window = new SlidingWindow(MINUTE)
    for (let at_us = 0; at_us < 10; at_us++) window.take(6, at_us * 1_000_000)
    const free_us = window.freeAtUs(50, 10_000_000)
    expect(window.used(free_us - 1)).toBeGreaterThan(50)
    expect(window.used(free_us)).toBeLessThanOrEqual(50)
  })

  it('a clock that goes back frees nothing early', () => {
    const window = new SlidingWindow(MINUTE)
    window.take(60, MINUTE)
    window.take(1, 0)
    expect(window.used(0)).toBe(61)
    expect(window.used(MINUTE + 1)).toBe(61)
  })
})

describe('a token bucket', () => {
  it('is refilled evenly, and by our share of it alone', () => {
    const bucket = new TokenBucket({ amount: 60, window_us: MINUTE }, 0, 0)
    expect(bucket.level(1, MINUTE / 2)).toBe(30)
    expect(bucket.level(0.5, MINUTE)).toBe(45)
    bucket.change(-50)
    expect(bucket.untilUs(5, 0.5, MINUTE)).toBe(MINUTE / 3)
    expect(bucket.level(1, 100 * MINUTE)).toBe(60)
  })
})
