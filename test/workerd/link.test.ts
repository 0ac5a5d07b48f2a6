/** Links of agents over real WebSockets, and what the pool leases because of them. */
import { abortAllDurableObjects, evictDurableObject, runDurableObjectAlarm, runInDurableObject } from 'cloudflare:test'
import { env, exports } from 'cloudflare:workers'
import { afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import type { LeaseRequest } from '../../src/actors/contracts.ts'
import { AGENT_HEADER, HELLO_TIMEOUT_MS, LINKS_PER_AGENT_MAX, TICKET_KID_HEADER } from '../../src/actors/link-frames.ts'
import { LINKS_MAX, MEMBER_RETURN_MS } from '../../src/actors/pool.ts'
import { poolActor, poolStub, programActor } from '../../src/actors/stubs.ts'
import { CREDITS_MS } from '../../src/core/pool/lease-credits.ts'
import { AGENTS_PER_POOL_MAX } from '../../src/core/pool/pool-table.ts'
import { LEASE_ASKED_MS, OPEN_CALLS_PER_PROGRAM_MAX } from '../../src/core/program/program-state.ts'
import { CLOSE, deriveTicketKey, FRAME_BYTES_MAX, type HandlingDecision } from '../../src/protocol/index.ts'
import { hashSecret, ticketKidOf } from '../../src/store/secrets.ts'
import {
  admission,
  helloOf,
  KEY_A,
  leaseOf,
  MODEL,
  ORIGIN,
  openCall,
  provision,
  recordOf,
  request,
  statusOf,
  TOKEN_EAST,
  TOKEN_WEST,
} from './fixtures.ts'
import { Link, type LinkMessage } from './link-client.ts'

const EAST = { id: 'us-east', location_hint: 'enam' }

beforeAll(provision)

let links: Link[] = []
afterEach(async () => {
  vi.useRealTimers()
  for (const link of links) link.socket.close(1000)
  links = []
  await expect.poll(async () => (await pool().describe(Date.now())).engines).toEqual([])
})

describe('the handshake', () => {
  it('answers hello with the agent’s ticket key and the offset of its clock', async () => {
    const link = await connect()
    link.send(helloOf({ now_ms: Date.now() - 5_000 }))
    const welcome = await link.message()
    const kid = ticketKidOf(await hashSecret(env.KEY_PEPPER, TOKEN_EAST))
    const key = await deriveTicketKey(env.TICKET_SECRET, kid, 'agent-east')
    const expected = btoa(String.fromCharCode(...key))
      .replaceAll('+', '-')
      .replaceAll('/', '_')
      .replaceAll('=', '')
    expect(welcome).toMatchObject({ type: 'welcome', protocol: 2, ticket_keys: [{ kid, key: expected }] })
    expect(welcome.clock_offset_ms).toBeGreaterThanOrEqual(5_000)
    expect((await pool().describe(Date.now())).engines).toMatchObject([{ engine: 'agent-east-e0', state: 'ready' }])
  })

  it('tells the agent its new offset when one of the two clocks is set', async () => {
    const link = await connect()
    link.send(helloOf())
    await link.message()
    for (const [seq, off_ms] of [0, 5_000, -5_000].entries())
      link.send({ ...statusOf(seq), now_ms: Date.now() + off_ms })
    link.send({ ...statusOf(3), now_ms: Date.now() - 300_000 })
    const set = await link.message()
    expect(set).toMatchObject({ type: 'clock', clock_offset_ms: expect.any(Number) })
    expect(set.clock_offset_ms).toBeGreaterThanOrEqual(300_000)
    expect(set.clock_offset_ms).toBeLessThan(330_000)
    // It has been told, so the next status from there is in order.
    link.send({ ...statusOf(4), now_ms: Date.now() - 300_000 })
    link.send({ ...statusOf(5), now_ms: Date.now() })
    expect((await link.message()).clock_offset_ms).toBeLessThan(30_000)
  })

  type Case = [string, unknown, number]
  it.each<Case>([
    ['a version that is too new', { ...helloOf(), protocol: { min: 3, max: 4 } }, CLOSE.protocol_version],
    ['a version that is too old', { ...helloOf(), protocol: { min: 1, max: 1 } }, CLOSE.protocol_version],
    [
      'a hello of another shape in a version that we do not speak',
      { type: 'hello', protocol: { min: 9, max: 9 } },
      CLOSE.protocol_version,
    ],
    ['a hello of another shape', { type: 'hello', protocol: { min: 2, max: 2 } }, CLOSE.malformed],
    ['another agent’s hello', helloOf({ agent: 'agent-west' }), CLOSE.unauthorised],
    ['a hello for another pool', helloOf({ region: 'eu-west' }), CLOSE.malformed],
    ...['agent-west-e0', 'agent-east', 'agent-east-', 'agent-east-x-e0', 'agent-eastern-e0', '-e0'].map(
      (id) =>
        [`a hello that names the engine ${id}`, helloOf({ engines: engineNamed(id) }), CLOSE.malformed] satisfies Case,
    ),
    [
      'a hello that names an engine twice',
      helloOf({ engines: [...helloOf().engines, ...helloOf().engines] }),
      CLOSE.malformed,
    ],
    ['a data plane where a cloud keeps credentials', helloOf({ url: 'http://169.254.169.254/' }), CLOSE.unauthorised],
    ['a status before hello', statusOf(0), CLOSE.malformed],
    ['something else', { type: 'drain', engines: [] }, CLOSE.malformed],
  ])('closes on %s', async (_, message, code) => {
    const link = await connect()
    link.send(message)
    expect(await link.closed()).toBe(code)
  })

  it('speaks the highest version that both know', async () => {
    const link = await joined(helloOf({ protocol: { min: 0, max: 7 } }))
    expect(link.welcome.protocol).toBe(2)
  })

  it('takes a frame at the bound and closes on one past it', async () => {
    const link = await connect()
    const hello = JSON.stringify(helloOf())
    link.socket.send(hello + ' '.repeat(FRAME_BYTES_MAX - hello.length))
    expect((await link.message()).type).toBe('welcome')
    link.socket.send(hello + ' '.repeat(FRAME_BYTES_MAX - hello.length + 1))
    expect(await link.closed()).toBe(CLOSE.malformed)
  })
})

describe('authorisation', () => {
  const upgrade = { upgrade: 'websocket' }
  it.each([
    ['no token', 'us-east', MODEL, upgrade, 401],
    ['an unknown token', 'us-east', MODEL, { ...upgrade, authorization: `Bearer sya-${'x'.repeat(40)}` }, 401],
    ['an API key', 'us-east', MODEL, { ...upgrade, authorization: `Bearer ${KEY_A}` }, 401],
    ['another region', 'eu-west', MODEL, { ...upgrade, authorization: `Bearer ${TOKEN_EAST}` }, 403],
    ['an unknown model', 'us-east', 'nope', { ...upgrade, authorization: `Bearer ${TOKEN_EAST}` }, 404],
    ['no upgrade', 'us-east', MODEL, { authorization: `Bearer ${TOKEN_EAST}` }, 426],
    ['an id with a control character', 'us-east', '%0A', { ...upgrade, authorization: `Bearer ${TOKEN_EAST}` }, 400],
  ])('refuses a link with %s', async (_, region, model, headers, status) => {
    const path = `${ORIGIN}/agents/v1/link?region=${region}&model=${model}`
    const response = await exports.default.fetch(new Request(path, { headers: headers as Record<string, string> }))
    expect(response.status).toBe(status)
    expect(await response.json()).toHaveProperty('error.code')
  })

  it('lets no agent take the place of another by a header of its own', async () => {
    const link = await connect(TOKEN_WEST, 'eu-west', { [AGENT_HEADER]: 'agent-east' })
    link.send(helloOf({ region: 'eu-west' }))
    expect(await link.closed()).toBe(CLOSE.unauthorised)
  })
})

describe('leasing', () => {
  it('has nothing to lease without an agent', async () => {
    expect(await pool().lease(leaseRequest('lease-0'))).toMatchObject({ status: 'none', snapshot: { engines: [] } })
  })

  it('leases from the engines of a linked agent, and sends its snapshot only when it changed', async () => {
    const { link } = await joined()
    const first = await pool().lease(leaseRequest('lease-0'))
    expect(first).toMatchObject({ status: 'leased', agent: 'agent-east', engine: 'agent-east-e0', epoch: 'epoch-1' })
    const version = first.snapshot?.version ?? null
    expect(await pool().lease({ ...leaseRequest('lease-1'), snapshot_version: version })).toMatchObject({
      snapshot: null,
    })
    link.send(statusOf(0, { state: 'draining' }))
    await expect.poll(async () => (await pool().lease(leaseRequest('lease-2'))).status).toBe('none')
    const changed = await pool().lease({ ...leaseRequest('lease-3'), snapshot_version: version })
    expect(changed.snapshot?.engines).toMatchObject([{ state: 'draining' }])
  })

  it('counts leases until a report has seen them, or they are taken back', async () => {
    const { link } = await joined()
    for (let i = 0; i < 4; i++) await pool().lease(leaseRequest(`lease-${i}`))
    expect(await sinceReport()).toBe(4)
    await pool().release('lease-0')
    expect(await sinceReport()).toBe(3)
    link.send(statusOf(0, { running: 2, leases_seen: ['lease-1', 'lease-2'] }))
    await expect.poll(sinceReport).toBe(1)
  })

  it('answers a lease with what agents reported for the program’s open leases, and not for others’', async () => {
    const { link } = await joined()
    const first = { ...leaseRequest('lease-0'), program: 'charged' }
    await pool().lease(first)
    await pool().lease({ ...leaseRequest('lease-1'), program: 'another' })
    link.send(statusOf(0, { charges: [['lease-0', 70, 7], ['lease-1', 90, 9], ['forged', 5, 5]] })) // biome-ignore format: one report
    const charged = async () => (await pool().lease({ ...first, lease: 'lease-2' })).charges
    await expect.poll(charged).toMatchObject([{ lease: 'lease-0', service_wall_us: 70, service_modelled_us: 7 }])
    link.send(statusOf(1, { charges: [] }))
    await expect.poll(charged).toEqual([])
  })

  it('lets isolates lease where seats are free, and lists what they tell', async () => {
    const hello = helloOf()
    const link = await connect()
    link.send({ ...hello, engines: hello.engines.map((engine) => ({ ...engine, seats: 41 })) })
    await link.message()
    const first = await pool().lease({ ...leaseRequest('lease-0'), program: 'at-home' })
    // A quarter of the seats, of which the lease itself has taken one.
    expect(first).toMatchObject({ status: 'leased', credits: 10 })
    const at = { agent: 'agent-east', engine: 'agent-east-e0', epoch: 'epoch-1' }
    const { lease, call, tenant, program, prompt_tokens_estimate } = { ...leaseRequest('lease-1'), program: 'at-home' }
    const told = { lease, call, tenant, program, class: 'tenant', prompt_tokens_estimate, at_ms: Date.now() + 60_000 }
    const before = (await pool().figures()).leases.pinned ?? 0
    const gone = { ...told, ...at, lease: 'lease-2', epoch: 'epoch-0' }
    expect(await pool().leasedByCredit([{ ...told, ...at }, gone])).toEqual({ 'agent-east-e0': 10 })
    expect(await pool().recentLeases(1)).toMatchObject([
      { lease: 'lease-1', reason: 'pinned', pin: true, load: -40 / 41 },
    ])
    expect((await pool().recentLeases(1))[0]?.at_ms).toBeLessThanOrEqual(Date.now())
    expect((await pool().figures()).leases.pinned).toBe(before + 1)
    // The agent's report tells the load.
    expect(await sinceReport()).toBe(1)
    link.send(statusOf(0, { leases_seen: ['lease-0'], charges: [['lease-1', 70, 7]] }))
    const charged = async () => (await pool().lease({ ...leaseRequest('lease-3'), program: 'at-home' })).charges
    await expect.poll(charged).toMatchObject([{ lease: 'lease-1', service_wall_us: 70 }])
  })

  it('a drain is over when no isolate can lease there without asking', async () => {
    const hello = helloOf()
    const link = await connect()
    link.send({ ...hello, engines: hello.engines.map((engine) => ({ ...engine, seats: 41 })) })
    await link.message()
    const granted_from_ms = Date.now()
    expect((await pool().lease(leaseRequest('lease-0'))).credits).toBe(10)
    await pool().drainAgent({ agent: 'agent-east', draining: true })
    expect(Date.now()).toBeGreaterThanOrEqual(granted_from_ms + CREDITS_MS)
    expect((await pool().lease(leaseRequest('lease-1'))).status).toBe('none')
    await pool().drainAgent({ agent: 'agent-east', draining: false })
  })

  it('leases nothing from an engine that missed its reports', async () => {
    await joined()
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 3_001 })
    expect(await pool().lease(leaseRequest('lease-0'))).toMatchObject({ status: 'none' })
    expect((await pool().describe(0)).engines).toMatchObject([{ state: 'silent' }])
  })

  it('leases nothing more once the link is gone', async () => {
    const { link } = await joined()
    link.socket.close(1000)
    await expect.poll(async () => (await pool().lease(leaseRequest('lease-0'))).status).toBe('none')
  })

  it('drops a report that was overtaken', async () => {
    const { link } = await joined()
    link.send(statusOf(5, { waiting: 5 }))
    link.send(statusOf(4, { waiting: 4 }))
    link.send(helloOf({ now_ms: 0 }))
    await link.message()
    link.send(statusOf(0, { waiting: 1 }))
    await expect.poll(async () => (await pool().describe(0)).engines[0]?.waiting).toBe(1)
  })
})

