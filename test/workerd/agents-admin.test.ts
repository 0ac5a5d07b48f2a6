/** Agents as operators change them, over real links: enrolment, rotation, drain, removal, and what their keys open after it. */
import { evictDurableObject } from 'cloudflare:test'
import { env, exports } from 'cloudflare:workers'
import { beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { poolActor, poolStub } from '../../src/actors/stubs.ts'
import { CLOSE } from '../../src/protocol/index.ts'
import { authenticateAgent, REMOVED_RECORDS_MS } from '../../src/store/agents.ts'
import { helloOf, json, MODEL, ORIGIN, proven, provision, recordOf, request } from './fixtures.ts'
import { Link } from './link-client.ts'

beforeAll(provision)

const EAST = { id: 'us-east', location_hint: 'enam' }
const admin = (method: string, path: string, body?: unknown) => request(method, `/admin/v1${path}`, env.ADMIN_KEY, body)
let agent = ''
let token = ''

beforeEach(async () => {
  agent = `gpu-${crypto.randomUUID().slice(0, 8)}`
  const created = await admin('POST', '/agents', { id: agent, region: 'us-east' })
  expect(created.status).toBe(201)
  token = ((await created.json()) as { token: string }).token
})

function open(by = token): Promise<Response> {
  const headers = { upgrade: 'websocket', authorization: `Bearer ${by}` }
  return exports.default.fetch(new Request(`${ORIGIN}/agents/v1/link?region=us-east&model=${MODEL}`, { headers }))
}

async function joined(by = token) {
  const response = await open(by)
  expect(response.status).toBe(101)
  const link = new Link(response.webSocket as WebSocket)
  const engines = helloOf().engines.map((engine) => ({ ...engine, id: `${agent}-e0` }))
  link.send(helloOf({ agent, engines }))
  const welcome = await link.message()
  return { link, ticket_keys: welcome.ticket_keys as { kid: string; key: string }[] }
}

async function stateOfEngine(): Promise<string | undefined> {
  const { engines } = await poolActor(env, EAST, MODEL).describe(0)
  return engines.find((one) => one.agent === agent)?.state
}

it('an enrolled agent links with its token, which no answer and no row shows again', async () => {
  await joined()
  expect(await stateOfEngine()).toBe('ready')
  expect(await json(admin('GET', `/agents/${agent}`))).toMatchObject({
    state: 'active',
    engines: [{ engine: `${agent}-e0`, model: MODEL, state: 'ready' }],
  })
  const shown = [await admin('GET', '/agents'), await admin('GET', '/audit')]
  for (const answer of shown) expect(await answer.text()).not.toContain(token.slice(4))
  const audit = JSON.stringify((await env.DB.prepare('SELECT * FROM audit').all()).results)
  expect(audit).not.toMatch(/token_hash/)
  expect((await admin('POST', '/agents', { id: agent, region: 'us-east' })).status).toBe(409)
  expect((await admin('POST', '/agents', { id: 'x', region: 'mars' })).status).toBe(404)
})

it('a drained agent is told, leases nothing, stays drained over eviction and a new link, and comes back', async () => {
  const { link } = await joined()
  expect(await json(admin('POST', `/agents/${agent}/drain`))).toMatchObject({ state: 'draining', pools_told: 1 })
  expect(await link.message()).toEqual({ type: 'drain', engines: [] })
  expect(await stateOfEngine()).toBe('draining')
  await evictDurableObject(poolStub(env, EAST, MODEL))
  expect(await stateOfEngine()).toBe('draining')
  const again = await joined()
  expect(await again.link.message()).toEqual({ type: 'drain', engines: [] })
  expect(await stateOfEngine()).toBe('draining')
  await admin('POST', `/agents/${agent}/undrain`)
  expect(await again.link.message()).toEqual({ type: 'undrain', engines: [] })
  expect(await stateOfEngine()).toBe('ready')
})

it('a removed agent loses its link at once, opens no other, and its id is not used again', async () => {
  const { link } = await joined()
  expect(await json(admin('DELETE', `/agents/${agent}`))).toMatchObject({ state: 'removed', pools_unreachable: 0 })
  expect(await link.closed()).toBe(CLOSE.dismissed)
  expect(await stateOfEngine()).toBeUndefined()
  expect((await open()).status).toBe(403)
  expect((await admin('POST', '/agents', { id: agent, region: 'us-east' })).status).toBe(409)
  for (const [method, path] of [
    ['POST', 'drain'],
    ['POST', 'undrain'],
    ['POST', 'rotate'],
  ] as const) {
    expect((await admin(method, `/agents/${agent}/${path}`)).status).toBe(404)
  }
  expect((await admin('DELETE', `/agents/${agent}`)).status).toBe(404)
})

it('a removed agent delivers what it served before, for a named time', async () => {
  const record = await proven(recordOf('call-x', 'call-x', 'call-x', { agent, engine: `${agent}-e0` }))
  const before_ms = Date.now()
  await admin('DELETE', `/agents/${agent}`)
  const after_ms = Date.now()
  const sent = await request('POST', '/agents/v1/records', token, { agent, records: [record] })
  expect(await sent.json()).toMatchObject({ acknowledged: [record.lease] })
  const keyed = new Request(ORIGIN, { headers: { authorization: `Bearer ${token}` } })
  const at = (now_ms: number) => authenticateAgent(keyed, env, now_ms, 'fresh')
  expect((await at(before_ms + REMOVED_RECORDS_MS - 1_000)).status).toBe('agent')
  expect((await at(after_ms + REMOVED_RECORDS_MS + 1_000)).status).toBe('refused')
})

it('a new token makes a new ticket key, closes the old token’s link, and the old token opens nothing', async () => {
  const before = await joined()
  const rotated = await json<{ token: string }>(admin('POST', `/agents/${agent}/rotate`))
  expect(await before.link.closed()).toBe(CLOSE.dismissed)
  expect((await open()).status).toBe(401)
  const after = await joined(rotated.token)
  expect(after.ticket_keys).not.toEqual(before.ticket_keys)
  expect(await stateOfEngine()).toBe('ready')
})

describe('records', () => {
  const send = async (record: object) => {
    const answer = await request('POST', '/agents/v1/records', token, { agent, records: [record] })
    return (await answer.json()) as { acknowledged: string[]; refused: string[] }
  }

  it('of leases that were never granted are refused for good, for every altered field', async () => {
    const own = { agent, engine: `${agent}-e0` }
    const honest = await proven(recordOf('call-1', 'call-1', 'call-1', own))
    const { lease } = honest
    for (const forged of [
      recordOf('victim', 'run', 'call-1', own),
      { ...honest, tenant: 'tenant-b' },
      { ...honest, program: 'other', run: 'other' },
      { ...honest, engine: `${agent}-e1` },
      { ...honest, lease_proof: '0'.repeat(32) },
      { ...honest, lease_proof: '' },
    ]) {
      expect(await send(forged)).toEqual({ acknowledged: [], refused: [lease] })
    }
    expect(await send(honest)).toEqual({ acknowledged: [lease], refused: [] })
  })
})
