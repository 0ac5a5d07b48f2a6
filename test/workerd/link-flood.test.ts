/** An agent that sends more than it may, and what the pool does for the others meanwhile. */
import { abortAllDurableObjects, evictDurableObject, runInDurableObject } from 'cloudflare:test'
import { env, exports } from 'cloudflare:workers'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import type { LeaseRequest } from '../../src/actors/contracts.ts'
import { AGENT_HEADER, TICKET_KID_HEADER } from '../../src/actors/link-frames.ts'
import { LATE_UNITS_MAX } from '../../src/actors/link-guard.ts'
import { poolActor, poolStub } from '../../src/actors/stubs.ts'
import { BAR_FIRST_MS, HELLO_UNITS, LINK_UNITS_MAX } from '../../src/core/pool/link-budget.ts'
import { CLOSE, type Hello } from '../../src/protocol/index.ts'
import { helloOf, MODEL, ORIGIN, provision, statusOf, TOKEN_EAST } from './fixtures.ts'
import { Link } from './link-client.ts'

beforeEach(() => {
  const logs = [vi.spyOn(console, 'warn'), vi.spyOn(console, 'error')]
  for (const log of logs) log.mockImplementation(() => undefined)
  return () => {
    for (const log of logs) log.mockRestore()
  }
})
afterEach(() => vi.useRealTimers())

const place = (id: string) => ({ id, location_hint: null })
const pool = (region: string) => poolActor(env, place(region), MODEL)

function open(region: string, agent: string): Promise<Response> {
  const headers = { upgrade: 'websocket', [AGENT_HEADER]: agent, [TICKET_KID_HEADER]: 'kid' }
  return poolStub(env, place(region), MODEL).fetch('https://pool/link', { headers })
}

function hello(region: string, agent: string, change: Partial<Hello> = {}): Hello {
  const engines = helloOf().engines.map((engine) => ({ ...engine, id: `${agent}-e0` }))
  return helloOf({ agent, region, engines, ...change })
}

async function joined(region: string, agent: string): Promise<Link> {
  const link = new Link((await open(region, agent)).webSocket as WebSocket)
  link.send(hello(region, agent))
  expect((await link.message()).type).toBe('welcome')
  return link
}

function lease(id: string): LeaseRequest {
  return {
    ...{ lease: id, call: 'call', tenant: 'tenant-a', program: 'program', prompt_tokens_estimate: 10, pin: null },
    ...{ class: 'tenant', excluded_engines: [], max_load: null, spilled: false, snapshot_version: null },
    now_ms: Date.now(),
  }
}

const agents = async (region: string) => (await pool(region).describe(0)).engines.map(({ agent }) => agent)

it('statuses: the link is closed with a reason, its agent is barred, the other agent serves', async () => {
  const honest = await joined('statuses', 'honest')
  const flooding = await joined('statuses', 'flooding')
  // Twice the budget, since time passes meanwhile.
  for (let seq = 0; seq < 2 * LINK_UNITS_MAX; seq += 1) flooding.send(statusOf(seq, { id: 'flooding-e0' }))
  expect(await flooding.closed()).toBe(CLOSE.flooded)
  expect(await agents('statuses')).toEqual(['honest'])
  const refused = await open('statuses', 'flooding')
  expect(refused.status).toBe(429)
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
  let seq = 0
  const leased = async () => {
    // On a busy machine its hello may be older than a report may be.
    honest.send(statusOf(seq, { id: 'honest-e0' }))
    seq += 1
    return pool('statuses').lease(lease(`l${seq}`))
  }
  await expect.poll(leased).toMatchObject({ status: 'leased', agent: 'honest' })
})

it('the same hello in a loop: it is stored once, and then the link is closed', async () => {
  const stub = poolStub(env, place('hellos'), MODEL)
  const flooding = await joined('hellos', 'flooding')
  const written = () =>
    runInDurableObject(stub, (_, { storage }) => storage.sql.exec('SELECT total_changes() AS n').one().n)
  const before = await written()
  for (let n = 0; n < 20; n += 1) {
    flooding.send(hello('hellos', 'flooding'))
    expect((await flooding.message()).type).toBe('welcome')
  }
  expect(await written()).toBe(before)
  for (let n = 0; n < (2 * LINK_UNITS_MAX) / HELLO_UNITS; n += 1) flooding.send(hello('hellos', 'flooding'))
  expect(await flooding.closed()).toBe(CLOSE.flooded)
})

