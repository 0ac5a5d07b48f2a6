/** The HostsActor over real WebSockets: plans, stages, epochs, lost hosts and coordinators, floods, two applications that want one host. */
import { abortAllDurableObjects, runDurableObjectAlarm, runInDurableObject } from 'cloudflare:test'
import { env, exports } from 'cloudflare:workers'
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { HOST_RETURN_MS } from '../../src/actors/hosts/hosts-actor.ts'
import { PLANS_PER_TENANT_MAX } from '../../src/actors/hosts/loan-book.ts'
import {
  HOME_KEPT_MS,
  type PlanReply,
  type PlanRequest,
  RUN_INTERVAL_MS,
  type RunReply,
} from '../../src/actors/hosts-rpc.ts'
import { hostsActor, hostsStub } from '../../src/actors/stubs.ts'
import { LOAN_IDLE_MS, PLAN_KEPT_MS } from '../../src/core/hosts/loan.ts'
import { LINK_UNITS_MAX } from '../../src/core/pool/link-budget.ts'
import { CLOSE } from '../../src/protocol/index.ts'
import { helloOf, json, ORIGIN, provision, request, statusOf, TOKEN_EAST } from './fixtures.ts'
import { HostClient, hostHello, openHostLink, PLAN } from './host-client.ts'
import { Link } from './link-client.ts'

const ADMIN = 'test-admin-key'
const APP = { tenant: 'tenant-a', application: 'app' }
/** A stub is broken once its object was aborted. */
const hosts = () => hostsActor(env)

beforeAll(async () => {
  await provision()
  for (const tenant of ['tenant-a', 'tenant-b'])
    expect((await request('PATCH', `/admin/v1/tenants/${tenant}`, ADMIN, { borrow_gpus_max: 8 })).status).toBe(200)
})
beforeEach(() => {
  vi.spyOn(console, 'warn').mockImplementation(() => undefined)
})

let clients: HostClient[] = []
let applications: { tenant: string; application: string }[] = []
afterEach(async () => {
  vi.useRealTimers()
  vi.restoreAllMocks()
  for (const application of applications) await hosts().release(application)
  for (const client of clients) client.close()
  await expect.poll(async () => (await hosts().hosts()).filter(({ linked }) => linked)).toEqual([])
  clients = []
  applications = []
})

async function host(agent: string, change: Parameters<typeof hostHello>[1] = {}): Promise<HostClient> {
  const client = await HostClient.join(agent, change)
  clients.push(client)
  return client
}

function planOf(change: Partial<PlanRequest> = {}): PlanRequest {
  const node = (id: string, model: string) => ({ id, model, template_tokens: 0 })
  const nodes = [
    { ...node('a', 'small'), requests: { count: 10, tokens: 5 } },
    { ...node('b', 'large'), from: { nodes: ['a'], each: 1 } },
  ]
  return { ...APP, nodes: { name: 'x', nodes }, regions: null, gpus_max: null, seed: 1, ...change }
}

function plan(change: Partial<PlanRequest> = {}): Promise<PlanReply> {
  const asked = planOf(change)
  applications.push(asked)
  return hosts().plan(asked)
}

async function planned(change: Partial<PlanRequest> = {}) {
  const reply = await plan(change)
  if (reply.status !== 'planned') throw new Error(reply.message)
  const { tenant, application } = planOf(change)
  const run = (...done: string[]): Promise<RunReply> =>
    hosts().run({ tenant, application, plan_id: reply.plan_id, done })
  return { ...reply, run }
}

const models = (client: HostClient) => client.stage?.engines.map(({ model, gpus }) => `${model} ${gpus.join('+')}`)

