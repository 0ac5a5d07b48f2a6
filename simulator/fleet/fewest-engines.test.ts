import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type EngineRange, fewestEngines, nextEngines } from './fewest-engines.ts'

function searched(range: EngineRange, meets: (engines: number) => boolean) {
  const played = new Map<number, boolean>()
  for (let next = nextEngines(range, played); next !== null; next = nextEngines(range, played)) {
    expect(played.has(next)).toBe(false)
    expect(next).toBeGreaterThanOrEqual(range.min)
    expect(next).toBeLessThanOrEqual(range.max)
    played.set(next, meets(next))
  }
  return { fewest: fewestEngines(played), played: [...played.keys()] }
}

test('finds the fewest engines that meet the target, with few plays', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 50 }), fc.nat(500), fc.integer({ min: 1, max: 600 }), (min, more, needed) => {
      const range = { min, max: min + more }
      const { fewest, played } = searched(range, (engines) => engines >= needed)
      expect(fewest).toBe(needed > range.max ? null : Math.max(needed, min))
      expect(played.length).toBeLessThanOrEqual(2 * Math.ceil(Math.log2(range.max + 1)) + 2)
    }),
  )
})

test('plays twice as many each time and then halves the gap', () => {
  expect(searched({ min: 1, max: 16 }, (engines) => engines >= 6)).toEqual({ fewest: 6, played: [1, 2, 4, 8, 6, 5] })
  expect(searched({ min: 1, max: 11 }, () => false)).toEqual({ fewest: null, played: [1, 2, 4, 8, 11] })
  expect(searched({ min: 3, max: 3 }, () => true)).toEqual({ fewest: 3, played: [3] })
})

test('ends where more engines are sometimes worse, with a number that met the target while one fewer did not', () => {
  fc.assert(
    fc.property(fc.array(fc.boolean(), { minLength: 1, maxLength: 40 }), (meets) => {
      const played = new Map<number, boolean>()
      const range = { min: 1, max: meets.length }
      for (let next = nextEngines(range, played); next !== null; next = nextEngines(range, played))
        played.set(next, meets[next - 1] as boolean)
      const fewest = fewestEngines(played)
      if (fewest === null) return
      expect(meets[fewest - 1]).toBe(true)
      if (fewest > 1) expect(played.get(fewest - 1)).toBe(false)
    }),
  )
})
