import { expect, it } from 'vitest'
import { budgetOf } from './budget.ts'
import { budgetLeftText, readBudget } from './budget-text.ts'

const read = (text: string) => readBudget((name) => (name === 'x-program-budget' ? text : null), null)

it('reads limits from the header, and from metadata where there is no header', () => {
  expect(read('tokens=20000, calls=50,service_s=1.5 , cost=0.25, deadline_s=600')).toEqual({
    ok: true,
    budget: { tokens: 20_000, calls: 50, service_s: 1.5, cost: 0.25, deadline_s: 600 },
  })
  expect(readBudget(() => null, { program_budget: 'calls=3' })).toEqual({ ok: true, budget: { calls: 3 } })
  expect(readBudget(() => null, null)).toEqual({ ok: true, budget: null })
})

it.each([
  ['steps=3', "'steps' is no limit. Limits are calls, tokens, service_s, cost, deadline_s."],
  ['tokens', 'tokens is a number above 0 and at most 1000000000000.'],
  ['tokens=-1', 'tokens is a number above 0'],
  ['tokens=0', 'tokens is a number above 0'],
  ['tokens=1=2', 'tokens is a number above 0'],
  ['tokens=1e99', 'tokens is a number above 0'],
  ['deadline_s=1e9', 'deadline_s is a number above 0 and at most 2592000.'],
  ['calls=1,calls=2', 'calls is there twice.'],
  ['__proto__=1', "'__proto__' is no limit."],
  [`calls=${'1'.repeat(600)}`, 'it is longer than 512 characters.'],
])('refuses %s by name', (text, message) => {
  expect(read(text)).toMatchObject({ ok: false, param: 'X-Program-Budget', message: expect.stringContaining(message) })
})

it('becomes integers of the smallest units, and is written back in those of the client', () => {
  const limits = budgetOf({ calls: 5, service_s: 1.5, cost: 0.25 }, 1_000)
  expect(limits).toEqual({ calls: 5, tokens: null, service_us: 1_500_000, cost_nanos: 250_000_000, ends_at_ms: null })
  if (limits === null) throw new Error('it limits something')
  const used = { calls: 1, tokens: 9, service_us: 500_000, cost_nanos: 50_000_000 }
  const reserved = { calls: 1, tokens: 9, service_us: 0, cost_nanos: 0 }
  expect(budgetLeftText({ limits, used, reserved })).toBe('calls=3, service_s=1, cost=0.2')
  expect(budgetOf({ deadline_s: 2 }, 1_000)).toMatchObject({ calls: null, ends_at_ms: 3_000 })
  expect(budgetOf({}, 0)).toBeNull()
})