describe('a plan', () => {
  it('is made by a host of it, and kept', async () => {
    await host('east-1')
    const reply = await plan()
    expect(reply).toMatchObject({ status: 'planned', plan: PLAN })
    expect(reply).toMatchObject({ hosts: [{ agent: 'east-1', region: 'us-east', gpus: 2 }] })
    expect((await hosts().hosts()).find(({ agent }) => agent === 'east-1')).toMatchObject({ lent_to: null })
  })

  it('is for tenants that may borrow, and for as many GPUs', async () => {
    await host('east-1', { gpus: 8 })
    await host('east-2', { gpus: 8 })
    await request('PATCH', '/admin/v1/tenants/tenant-b', ADMIN, { borrow_gpus_max: 0 })
    const refused = await plan({ tenant: 'tenant-b' })
    expect(refused).toMatchObject({ status: 'refused', reason: 'may_not_borrow' })
    expect(refused).toMatchObject({ message: expect.stringContaining('tenants update tenant-b --borrow-gpus') })
    await request('PATCH', '/admin/v1/tenants/tenant-b', ADMIN, { borrow_gpus_max: 9 })
    const { hosts: most } = await planned({ tenant: 'tenant-b' })
    expect(most.map(({ gpus }) => gpus)).toEqual([8, 1])
    expect((await planned({ gpus_max: 3 })).hosts.map(({ gpus }) => gpus)).toEqual([3])
  })

  it('says why no host can, and what the planner says', async () => {
    expect(await plan()).toMatchObject({ status: 'refused', reason: 'no_host' })
    const client = await host('east-1')
    expect(await plan({ regions: ['eu-west'] })).toMatchObject({
      message: expect.stringContaining('east-1: its region'),
    })
    client.plan = 'the model does not fit'
    expect(await plan()).toEqual({ status: 'refused', reason: 'no_plan', message: 'the model does not fit' })
  })

  it('of a host that lies is not taken: the next one is asked', async () => {
    const [liar, honest] = [await host('east-1', { gpus: 4 }), await host('east-2')]
    liar.plan = { ...PLAN, nodes: PLAN.nodes.slice(0, 1) }
    expect((await planned()).status).toBe('planned')
    expect([liar.asked.length, honest.asked.length]).toEqual([1, 1])
  })

  it('of a tenant with many pushes out its oldest one, and no other tenant’s', async () => {
    await host('east-1')
    const foreign = await planned({ tenant: 'tenant-b', application: 'theirs' })
    const first = await planned({ application: 'app-0' })
    for (let n = 1; n <= PLANS_PER_TENANT_MAX; n += 1) await planned({ application: `app-${n}` })
    expect(await first.run()).toMatchObject({ status: 'lost' })
    expect(await foreign.run()).toMatchObject({ status: 'running' })
  })

  it('does not lend the last engine of a model, unless its operator says so', async () => {
    await host('east-1', { lend: 'spare' })
    expect(await plan()).toMatchObject({ reason: 'no_host', message: expect.stringContaining('--lend all') })
    const pool = await linked('/agents/v1/link?region=us-east&model=test-model', TOKEN_EAST)
    pool.send(helloOf())
    pool.send(statusOf(1))
    await expect.poll(async () => (await plan()).status).toBe('planned')
    pool.socket.close(1000)
  })
})