describe('a second link of one agent', () => {
  it('replaces the first, whose end and whose words count no more', async () => {
    const first = await joined()
    const second = await joined()
    expect(await first.link.closed()).toBe(CLOSE.replaced)
    second.link.send(statusOf(0, { waiting: 3 }))
    await expect.poll(async () => (await pool().describe(0)).engines[0]?.waiting).toBe(3)
    expect((await pool().lease(leaseRequest('lease-0'))).status).toBe('leased')
  })
})

describe('hibernation', () => {
  it('keeps links, engines and their last report', async () => {
    const { link } = await joined()
    link.send(statusOf(3, { waiting: 2, running: 4, leases_seen: [] }))
    await expect.poll(async () => (await pool().describe(0)).engines[0]?.waiting).toBe(2)
    const before = (await pool().describe(0)).version
    await evictDurableObject(poolStub(env, EAST, MODEL))
    const after = await pool().describe(0)
    expect(after.engines).toMatchObject([{ engine: 'agent-east-e0', waiting: 2, running: 4, state: 'ready' }])
    expect(after.version).not.toBe(before)
    link.send(statusOf(4, { waiting: 7 }))
    await expect.poll(async () => (await pool().describe(0)).engines[0]?.waiting).toBe(7)
    await pool().cancel([{ lease: 'lease-0', agent: 'agent-east' }])
    expect(await link.message()).toEqual({ type: 'cancel', leases: ['lease-0'] })
  })

  it('takes a report of the largest agent', async () => {
    const { link } = await joined()
    const engines = Array.from({ length: 64 }, (_, i) => ({ ...statusOf(0).engines[0], id: `${'e'.repeat(100)}-${i}` }))
    link.send({ type: 'status', seq: 1, engines })
    link.send(statusOf(2, { waiting: 1 }))
    await expect.poll(async () => (await pool().describe(0)).engines[0]?.waiting).toBe(1)
  })
})

