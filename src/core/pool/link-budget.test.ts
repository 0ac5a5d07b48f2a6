import { expect, test } from 'vitest'
import { STATUS_INTERVAL_MIN_MS } from '../../protocol/link.ts'
import {
  AGENTS_REMEMBERED_MAX,
  BAR_FIRST_MS,
  BAR_FORGOTTEN_MS,
  BAR_MAX_MS,
  frameUnits,
  HELLO_UNITS,
  LINK_UNITS_MAX,
  LINK_UNITS_PER_S,
  LinkBudgets,
  UNIT_BYTES,
} from './link-budget.ts'

test('an agent that keeps the shortest interval for an hour, with a hello every ten seconds, is never refused', () => {
  const budgets = new LinkBudgets()
  for (let now_ms = 0; now_ms < 3_600_000; now_ms += STATUS_INTERVAL_MIN_MS) {
    expect(budgets.take('a', 1, now_ms)).toBe(true)
    if (now_ms % 10_000 === 0) expect(budgets.take('a', HELLO_UNITS, now_ms)).toBe(true)
  }
})

test('a minute of queued statuses fits at once, and one frame more does not', () => {
  const budgets = new LinkBudgets()
  for (let frame = 0; frame < LINK_UNITS_MAX; frame += 1) expect(budgets.take('a', 1, 0)).toBe(true)
  expect(budgets.take('a', 1, 0)).toBe(false)
  expect(budgets.take('b', 1, 0)).toBe(true)
})

test('over time a flood gets the rate and no more, and a clock that goes back gives nothing', () => {
  const budgets = new LinkBudgets()
  budgets.take('a', LINK_UNITS_MAX, 0)
  let granted = 0
  for (let now_ms = 1; now_ms <= 10_000; now_ms += 1) if (budgets.take('a', 1, now_ms)) granted += 1
  // A refused frame empties the bucket, so a flood gets less than the rate.
  expect(granted).toBeLessThanOrEqual(10 * LINK_UNITS_PER_S)
  expect(budgets.take('a', 1, 5_000)).toBe(false)
  expect(budgets.take('a', 1, 4_000)).toBe(false)
})

test('long frames cost more', () => {
  expect([0, 1, UNIT_BYTES, UNIT_BYTES + 1, 8 * UNIT_BYTES].map(frameUnits)).toEqual([1, 1, 1, 2, 8])
})

test('each bar is twice as long as the last, up to a bound, until an hour passes without one', () => {
  const budgets = new LinkBudgets()
  expect(budgets.barredMs('a', 0)).toBe(0)
  let now_ms = 0
  for (let expected = BAR_FIRST_MS; expected < 4 * BAR_MAX_MS; expected *= 2) {
    const bar_ms = budgets.bar('a', now_ms)
    expect(bar_ms).toBe(Math.min(BAR_MAX_MS, expected))
    expect(budgets.bar('a', now_ms + 1)).toBe(bar_ms - 1)
    expect(new LinkBudgets(budgets.stored()).barredMs('a', now_ms + 1)).toBe(bar_ms - 1)
    now_ms += bar_ms
    expect(budgets.barredMs('a', now_ms)).toBe(0)
  }
  expect(budgets.bar('a', now_ms + BAR_FORGOTTEN_MS)).toBe(BAR_FIRST_MS)
  expect(budgets.barredMs('a', 0)).toBe(BAR_FIRST_MS)
})

test('a bounded number of agents is remembered', () => {
  const budgets = new LinkBudgets()
  for (let agent = 0; agent <= AGENTS_REMEMBERED_MAX; agent += 1) budgets.bar(`agent-${agent}`, 0)
  expect(budgets.stored()).toHaveLength(AGENTS_REMEMBERED_MAX)
  expect(budgets.barredMs('agent-0', 0)).toBe(0)
})
