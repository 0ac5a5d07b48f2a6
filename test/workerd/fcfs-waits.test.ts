/** GET …/fcfs: the API asks the pools of the engines that served a program, and they ask the agents. */
import { env } from 'cloudflare:workers'
import { beforeAll, expect, it } from 'vitest'
import { json, KEY_A, KEY_B, openCall, provision, request } from './fixtures.ts'
import { joined } from './joined-agent.ts'

beforeAll(provision)

it('is what the agent of its engine answers, for the tenant and for the operator', async () => {
  const agent = await joined()
  const run = await openCall('asked', 'call-0')
  for (const [path, key] of [
    ['/v1/programs/asked/fcfs', KEY_A],
    ['/admin/v1/tenants/tenant-a/programs/asked/fcfs', env.ADMIN_KEY],
  ] as const) {
    const answer = json(request('GET', path, key))
    const question = await agent.message()
    const asked = { engine: 'agent-east-e0', tenant: 'tenant-a', program: 'asked', run }
    expect(question).toEqual({ type: 'replay', id: expect.any(Number), ...asked })
    const calls = [
      { status: 'estimated', id: 'call-0', wait_us: 200_000, fcfs_wait_us: 3_000_000, at_least: true },
      { status: 'unknown', id: 'call-1', reason: 'open' },
    ]
    agent.send({ type: 'replayed', id: question.id, replay: { status: 'replayed', calls } })
    const unknown = { wait_s: null, fcfs_wait_s: null, at_least: false }
    expect(await answer).toEqual({
      ...{ object: 'program.fcfs_waits', program: 'asked', run, estimate: true },
      ...{ wait_s: 0.2, fcfs_wait_s: 3, estimated_calls: 1 },
      engines: [{ engine: 'agent-east-e0', region: 'us-east', unknown: null }],
      calls: [
        { id: 'call-0', engine: 'agent-east-e0', wait_s: 0.2, fcfs_wait_s: 3, at_least: true, unknown: null },
        { id: 'call-1', engine: 'agent-east-e0', ...unknown, unknown: 'open' },
      ],
    })
  }
})

it('says that an agent is gone, or silent, and what it said instead of an estimate', async () => {
  await openCall('alone', 'call-0')
  const engine = async () =>
    (await json<{ engines: { unknown: string }[] }>(request('GET', '/v1/programs/alone/fcfs', KEY_A))).engines[0]
  expect(await engine()).toMatchObject({ unknown: 'gone' })
  const agent = await joined()
  const silent = engine()
  const { id } = await agent.message()
  // An answer to another question is none to this one.
  agent.send({ type: 'replayed', id: (id as number) + 1, replay: { status: 'unknown', reason: 'busy' } })
  expect(await silent).toMatchObject({ unknown: 'silent' })
  const busy = engine()
  const question = await agent.message()
  agent.send({ type: 'replayed', id: question.id, replay: { status: 'unknown', reason: 'busy' } })
  expect(await busy).toMatchObject({ unknown: 'busy' })
})

it('is absent for another tenant, and asks no engine where there was none', async () => {
  expect((await request('POST', '/v1/programs', KEY_A, { id: 'fresh' })).status).toBe(201)
  expect((await request('GET', '/v1/programs/fresh/fcfs', KEY_B)).status).toBe(404)
  const waits = { estimated_calls: 0, wait_s: 0, fcfs_wait_s: 0, engines: [], calls: [] }
  expect(await json(request('GET', '/v1/programs/fresh/fcfs', KEY_A))).toMatchObject(waits)
})
