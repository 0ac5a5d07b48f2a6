/** No tenant holds more than its part of the files. A call that has ended in any way no longer counts. */
import { expect, it } from 'vitest'
import { FileBudget, OPEN_CALLS_PER_TENANT_MAX, PROGRAM_IN_MEMORY_MS } from './file-budget.ts'
import { runCall } from './run-call.ts'
import { answering, chat, failureOf, PROGRAM, world } from './testing/world.ts'

/** As many as the runtime itself may hold. */
const RESERVED = 512
const budgetOf = (files: number): FileBudget => new FileBudget(RESERVED + files)

function count(enter: () => boolean): number {
  let entered = 0
  while (enter()) entered += 1
  return entered
}

it('bounds the calls of each tenant by themselves where files are plenty', () => {
  for (const budget of [new FileBudget(null), new FileBudget(65_536)]) {
    expect(count(() => budget.enterCall('a'))).toBe(OPEN_CALLS_PER_TENANT_MAX)
    expect(budget.enterCall('b')).toBe(true)
    budget.leaveCall('a')
    expect(count(() => budget.enterCall('a'))).toBe(1)
  }
})

it('keeps the last quarter for other tenants, and all of them within the files', () => {
  const budget = budgetOf(4 * 70)
  expect(count(() => budget.enterCall('a'))).toBe(30)
  expect(count(() => budget.enterCall('b'))).toBe(10)
  expect(budget.enterCall('c')).toBe(false)
  budget.leaveCall('a')
  expect(count(() => budget.enterCall('c'))).toBe(1)
})

it('slows new programs, and lets those in use go on', () => {
  const budget = budgetOf(8)
  const use = (program: string, now_ms: number) => budget.useProgram('a', program, now_ms)
  expect(['p1', 'p2', 'p3', 'p4'].map((program) => use(program, 0))).toEqual([true, true, true, false])
  expect(budget.enterCall('b')).toBe(false)
  expect(use('p1', PROGRAM_IN_MEMORY_MS - 1)).toBe(true)
  // p2 and p3 have been left alone for long enough.
  expect(use('p4', PROGRAM_IN_MEMORY_MS)).toBe(true)
  expect(use('p2', PROGRAM_IN_MEMORY_MS)).toBe(true)
  expect(use('p3', PROGRAM_IN_MEMORY_MS)).toBe(false)
})

it('gives back what is in the future after the clock was set back', () => {
  const budget = budgetOf(3)
  expect(budget.useProgram('a', 'p1', 1_000_000)).toBe(true)
  expect(budget.useProgram('a', 'p2', 0)).toBe(true)
})

it('has no bound of programs where there is none of files', () => {
  const budget = new FileBudget(null)
  for (let id = 0; id < 20_000; id += 1) expect(budget.useProgram('a', `p${id}`, 0)).toBe(true)
})

it('a call past the bound is told to come back, and is let in once another has ended', async () => {
  const go = Promise.withResolvers<void>()
  const slow = async (request: Request) => {
    await go.promise
    return answering('hi')(request)
  }
  const w = world({ engines: { e0: slow }, deps: { files: budgetOf(14) } })
  const first = runCall(chat({}, PROGRAM), 'chat', w.deps)
  const { status, code, headers } = await failureOf(await runCall(chat({}, PROGRAM), 'chat', w.deps))
  expect([status, code, headers.get('retry-after')]).toEqual([429, 'too_many_open_calls', '1'])
  go.resolve()
  expect((await (await first).text()).length).toBeGreaterThan(0)
  await w.settled()
  const third = await runCall(chat({}, PROGRAM), 'chat', w.deps)
  expect(third.status).toBe(200)
})

it('a call of one program too many is told to come back before its actor is asked', async () => {
  const w = world({ engines: { e0: answering('hi') }, deps: { files: budgetOf(14) } })
  const call = async (program: string) => {
    const response = await runCall(chat({}, { 'X-Program-Id': program }), 'chat', w.deps)
    await w.settled()
    return response
  }
  expect((await call('one')).status).toBe(200)
  const { status, code, headers } = await failureOf(await call('two'))
  expect([status, code, headers.get('retry-after')]).toEqual([429, 'too_many_new_programs', '10'])
  expect((await call('one')).status).toBe(200)
  expect(w.saidTo('admit')).toHaveLength(2)
})

it('a call that fails before its answer counts no more', async () => {
  const w = world({ engines: {}, deps: { files: budgetOf(14) } })
  for (let call = 0; call < 3; call += 1) expect((await runCall(chat({}, PROGRAM), 'chat', w.deps)).status).toBe(503)
})
