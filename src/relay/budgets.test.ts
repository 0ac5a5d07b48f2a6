/** A call under a budget never goes on without its program's actor, and holds nothing once it was refused. */
import { expect, it, vi } from 'vitest'
import { runCall } from './run-call.ts'
import { ADMITTED, answering, chat, failureOf, PROGRAM, world } from './testing/world.ts'

const BUDGETED = { ...PROGRAM, 'X-Program-Budget': 'tokens=100' }
const times = { admit_timeout_ms: 5, residency_timeout_ms: 20 }
const held = (has_budget: boolean) => ({ residency: async () => ({ regions: null, has_budget }) })

it.each([
  ['the call states a budget', BUDGETED, false],
  ['D1 knows that the program has one', PROGRAM, true],
])('is refused for a moment where %s and the actor is too slow', async (_, headers, has_budget) => {
  const { promise, resolve } = Promise.withResolvers<typeof ADMITTED>()
  const callEnded = vi.fn(async () => undefined)
  const engines = { e0: answering('hi') }
  const w = world({ engines, program: { admit: () => promise, callEnded }, times, deps: held(has_budget) })
  const response = await runCall(chat({}, headers), 'chat', w.deps)
  expect(response.headers.get('retry-after')).not.toBeNull()
  const { status, code } = await failureOf(response)
  expect([status, code]).toEqual([503, 'budget_unknown'])
  expect(callEnded).not.toHaveBeenCalled()
  resolve(ADMITTED)
  await expect.poll(() => callEnded.mock.calls.length).toBe(1)
  expect(callEnded).toHaveBeenCalledWith(expect.objectContaining({ run: 'run-1', outcome: 'failed' }))
})

it('goes on without its actor where neither has one', async () => {
  const never = () => new Promise<never>(() => undefined)
  const w = world({ engines: { e0: answering('hi') }, program: { admit: never }, times, deps: held(false) })
  expect((await runCall(chat({}, PROGRAM), 'chat', w.deps)).status).toBe(200)
})

it('is refused for good with 402 where the budget is used up', async () => {
  const refused = {
    status: 'refused',
    code: 'program_budget_exceeded',
    message: 'used up',
    retry_after_s: null,
  } as const
  const w = world({ engines: { e0: answering('hi') }, program: { admit: async () => refused } })
  const response = await runCall(chat({}, BUDGETED), 'chat', w.deps)
  expect(response.headers.get('retry-after')).toBeNull()
  const { status, code } = await failureOf(response)
  expect([status, code]).toEqual([402, 'program_budget_exceeded'])
})