describe('a member without a link after a restart', () => {
  it('is leased to for a moment, and dropped by the alarm if it does not come back', async () => {
    await joined()
    await abortAllDurableObjects()
    expect((await pool().lease(leaseRequest('lease-0'))).status).toBe('leased')
    const stub = poolStub(env, EAST, MODEL)
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + MEMBER_RETURN_MS })
    expect(await runDurableObjectAlarm(stub)).toBe(true)
    expect((await pool().lease(leaseRequest('lease-1'))).status).toBe('none')
    await runInDurableObject(stub, async (instance) => instance.alarm?.())
    expect((await pool().describe(0)).engines).toEqual([])
  })

  it('stays if it came back', async () => {
    await joined()
    await abortAllDurableObjects()
    await pool().describe(0)
    await joined()
    await runDurableObjectAlarm(poolStub(env, EAST, MODEL))
    expect((await pool().lease(leaseRequest('lease-0'))).status).toBe('leased')
  })
})

describe('bounds', () => {
  it(`holds ${LINKS_MAX} links and refuses one more`, async () => {
    const region = { id: 'crowded', location_hint: null }
    const open = (_: unknown, i: number) => upgrade(region, `agent-${i}`)
    const opened = await Promise.all(Array.from({ length: LINKS_MAX }, open))
    expect(opened.every(({ status }) => status === 101)).toBe(true)
    expect((await upgrade(region, 'agent-late')).status).toBe(503)
  })

  it(`keeps ${LINKS_PER_AGENT_MAX} links of one agent and closes its oldest that never said hello for one more`, async () => {
    const region = { id: 'greedy', location_hint: null }
    const open = async () => new Link((await upgrade(region, 'agent-east')).webSocket as WebSocket)
    const held: Link[] = []
    for (let i = 0; i < LINKS_PER_AGENT_MAX; i++) held.push(await open())
    held[1]?.send(helloOf({ region: 'greedy' }))
    expect((await held[1]?.message())?.type).toBe('welcome')
    await open()
    expect(await held[0]?.closed()).toBe(CLOSE.replaced)
    await open()
    expect(await held[2]?.closed()).toBe(CLOSE.replaced)
    const { engines } = await poolActor(env, region, MODEL).describe(0)
    expect(engines).toMatchObject([{ agent: 'agent-east', state: 'ready' }])
  })

  it('closes a link that has not said hello in time', async () => {
    const region = { id: 'mute', location_hint: null }
    const mute = new Link((await upgrade(region, 'agent-east')).webSocket as WebSocket)
    const stub = poolStub(env, region, MODEL)
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + HELLO_TIMEOUT_MS - 1_000 })
    await runDurableObjectAlarm(stub)
    expect(mute.socket.readyState).toBe(WebSocket.OPEN)
    vi.setSystemTime(Date.now() + 1_100)
    expect(await runDurableObjectAlarm(stub)).toBe(true)
    vi.useRealTimers()
    expect(await mute.closed()).toBe(CLOSE.malformed)
  })

  it(`has room for ${AGENTS_PER_POOL_MAX} agents and sends one more away`, async () => {
    const region = { id: 'full', location_hint: null }
    const join = async (i: number) => {
      const link = new Link((await upgrade(region, `agent-${i}`)).webSocket as WebSocket)
      const engines = helloOf().engines.map((engine) => ({ ...engine, id: `agent-${i}-e0` }))
      link.send(helloOf({ agent: `agent-${i}`, region: 'full', engines }))
      return link
    }
    for (let i = 0; i < AGENTS_PER_POOL_MAX; i++) expect((await (await join(i)).message()).type).toBe('welcome')
    expect(await (await join(AGENTS_PER_POOL_MAX)).closed()).toBe(1013)
  })
})

