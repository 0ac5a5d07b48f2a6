import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { AwayPrograms, ReturnTimes } from './return-times.ts'

const BUY_US = 10_000_000

function known(...seen: [away_us: number, returned: boolean, times: number][]): ReturnTimes {
  const times = new ReturnTimes()
  for (const [away_us, returned, count] of seen) for (let one = 0; one < count; one++) times.seen(away_us, returned)
  return times
}

const NONE_AWAY = new AwayPrograms()

/** Programs that have been away for so long at `now_us`. */
function away(now_us: number, away_us: readonly number[]): AwayPrograms {
  const programs = new AwayPrograms()
  for (const us of away_us) programs.add(now_us - us)
  return programs
}

describe('the best time to hold for', () => {
  it('is all of it while nothing is known, and where programs come back at any time', () => {
    expect(known().bestUs(BUY_US, NONE_AWAY, 0)).toBe(BUY_US)
    expect(known([100_000, true, 20], [8_000_000, true, 40]).bestUs(BUY_US, NONE_AWAY, 0)).toBeGreaterThan(8_000_000)
  })

  it('ends where few more come back', () => {
    const best_us = known([500_000, true, 50], [BUY_US, false, 10]).bestUs(BUY_US, NONE_AWAY, 0)
    expect(best_us).toBeGreaterThanOrEqual(500_000)
    expect(best_us).toBeLessThan(1_000_000)
  })

  it('counts those that are away right now', () => {
    const times = known([500_000, true, 50])
    expect(times.bestUs(BUY_US, NONE_AWAY, 0)).toBe(BUY_US)
    expect(times.bestUs(BUY_US, away(7, Array(10).fill(5_000_000)), 7)).toBeLessThan(1_000_000)
  })

  it('is none where holding costs more than it spares', () => {
    expect(known([9_000_000, true, 10], [BUY_US, false, 90]).bestUs(BUY_US, NONE_AWAY, 0)).toBe(0)
    expect(known([BUY_US, false, 50]).bestUs(BUY_US, NONE_AWAY, 0)).toBe(0)
  })

  it('follows what changes', () => {
    const times = known([500_000, true, 200], [BUY_US, false, 20])
    expect(times.bestUs(BUY_US, NONE_AWAY, 0)).toBeLessThan(1_000_000)
    for (let one = 0; one < 300; one++) times.seen(4_000_000, true)
    expect(times.bestUs(BUY_US, NONE_AWAY, 0)).toBeGreaterThanOrEqual(4_000_000)
  })

  it('costs at most a bin and the prior more than the best time in hindsight', () => {
    const stays = fc.array(fc.record({ away_us: fc.integer({ min: 1, max: 2 * BUY_US }), count: fc.nat(20) }), {
      minLength: 1,
      maxLength: 6,
    })
    fc.assert(
      fc.property(stays, (list) => {
        const all = list.flatMap(({ away_us, count }) => Array<number>(count).fill(away_us))
        const times = new ReturnTimes()
        for (const us of all) times.seen(Math.min(us, BUY_US), us < BUY_US)
        const costUs = (hold_us: number) => all.reduce((sum, us) => sum + (us < hold_us ? us : hold_us + BUY_US), 0)
        const hindsight_us = Math.min(costUs(0), ...all.map((us) => costUs(Math.min(us + 1, BUY_US))))
        // Bins are a factor of √2 wide, the prior is worth two programs, and later programs weigh more than earlier ones.
        expect(costUs(times.bestUs(BUY_US, NONE_AWAY, 0))).toBeLessThanOrEqual(2 * hindsight_us + 4 * BUY_US)
      }),
      { numRuns: 300 },
    )
  })
})

describe('programs that are away', () => {
  const AWAY_US_MAX = 400_000_000

  it('count in each bin for the time that they have been away in it, whoever has come back', () => {
    const stays = fc.array(fc.record({ away_us: fc.nat(AWAY_US_MAX), back: fc.boolean() }), { maxLength: 20 })
    fc.assert(
      fc.property(stays, fc.nat(10), (list, later_us) => {
        const since = list.map(({ away_us, back }) => ({ at_us: AWAY_US_MAX - away_us, back }))
        const programs = new AwayPrograms()
        for (const { at_us } of since) programs.add(at_us)
        for (const { at_us, back } of since) if (back) programs.remove(at_us)
        const now_us = AWAY_US_MAX + later_us
        const left_us = since.flatMap(({ at_us, back }) => (back ? [] : [now_us - at_us]))
        const bins = programs.binsAt(now_us)
        const reach_us = 1_000 * 2 ** 17 * Math.SQRT2
        const sum_us = left_us.reduce((sum, us) => sum + Math.min(us, reach_us), 0)
        expect(bins.reduce((sum, us) => sum + us, 0)).toBeCloseTo(sum_us, 3)
        const first_us = left_us.reduce((sum, us) => sum + Math.min(us, 1_000), 0)
        expect(bins[0]).toBe(first_us)
      }),
    )
  })
})