it('several links of one agent share its budget, and all are closed', async () => {
  const first = new Link((await open('several', 'flooding')).webSocket as WebSocket)
  const second = await joined('several', 'flooding')
  for (let seq = 0; seq < 2 * LINK_UNITS_MAX; seq += 1) second.send(statusOf(seq, { id: 'flooding-e0' }))
  expect(await second.closed()).toBe(CLOSE.flooded)
  expect([CLOSE.flooded, CLOSE.replaced]).toContain(await first.closed())
})

it('a bar survives the object’s restart and ends in time', async () => {
  const flooding = await joined('barred', 'flooding')
  for (let seq = 0; seq < 2 * LINK_UNITS_MAX; seq += 1) flooding.send(statusOf(seq, { id: 'flooding-e0' }))
  await flooding.closed()
  await expect.poll(async () => (await open('barred', 'flooding')).status).toBe(429)
  await runInDurableObject(poolStub(env, place('barred'), MODEL), (_, { storage }) => storage.sync())
  await abortAllDurableObjects()
  const barred = await open('barred', 'flooding')
  expect(barred.status).toBe(429)
  expect(Number(barred.headers.get('retry-after'))).toBeGreaterThan(1)
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + BAR_FIRST_MS })
  expect((await open('barred', 'flooding')).status).toBe(101)
})

it('a barred agent is told so by the API, in its form', async () => {
  await provision()
  const asked = () => {
    const headers = { authorization: `Bearer ${TOKEN_EAST}`, upgrade: 'websocket', 'x-request-id': 'mine' }
    const query = new URLSearchParams({ model: MODEL, region: 'us-east' })
    return exports.default.fetch(new Request(`${ORIGIN}/agents/v1/link?${query}`, { headers }))
  }
  const flooding = new Link((await asked()).webSocket as WebSocket)
  flooding.send(helloOf())
  for (let seq = 0; seq < 2 * LINK_UNITS_MAX; seq += 1) flooding.send(statusOf(seq))
  await flooding.closed()
  await expect.poll(async () => (await asked()).status).toBe(429)
  const refused = await asked()
  expect([refused.headers.get('x-request-id'), Number(refused.headers.get('retry-after')) > 1]).toEqual(['mine', true])
  expect(await refused.json()).toMatchObject({ error: { code: 'link_budget_exceeded' } })
})

it('an agent that opens link after link is told when it may open the next', async () => {
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() })
  let refused = await open('opening', 'opening')
  for (let links = 1; refused.status === 101 && links <= LINK_UNITS_MAX; links += 1)
    refused = await open('opening', 'opening')
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '1'])
  expect(await refused.json()).toMatchObject({ error: { code: 'link_budget_exceeded' } })
  vi.setSystemTime(Date.now() + 1000)
  expect((await open('opening', 'opening')).status).toBe(101)
})

it('a sender that goes on after the close loses its connection, and stays barred', async () => {
  const stub = poolStub(env, place('deaf'), MODEL)
  await joined('deaf', 'deaf')
  // The sender's own socket cannot send after a close, so its frames are handed to the object.
  const aborted = runInDurableObject(stub, async (instance, state) => {
    const [socket] = state.getWebSockets('deaf')
    if (socket === undefined) throw new Error('no socket')
    socket.close(CLOSE.malformed, 'test')
    for (let n = 0; n <= LATE_UNITS_MAX; n += 1) await instance.webSocketMessage?.(socket, '{}')
  })
  await aborted.catch(() => undefined)
  await expect.poll(async () => (await open('deaf', 'deaf').catch(() => ({ status: 0 }))).status).toBe(429)
})

it('an engine that was silent before the pool hibernated is silent after it', async () => {
  const link = await joined('asleep', 'honest')
  link.send(statusOf(1, { id: 'honest-e0' }))
  await expect.poll(async () => (await pool('asleep').describe(0)).engines[0]?.state).toBe('ready')
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 25_000 })
  await evictDurableObject(poolStub(env, place('asleep'), MODEL))
  expect((await pool('asleep').lease(lease('l0'))).status).toBe('none')
  expect((await pool('asleep').describe(0)).engines).toMatchObject([{ state: 'silent' }])
  link.send(statusOf(2, { id: 'honest-e0' }))
  await expect.poll(async () => (await pool('asleep').lease(lease('l1'))).status).toBe('leased')
})