it('cancels a program’s open calls on their engine when it is ended', async () => {
  const { link } = await joined()
  await openCall('cancelled', 'call-0')
  await openCall('cancelled', 'call-1')
  await request('DELETE', '/v1/programs/cancelled', KEY_A)
  expect(await link.message()).toEqual({ type: 'cancel', leases: ['lease-call-0', 'lease-call-1'] })
})

const HANDLED: HandlingDecision = {
  handling: 'preserve',
  reason: 'least_waste',
  waste: { preserve: 10, discard: 20, swap: null },
}

describe('a program that goes on on another engine', () => {
  /** Its first call has ended in a tool on agent-east. The second one is leased to this engine. */
  async function moves(program: string, decided: HandlingDecision, engine: string): Promise<string> {
    const actor = programActor(env, 'tenant-a', program)
    const run = await openCall(program, `${program}-1`)
    await actor.settle([recordOf(program, run, `${program}-1`, { tools: ['search'], handled: decided })])
    await actor.admit(admission(program, `${program}-2`))
    const region = engine.startsWith('agent-east') ? 'us-east' : 'eu-west'
    const place = { engine, agent: engine.slice(0, -'-e0'.length), region }
    await actor.leaseOpened({ ...leaseOf(run, `${program}-2`), ...place })
    return run
  }

  it('has the KV discarded that the first one keeps for it', async () => {
    const { link } = await joined()
    const run = await moves('moving', HANDLED, 'agent-west-e0')
    const told = { engine: 'agent-east-e0', tenant: 'tenant-a', program: 'moving', run }
    expect(await link.message()).toEqual({ type: 'handle', handling: 'discard', ...told })
  })

  it('has nothing discarded where it stays, or where nothing is kept', async () => {
    const { link } = await joined()
    await moves('staying', HANDLED, 'agent-east-e0')
    await moves('leaving', { ...HANDLED, handling: 'discard' }, 'agent-west-e0')
    await pool().cancel([{ lease: 'last', agent: 'agent-east' }])
    expect(await link.message()).toEqual({ type: 'cancel', leases: ['last'] })
  })
})