describe('a run', () => {
  it('brings the hosts from stage to stage, and returns them', async () => {
    const client = await host('east-1')
    const { run } = await planned()
    const first = await run()
    expect(first).toMatchObject({
      status: 'running',
      nodes: [
        { node: 'a', state: 'loading' },
        { node: 'b', state: 'later' },
      ],
    })
    expect(models(client)).toEqual(['small 0'])
    client.report('ready')
    await expect
      .poll(() => run())
      .toMatchObject({ nodes: [{ state: 'ready', engines: [{ engine: 'east-1-x0' }] }, {}] })
    const { epoch } = (await run()) as Extract<RunReply, { status: 'running' }>
    expect(epoch).toBe(client.stage?.epoch)
    expect(await run('a')).toMatchObject({
      status: 'running',
      nodes: [{ state: 'done' }, { node: 'b', state: 'loading' }],
    })
    expect(models(client)).toEqual(['large 0+1'])
    expect(client.stage?.epoch).toBeGreaterThan(epoch)
    client.report('failed', 'no memory')
    await expect.poll(() => run('a')).toMatchObject({ nodes: [{}, { state: 'failed', message: 'no memory' }] })
    expect(await run('a', 'b')).toEqual({ status: 'done' })
    await expect.poll(() => client.stage?.engines).toEqual([])
    expect(await run('a')).toMatchObject({ status: 'lost' })
  })

  it('is idempotent: the same nodes done give the same stage', async () => {
    const client = await host('east-1')
    const { run } = await planned()
    const replies = await Promise.all([run(), run(), run()])
    expect(new Set(replies.map((reply) => reply.status === 'running' && reply.epoch)).size).toBe(1)
    expect(client.asked.filter(({ type }) => type === 'choose')).toHaveLength(1)
  })

  it('of two applications that want one host the second waits, and gets it next', async () => {
    const client = await host('east-1')
    const [first, second] = [await planned(), await planned({ tenant: 'tenant-b', application: 'other' })]
    expect((await first.run()).status).toBe('running')
    const waits = await second.run()
    expect(waits).toMatchObject({ status: 'waiting' })
    expect(JSON.stringify(waits)).not.toContain('tenant-a')
    const third = await planned({ application: 'third' })
    expect((await third.run()).status).toBe('waiting')
    await hosts().release(APP)
    expect((await third.run()).status).toBe('waiting')
    expect((await second.run()).status).toBe('running')
    const [report] = await hosts().hosts()
    expect(report).toMatchObject({ agent: 'east-1', lent_to: { tenant: 'tenant-b', application: 'other' } })
    expect(models(client)).toEqual(['small 0'])
  })

  it('a host that links again is told its stage again', async () => {
    const before = await host('east-1')
    const { run } = await planned()
    await run()
    const again = await host('east-1')
    expect(again.stage).toMatchObject({ epoch: before.stage?.epoch, engines: [{ model: 'small' }] })
    await expect.poll(() => before.closeCode).toBe(CLOSE.replaced)
  })

  it('a coordinator that does not answer, or lies, is replaced by another host of the plan', async () => {
    const [first, second] = [await host('east-1', { gpus: 4 }), await host('east-2')]
    const { run } = await planned()
    first.placed = () => [{ node: 0, tp: 4, first_gpus: [3] }]
    expect((await run()).status).toBe('running')
    expect(second.asked.map(({ type }) => type)).toEqual(['choose'])
    expect(models(first)).toEqual(['small 0'])
    // From here on the second is asked first.
    expect((await run('a')).status).toBe('running')
    expect(first.asked.filter(({ type }) => type === 'choose')).toHaveLength(1)
  })

  it('a late answer of a coordinator, to a question of an earlier epoch, counts for nothing', async () => {
    const client = await host('east-1')
    const { run } = await planned()
    await run()
    client.placed = null
    const asking = run('a')
    await expect.poll(() => client.asked.filter(({ type }) => type === 'choose')).toHaveLength(2)
    const { id, epoch } = client.asked.at(-1) as { id: number; epoch: number }
    const placed = [{ node: 1, tp: 2, first_gpus: [0] }]
    client.send({
      type: 'chosen',
      id,
      epoch: epoch - 1,
      outcome: { ok: true, placed: [{ node: 1, tp: 1, first_gpus: [1] }] },
    })
    client.send({ type: 'chosen', id, epoch, outcome: { ok: true, placed } })
    client.send({ type: 'chosen', id, epoch, outcome: { ok: true, placed: [] } })
    expect((await asking).status).toBe('running')
    expect(models(client)).toEqual(['large 0+1'])
  })

  it('survives a restart of the actor: the plan, the stage and the epoch', async () => {
    await host('east-1')
    const { run } = await planned()
    const before = (await run()) as Extract<RunReply, { status: 'running' }>
    await abortAllDurableObjects()
    clients = []
    const client = await host('east-1')
    expect(client.stage).toMatchObject({ epoch: before.epoch, engines: [{ model: 'small', gpus: [0] }] })
    expect(await run()).toMatchObject({ status: 'running', epoch: before.epoch })
    expect(await run('a')).toMatchObject({ status: 'running', epoch: before.epoch + 1 })
  })

  it('a host that is gone for good ends the loan, and the others return', async () => {
    const [first, second] = [await host('east-1', { gpus: 4 }), await host('east-2')]
    const { run } = await planned()
    await run()
    first.close()
    await expect.poll(async () => (await hosts().hosts())[0]?.linked).toBe(false)
    expect((await run()).status).toBe('running')
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + HOST_RETURN_MS })
    expect(await run()).toMatchObject({ status: 'lost', message: expect.stringContaining('east-1') })
    vi.useRealTimers()
    await expect.poll(() => second.stage?.engines).toEqual([])
    expect((await planned()).hosts.map(({ agent }) => agent)).toEqual(['east-2'])
  })

  it('an application that does not ask loses its hosts, and one that only planned loses its plan', async () => {
    const client = await host('east-1')
    const { run } = await planned()
    const other = await planned({ application: 'other' })
    await run()
    const now_ms = Date.now()
    expect(RUN_INTERVAL_MS).toBeLessThan(LOAN_IDLE_MS / 4)
    vi.useFakeTimers({ toFake: ['Date'], now: now_ms + LOAN_IDLE_MS })
    await runDurableObjectAlarm(hostsStub(env))
    vi.useRealTimers()
    await expect.poll(() => client.stage?.engines).toEqual([])
    expect(await run()).toMatchObject({ status: 'lost' })
    vi.useFakeTimers({ toFake: ['Date'], now: now_ms + PLAN_KEPT_MS + LOAN_IDLE_MS })
    await runDurableObjectAlarm(hostsStub(env))
    expect(await other.run()).toMatchObject({ status: 'lost' })
  })

  it('returns for an online call that finds no engine, and is lent again when its own models have long had none', async () => {
    // It stays at home for a while, so no other test has it.
    const client = await host('home-1')
    const { run } = await planned()
    const before = (await run()) as Extract<RunReply, { status: 'running' }>
    await hosts().returnFor({ model: 'test-model', regions: ['eu-west'] })
    await hosts().returnFor({ model: 'small', regions: ['us-east'] })
    expect(models(client)).toEqual(['small 0'])
    const before_ms = Date.now()
    await hosts().returnFor({ model: 'test-model', regions: ['eu-west', 'us-east'] })
    const after_ms = Date.now()
    await expect.poll(() => client.stage?.engines).toEqual([])
    expect(client.stage?.epoch).toBeGreaterThan(before.epoch)
    expect(await run('a')).toEqual({ status: 'waiting', message: expect.stringContaining('online calls need') })
    // A plan may be made meanwhile, and waits too.
    const other = await planned({ tenant: 'tenant-b', application: 'other' })
    expect((await other.run()).status).toBe('waiting')
    vi.useFakeTimers({ toFake: ['Date'], now: before_ms + HOME_KEPT_MS - 1 })
    expect((await run('a')).status).toBe('waiting')
    expect((await other.run()).status).toBe('waiting')
    vi.setSystemTime(after_ms + HOME_KEPT_MS)
    const again = await run('a')
    expect(again).toMatchObject({ status: 'running', nodes: [{ state: 'done' }, { node: 'b' }] })
    expect(models(client)).toEqual(['large 0+1'])
  })

  it('returns one host for a model, not all that have it', async () => {
    const [first, second] = [await host('home-2'), await host('home-3')]
    const one = await planned({ gpus_max: 2 })
    expect((await one.run()).status).toBe('running')
    const two = await planned({ tenant: 'tenant-b', application: 'other', gpus_max: 2 })
    expect((await two.run()).status).toBe('running')
    for (let call = 0; call < 3; call += 1) await hosts().returnFor({ model: 'test-model', regions: ['us-east'] })
    await expect.poll(() => [first, second].filter(({ stage }) => stage?.engines.length === 0)).toHaveLength(1)
    expect([await one.run(), await two.run()].map(({ status }) => status).sort()).toEqual(['running', 'waiting'])
  })

  it('a host that the operator drains returns at once and is lent no more', async () => {
    const client = await host('east-1')
    const { run } = await planned()
    await run()
    await hosts().drainAgent({ agent: 'east-1', draining: true })
    await expect.poll(() => client.stage?.engines).toEqual([])
    expect(await plan()).toMatchObject({ reason: 'no_host', message: expect.stringContaining('drains it') })
    await hosts().drainAgent({ agent: 'east-1', draining: false })
    expect((await plan()).status).toBe('planned')
  })

  it('a host that the operator removes is gone', async () => {
    const client = await host('gone-1')
    const { run } = await planned()
    await run()
    await hosts().refuseAgent({ agent: 'gone-1', except_kid: null })
    await expect.poll(() => client.closeCode).toBe(CLOSE.dismissed)
    expect((await openHostLink('gone-1')).status).toBe(403)
    expect(await run()).toMatchObject({ status: 'lost' })
    clients = []
  })
})

