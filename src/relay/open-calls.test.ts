/** No tenant holds more open calls than its part. A call that has ended in any way no longer counts. */
import { expect, it } from 'vitest'
import { OPEN_CALLS_PER_TENANT_MAX, OpenCalls } from './open-calls.ts'
import { runCall } from './run-call.ts'
import { answering, chat, failureOf, PROGRAM, world } from './testing/world.ts'

it('counts each tenant by itself, at the bound and one past it', () => {
  const open = new OpenCalls()
  for (let call = 0; call < OPEN_CALLS_PER_TENANT_MAX; call += 1) expect(open.enter('a')).toBe(true)
  expect(open.enter('a')).toBe(false)
  expect(open.enter('b')).toBe(true)
  open.leave('a')
  expect(open.enter('a')).toBe(true)
})

it('a call past the bound is told to come back, and is let in once another has ended', async () => {
  const go = Promise.withResolvers<void>()
  const slow = async (request: Request) => {
    await go.promise
    return answering('hi')(request)
  }
  const w = world({ engines: { e0: slow }, deps: { open_calls: new OpenCalls(1) } })
  const first = runCall(chat({}, PROGRAM), 'chat', w.deps)
  const { status, code, headers } = await failureOf(await runCall(chat({}, PROGRAM), 'chat', w.deps))
  expect([status, code, headers.get('retry-after')]).toEqual([429, 'too_many_open_calls', '1'])
  go.resolve()
  expect((await (await first).text()).length).toBeGreaterThan(0)
  await w.settled()
  const third = await runCall(chat({}, PROGRAM), 'chat', w.deps)
  expect(third.status).toBe(200)
})

it('a call that fails before its answer counts no more', async () => {
  const w = world({ engines: {}, deps: { open_calls: new OpenCalls(1) } })
  for (let call = 0; call < 3; call += 1) expect((await runCall(chat({}, PROGRAM), 'chat', w.deps)).status).toBe(503)
})