describe('a program that has ended', () => {
  const of = (program: string, run: string) => ({ engine: 'agent-east-e0', tenant: 'tenant-a', program, run })

  it('has the KV discarded that an engine keeps for it', async () => {
    const { link } = await joined()
    const actor = programActor(env, 'tenant-a', 'ending')
    const run = await openCall('ending', 'ending-1')
    await actor.settle([recordOf('ending', run, 'ending-1', { tools: ['search'], handled: HANDLED })])
    await actor.end(Date.now())
    expect(await link.message()).toEqual({ type: 'handle', handling: 'discard', ...of('ending', run) })
  })

  it('has it discarded too if the record that says so comes after its end', async () => {
    const { link } = await joined()
    const actor = programActor(env, 'tenant-a', 'ended')
    const run = await openCall('ended', 'ended-1')
    await actor.end(Date.now())
    await actor.settle([recordOf('ended', run, 'ended-1', { tools: ['search'], handled: HANDLED })])
    expect(await link.message()).toEqual({ type: 'handle', handling: 'discard', ...of('ended', run) })
  })
})

function engineNamed(id: string) {
  return helloOf().engines.map((engine) => ({ ...engine, id }))
}

function upgrade(region: { id: string; location_hint: null }, agent: string): Promise<Response> {
  const headers = { upgrade: 'websocket', [AGENT_HEADER]: agent, [TICKET_KID_HEADER]: 'kid' }
  return poolStub(env, region, MODEL).fetch('https://pool/link', { headers })
}

