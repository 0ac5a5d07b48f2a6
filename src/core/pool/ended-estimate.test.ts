import fc from 'fast-check'
import { expect, test } from 'vitest'
import { STATUS_LOAD_INTERVAL_MS } from '../../protocol/link.ts'
import { EndedEstimate } from './ended-estimate.ts'

/** Reports of an engine with `calls` open, each of which stays for `stay_ms`. */
function steady(calls: number, stay_ms: number, reports: number): { estimate: EndedEstimate; last_ms: number } {
  const estimate = new EndedEstimate()
  const began = (calls * STATUS_LOAD_INTERVAL_MS) / stay_ms
  for (let n = 0; n < reports; n += 1) estimate.reported(calls, began, n * STATUS_LOAD_INTERVAL_MS)
  return { estimate, last_ms: (reports - 1) * STATUS_LOAD_INTERVAL_MS }
}

test('of calls that stay 100 ms, half have ended 50 ms after the report, and all after 100', () => {
  const { estimate, last_ms } = steady(4, 100, 3)
  expect([0, 50, 100, 200].map((ms) => estimate.at(last_ms + ms))).toEqual([
    0,
    expect.closeTo(2),
    expect.closeTo(4),
    expect.closeTo(4),
  ])
})

test('nothing is known before two reports, or while no call ends', () => {
  expect(new EndedEstimate().at(100)).toBe(0)
  expect(steady(4, 100, 1).estimate.at(100)).toBe(0)
  expect(steady(4, Number.POSITIVE_INFINITY, 5).estimate.at(1100)).toBe(0)
})

test('an engine that no longer reports ends no more calls than in one interval', () => {
  const { estimate, last_ms } = steady(40, 1000, 3)
  expect(estimate.at(last_ms + STATUS_LOAD_INTERVAL_MS)).toBeCloseTo(10)
  expect(estimate.at(last_ms + 60_000)).toBeCloseTo(10)
})

test('whatever is reported and whenever, it is between none and all of the reported calls', () => {
  const report = fc.record({
    calls: fc.nat(10_000),
    began: fc.nat(4096),
    after_ms: fc.integer({ min: -5000, max: 5000 }),
  })
  fc.assert(
    fc.property(
      fc.array(report, { minLength: 1, maxLength: 30 }),
      fc.integer({ min: -10, max: 5000 }),
      (reports, ms) => {
        const estimate = new EndedEstimate()
        let now_ms = 0
        for (const { calls, began, after_ms } of reports) {
          now_ms += after_ms
          estimate.reported(calls, began, now_ms)
        }
        const calls = reports.at(-1)?.calls ?? 0
        expect(estimate.at(now_ms + ms)).toBeGreaterThanOrEqual(0)
        expect(estimate.at(now_ms + ms)).toBeLessThanOrEqual(calls)
      },
    ),
  )
})
