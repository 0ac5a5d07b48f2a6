import { describe, expect, it } from 'vitest'
import { NOTHING } from '../core/budget/budget.ts'
import { tellingBudget } from './usage-budget.ts'

const NONE = { calls: null, tokens: null, service_us: null, cost_nanos: null, ends_at_ms: null }
const PRICES = { prompt_picos: 2_000_000, cached_prompt_picos: 1_000_000, output_picos: 4_000_000 }
const USAGE = {
  ...{ prompt_tokens: 30, completion_tokens: 10, total_tokens: 40, prompt_tokens_details: { cached_tokens: 10 } },
  switchyard: { service_modelled_s: 0.5, engine: 'e' },
}
const data = (usage: unknown) => JSON.stringify({ choices: [], usage })
const asItIs = (text: string) => text

describe('usage of a call whose program has a budget', () => {
  const budget = {
    limits: { ...NONE, tokens: 1000, calls: 5, cost_nanos: 1_000_000, service_us: 10_000_000 },
    used: { calls: 1, tokens: 100, service_us: 1_000_000, cost_nanos: 200_000 },
    reserved: { calls: 2, tokens: 300, service_us: 2_000_000, cost_nanos: 300_000 },
  }
  const reserved = {
    amounts: { calls: 1, tokens: 200, service_us: 1_000_000, cost_nanos: 100_000 },
    ...{ prices: PRICES, expired: false },
  }
  const told = tellingBudget(asItIs, { budget, reserved })

  it('says what is left behind the call, with what it used in place of what it had reserved', () => {
    const { usage } = JSON.parse(told(data(USAGE))) as { usage: typeof USAGE & { switchyard: object } }
    expect(usage).toMatchObject({ prompt_tokens: 30, total_tokens: 40 })
    // 20 uncached tokens at 2, 10 cached at 1, and 10 of output at 4 millionths of a thousandth.
    expect(usage.switchyard).toEqual({
      ...USAGE.switchyard,
      program_budget_left: {
        calls: 5 - 1 - 2,
        tokens: 1000 - 100 - 300 + 200 - 40,
        service_s: 10 - 1 - 2 + 1 - 0.5,
        cost: (1_000_000 - 200_000 - 300_000 + 100_000 - 90_000) / 1e9,
      },
    })
  })

  it('says nothing of what is not limited', () => {
    const tokens = tellingBudget(asItIs, {
      budget: { limits: { ...NONE, tokens: 50 }, used: NOTHING, reserved: NOTHING },
      reserved,
    })
    expect(JSON.parse(tokens(data(USAGE)))).toMatchObject({
      usage: { switchyard: { program_budget_left: { tokens: 210 } } },
    })
    expect(tokens(data(USAGE))).not.toContain('service_s"')
  })

  it.each([
    ['text', JSON.stringify({ choices: [{ delta: { content: '"switchyard":{' } }] })],
    ['usage without ours', data({ prompt_tokens: 1 })],
    ['no usage', data(null)],
    ['no JSON', '{"usage":{"switchyard":{'],
  ])('leaves %s as it is', (_, text) => {
    expect(told(text)).toBe(text)
  })
})

it('of a call without a budget it is not looked at', () => {
  expect(tellingBudget(asItIs, { budget: null, reserved: null })).toBe(asItIs)
})