async function connect(token = TOKEN_EAST, region = 'us-east', more: Record<string, string> = {}): Promise<Link> {
  const headers = { upgrade: 'websocket', authorization: `Bearer ${token}`, ...more }
  const path = `${ORIGIN}/agents/v1/link?region=${region}&model=${MODEL}`
  const response = await exports.default.fetch(new Request(path, { headers }))
  expect(response.status).toBe(101)
  const link = new Link(response.webSocket as WebSocket)
  links.push(link)
  return link
}

async function joined(hello = helloOf()): Promise<{ link: Link; welcome: LinkMessage }> {
  const link = await connect()
  link.send(hello)
  return { link, welcome: await link.message() }
}

function pool() {
  return poolActor(env, EAST, MODEL)
}

async function sinceReport(): Promise<number | undefined> {
  return (await pool().describe(0)).engines[0]?.leases_since_report
}

function leaseRequest(lease: string): LeaseRequest {
  return {
    ...{ call: 'call', lease, tenant: 'tenant-a', program: 'program', prompt_tokens_estimate: 10, pin: null },
    ...{ class: 'tenant', excluded_engines: [], max_load: null, spilled: false, snapshot_version: null },
    now_ms: Date.now(),
  }
}

describe('leases whose dispatch died', () => {
  const lateBy = (ms: number) => vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + ms })

  it('are given up when their agent says that it does not have them, and the program takes calls again', async () => {
    const { link } = await joined()
    const calls = Array.from({ length: OPEN_CALLS_PER_PROGRAM_MAX }, (_, i) => `call-${i}`)
    for (const call of calls) await openCall('blocked', call)
    const admitted = async () =>
      (await programActor(env, 'tenant-a', 'blocked').admit(admission('blocked', 'next'))).status
    expect(await admitted()).toBe('refused')
    lateBy(LEASE_ASKED_MS)
    link.send(statusOf(1))
    expect(await admitted()).toBe('refused')
    const question = await link.message()
    expect(question).toMatchObject({ type: 'ask' })
    const asked = question.leases as string[]
    expect(asked).toHaveLength(calls.length)
    link.send({ type: 'open', id: question.id, leases: asked.slice(1) })
    await expect.poll(admitted).toBe('admitted')
    const summary = await programActor(env, 'tenant-a', 'blocked').describe(Date.now())
    expect(summary?.open_calls).toBe(OPEN_CALLS_PER_PROGRAM_MAX)
  })

  it('stay open while nobody answers for them', async () => {
    const { link } = await joined()
    await openCall('unsure', 'call-0')
    lateBy(LEASE_ASKED_MS)
    expect(await pool().askForLost([{ lease: 'x', agent: 'agent-west' }])).toEqual([])
    const asking = pool().askForLost([{ lease: 'lease-call-0', agent: 'agent-east' }])
    const { id } = await link.message()
    link.send({ type: 'open', id: (id as number) + 1, leases: [] })
    expect(await asking).toEqual([])
    expect((await programActor(env, 'tenant-a', 'unsure').describe(Date.now()))?.open_calls).toBe(1)
  })
})