async function linked(path: string, token: string): Promise<Link> {
  const headers = { upgrade: 'websocket', authorization: `Bearer ${token}` }
  const answer = await exports.default.fetch(new Request(`${ORIGIN}${path}`, { headers }))
  if (answer.webSocket === null) throw new Error(await answer.text())
  return new Link(answer.webSocket)
}

describe('the link', () => {
  it('is opened with the agent’s token, in its own region', async () => {
    const link = await linked('/agents/v1/host?region=us-east', TOKEN_EAST)
    link.send(hostHello('agent-east'))
    expect(await link.message()).toEqual({ type: 'welcome', protocol: 1 })
    expect(await link.message()).toMatchObject({ type: 'stage', engines: [] })
    const listed = await json<{ data: { agent: string }[] }>(request('GET', '/admin/v1/hosts', ADMIN))
    expect(listed.data.find(({ agent }) => agent === 'agent-east')).toMatchObject({
      linked: true,
      lend: 'all',
      gpus: 2,
    })
    link.socket.close(1000)
    await expect(linked('/agents/v1/host?region=eu-west', TOKEN_EAST)).rejects.toThrow('wrong_region')
    await expect(linked('/agents/v1/host?region=us-east', 'sya-wrong')).rejects.toThrow('invalid_agent_token')
  })

  it.each([
    ['another agent’s name', hostHello('someone'), CLOSE.unauthorised],
    [
      'engines of another agent',
      hostHello('east-9', { home: [{ id: 'x-e0', model: 'm', gpus: [0] }] }),
      CLOSE.malformed,
    ],
    ['a version that is too new', { ...hostHello('east-9'), protocol: { min: 2, max: 3 } }, CLOSE.protocol_version],
    ['no GPUs', { ...hostHello('east-9'), gpus: 0 }, CLOSE.malformed],
    ['no hello', { type: 'status', seq: 1, epoch: 0, engines: [] }, CLOSE.malformed],
    ['no message', { type: 'what' }, CLOSE.malformed],
  ])('refuses %s', async (_, message, code) => {
    const client = await HostClient.open('east-9')
    client.send(message)
    await expect.poll(() => client.closeCode).toBe(code)
  })

  it('a host that floods loses its link and is barred; the others are served', async () => {
    await host('east-1')
    const flooding = await HostClient.join('flooding')
    for (let n = 0; n < 2 * LINK_UNITS_MAX; n += 1) flooding.report('ready')
    await expect.poll(() => flooding.closeCode).toBe(CLOSE.flooded)
    expect((await openHostLink('flooding')).status).toBe(429)
    expect((await planned()).hosts.map(({ agent }) => agent)).toEqual(['east-1'])
  })

  it('stores a hello once', async () => {
    const client = await host('east-1')
    const written = () =>
      runInDurableObject(hostsStub(env), (_, { storage }) => storage.sql.exec('SELECT total_changes() AS n').one().n)
    const before = await written()
    for (let n = 0; n < 3; n += 1) client.send(hostHello('east-1'))
    await expect.poll(() => client.stages.length).toBe(4)
    expect(await written()).toBe(before)
  })
})
