import { expect, test } from 'vitest'
import { measureCosts } from './measure-costs.ts'

/** A backend whose every operation lasts as stated. */
function machine(noise_us: number) {
  let now_us = 0
  let held = 0
  let runs = 0
  const last = (duration_us: number) => {
    runs += 1
    // Other work on the machine hits all but one run of three.
    now_us += duration_us + (runs % 3 === 0 ? 0 : noise_us)
    return Promise.resolve()
  }
  return {
    clock: () => now_us,
    prefill: (tokens: number) => {
      held += tokens
      now_us += tokens * 5000
      return Promise.resolve()
    },
    decode: () => last(30_000),
    swap: { save: () => last(400 + held * 20), restore: () => last(400 + held * 10) },
  }
}

test('costs are the line through two lengths', async () => {
  expect(await measureCosts(machine(0), 8, 71)).toEqual({
    ...{ prefill_tokens_per_s: 200, step_us: 30_000 },
    swap: { save_us_per_token: 20, restore_us_per_token: 10, base_us: 400 },
  })
})

test('what else the machine does is not taken for the cost', async () => {
  const { swap, step_us } = await measureCosts(machine(50_000), 8, 71)
  expect(swap).toEqual({ save_us_per_token: 20, restore_us_per_token: 10, base_us: 400 })
  expect(step_us).toBe(30_000)
})

test('without a place for images only computing is measured', async () => {
  const costs = await measureCosts({ ...machine(0), swap: null }, 8, 71)
  expect(costs).toEqual({ prefill_tokens_per_s: 200, step_us: 30_000, swap: null })
})
