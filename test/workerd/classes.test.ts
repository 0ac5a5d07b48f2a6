/**
 * What programs tell about their classes: each end once, also when actors refuse or are evicted; what is kept of it and
 * for how long; how many classes a tenant has; and what pools tell their agents.
 */
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from 'cloudflare:test'
import { env, exports } from 'cloudflare:workers'
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { CLASS_FLUSH_MS, ROW_INTERVAL_MS } from '../../src/actors/class.ts'
import { CLASS_TRIES_MAX, LATE_RECORDS_MS } from '../../src/actors/class-notifier.ts'
import type { ClassRpc, LeaseRequest } from '../../src/actors/contracts.ts'
import { ASK_INTERVAL, ASKS_AT_ONCE_MAX, classFrames } from '../../src/actors/pool-classes.ts'
import { classActor, poolActor, programActor, tenantActor } from '../../src/actors/stubs.ts'
import { ClassSketch } from '../../src/core/classes/class-sketch.ts'
import type { EndedProgram } from '../../src/core/classes/ended-program.ts'
import { CLASSES_PER_TENANT_MAX, TENANT_CLASS } from '../../src/core/classes/tenant-classes.ts'
import { CLASSES_PER_FRAME_MAX, type ClassData, Classes, FRAME_BYTES_MAX } from '../../src/protocol/index.ts'
import { knownClass, putClass } from '../../src/store/classes.ts'
import { replaceBindings, storedTables } from './actor-tools.ts'
import {
  admission,
  helloOf,
  json,
  KEY_A,
  leaseOf,
  MODEL,
  ORIGIN,
  programStub,
  provision,
  recordOf,
  request,
  statusOf,
  TOKEN_EAST,
} from './fixtures.ts'
import { Link } from './link-client.ts'

const TENANT = 'tenant-a'
const DAY_MS = 24 * 60 * 60_000
const FACTS: EndedProgram = {
  ...{ output_tokens: 50, calls: 2, path_us: 10, service_us: 20, tool_us: 30, later_prompt_tokens: 40 },
}

beforeAll(provision)
beforeEach(() => {
  const log = vi.spyOn(console, 'error').mockImplementation(() => undefined)
  return () => log.mockRestore()
})
afterEach(() => {
  vi.useRealTimers()
})

const later = (ms: number) => vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + ms })
const classStub = (name: string, tenant = TENANT) => env.CLASS.getByName(JSON.stringify([tenant, name]))
const actor = (program: string) => programActor(env, TENANT, program)
const sketchOf = async (name: string, tenant = TENANT) => (await classActor(env, tenant, name).sketch(null))?.sketch
const endsOf = async (name: string) => (await sketchOf(name))?.ends ?? 0
const framesOf = (classes: readonly ClassData[]) => classFrames(classes.map((one) => JSON.stringify(one)))
const refused = async () => {
  throw new Error('refused')
}
const d1Down = {
  prepare: () => {
    throw new Error('D1 is down')
  },
}

/** Opens a call of a program of this class. */
async function openCall(program: string, call: string, of_class: string): Promise<string> {
  const reply = await actor(program).admit(admission(program, call, { class: of_class }))
  if (reply.status !== 'admitted') throw new Error(reply.message)
  await actor(program).leaseOpened(leaseOf(reply.run, call))
  return reply.run
}

/** A program of two calls that ended after its records had come. */
async function endedProgram(program: string, of_class: string): Promise<string> {
  const calls = [`${program}-0`, `${program}-1`]
  let run = ''
  for (const call of calls) run = await openCall(program, call, of_class)
  await actor(program).settle(calls.map((call) => recordOf(program, run, call)))
  await actor(program).end(Date.now())
  return run
}

async function storedEnds(name: string, tenant = TENANT): Promise<number | null> {
  return runInDurableObject(classStub(name, tenant), async (_, { storage }) => {
    const stored = await storage.get<{ known: { sketch: { ends: number } } }>('class')
    return stored?.known.sketch.ends ?? null
  })
}

describe('a program that ends', () => {
  it('tells its class what it had, and another tenant’s class of that name learns nothing', async () => {
    await endedProgram('told', 'app:told')
    await expect.poll(() => endsOf('app:told')).toBe(1)
    const sketch = await sketchOf('app:told')
    expect(sketch).toMatchObject({ ends: 1, output_tokens: [[expect.any(Number), 1, 10]], calls: [[5, 1, 2]] })
    expect(await sketchOf('app:told', 'tenant-b')).toBeUndefined()
  })

  it('tells it once, although its end is told again and its archive changes', async () => {
    const run = await endedProgram('once', 'app:once')
    await classActor(env, TENANT, 'app:once').ended({ run, program: FACTS })
    await actor('once').settle([recordOf('once', run, 'late'), recordOf('once', run, 'later')])
    await actor('once').end(Date.now())
    expect(await endsOf('app:once')).toBe(1)
    expect((await sketchOf('app:once'))?.output_tokens[0]?.[2]).toBe(10)
  })

  it('before its last record has come tells what that says, too', async () => {
    const run = await openCall('eager', 'eager-0', 'app:eager')
    await actor('eager').end(Date.now())
    expect(await endsOf('app:eager')).toBe(0)
    await evictDurableObject(programStub('eager'))
    await actor('eager').settle([recordOf('eager', run, 'eager-0', { output_tokens: 77 })])
    await expect.poll(() => endsOf('app:eager')).toBe(1)
    expect((await sketchOf('app:eager'))?.output_tokens[0]?.[2]).toBe(77)
  })

  it('whose last record never comes tells what it had', async () => {
    const run = await openCall('lossy', 'lossy-0', 'app:lossy')
    await actor('lossy').settle([recordOf('lossy', run, 'lossy-0')])
    await openCall('lossy', 'lossy-1', 'app:lossy')
    await actor('lossy').end(Date.now())
    await runDurableObjectAlarm(programStub('lossy'))
    expect(await endsOf('app:lossy')).toBe(0)
    later(LATE_RECORDS_MS)
    await runDurableObjectAlarm(programStub('lossy'))
    expect(await endsOf('app:lossy')).toBe(1)
    expect(await runInDurableObject(programStub('lossy'), (_, state) => storedTables(state))).toEqual([])
  })

  it('without output tells nothing and takes no place', async () => {
    await actor('silent').start({ tenant: TENANT, program: 'silent', app: 'mute', metadata: null, now_ms: Date.now() })
    await actor('silent').end(Date.now())
    expect(await sketchOf('app:mute')).toBeUndefined()
  })
})

describe('the calls of a program', () => {
  const shown = async (program: string) => {
    const { data } = await json<{ data: Record<string, unknown>[] }>(
      request('GET', `/v1/programs/${program}/calls`, KEY_A),
    )
    return data.map((call) => [call.id, call.class, call.rank, call.expected_remaining_tokens])
  }

  it('say their class, and what their engine’s policy knew of them, while it runs, archived, and of late records', async () => {
    let run = ''
    for (const call of ['ranked-0', 'ranked-1', 'ranked-2']) run = await openCall('ranked', call, 'app:ranked')
    const known = { rank: -7, expected_remaining_tokens: 40.5 }
    await actor('ranked').settle([
      recordOf('ranked', run, 'ranked-0', known),
      recordOf('ranked', run, 'ranked-1', { rank: 12 }),
    ])
    const early = [
      ['ranked-0', 'app:ranked', -7, 40.5],
      ['ranked-1', 'app:ranked', 12, null],
    ]
    expect(await shown('ranked')).toEqual([...early, ['ranked-2', 'app:ranked', null, null]])
    await actor('ranked').end(Date.now())
    await expect.poll(() => actor('ranked').describe(Date.now())).toBeNull()
    expect(await shown('ranked')).toEqual([...early, ['ranked-2', 'app:ranked', null, null]])
    await actor('ranked').settle([recordOf('ranked', run, 'ranked-2', known)])
    expect(await shown('ranked')).toEqual([...early, ['ranked-2', 'app:ranked', -7, 40.5]])
  })
})

describe('while a class refuses', () => {
  const down = { CLASS: { getByName: () => ({ ended: refused }) } }

  it('its programs are archived as ever, and tell it later', async () => {
    const run = await openCall('patient', 'patient-0', 'app:patient')
    await actor('patient').settle([recordOf('patient', run, 'patient-0')])
    await replaceBindings(programStub('patient'), down)
    await actor('patient').end(Date.now())
    const archived = env.DB.prepare('SELECT count(*) AS rows FROM ended_programs WHERE program = ?').bind('patient')
    expect(await archived.first<number>('rows')).toBe(1)
    expect(await endsOf('app:patient')).toBe(0)
    await evictDurableObject(programStub('patient'))
    later(2 * 60 * 60_000)
    await runDurableObjectAlarm(programStub('patient'))
    expect(await endsOf('app:patient')).toBe(1)
    expect(await runInDurableObject(programStub('patient'), (_, state) => storedTables(state))).toEqual([])
  })

  it('its programs tell it a bounded number of times', async () => {
    const told = vi.fn(refused)
    const run = await openCall('vain', 'vain-0', 'app:vain')
    await actor('vain').settle([recordOf('vain', run, 'vain-0')])
    await replaceBindings(programStub('vain'), { CLASS: { getByName: () => ({ ended: told }) } })
    await actor('vain').end(Date.now())
    for (let alarm = 0; alarm < CLASS_TRIES_MAX + 5; alarm++) {
      later(2 * 60 * 60_000)
      await runDurableObjectAlarm(programStub('vain'))
    }
    expect(told).toHaveBeenCalledTimes(CLASS_TRIES_MAX + 1)
    expect(await runInDurableObject(programStub('vain'), (_, state) => storedTables(state))).toEqual([])
  })

  it('a record that comes while a class is told reaches the archive', async () => {
    const run = await openCall('racing', 'racing-0', 'app:racing')
    await openCall('racing', 'racing-1', 'app:racing')
    await actor('racing').settle([0, 1].map((at) => recordOf('racing', run, `racing-${at}`)))
    const settled: Promise<string[]>[] = []
    const ended = async () => {
      settled.push(actor('racing').settle([recordOf('racing', run, 'racing-2')]))
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
    await replaceBindings(programStub('racing'), { CLASS: { getByName: () => ({ ended }) } })
    await actor('racing').end(Date.now())
    expect(await Promise.all(settled)).toEqual([['lease-racing-2']])
    const program = await json(request('GET', '/v1/programs/racing', KEY_A))
    expect(program).toMatchObject({ state: 'ended', calls: 3, output_tokens: 15 })
  })

  it('a class that does not answer holds up neither the end nor another run', async () => {
    const run = await openCall('stuck', 'stuck-0', 'app:stuck')
    await actor('stuck').settle([recordOf('stuck', run, 'stuck-0')])
    await replaceBindings(programStub('stuck'), {
      CLASS: { getByName: () => ({ ended: () => new Promise(() => {}) }) },
    })
    expect((await actor('stuck').end(Date.now())).status).toBe('ended')
    expect((await actor('stuck').admit(admission('stuck', 'stuck-1'))).status).toBe('admitted')
  })
})

describe('a class', () => {
  const tell = (name: string, run: string) => classActor(env, TENANT, name).ended({ run, program: FACTS })

  it('writes nothing while it is told, then one value for all of it', async () => {
    for (let run = 0; run < 5; run++) await tell('busy', `run-${run}`)
    expect(await storedEnds('busy')).toBeNull()
    await expect.poll(() => storedEnds('busy'), { interval: CLASS_FLUSH_MS / 4 }).toBe(5)
    await evictDurableObject(classStub('busy'))
    await tell('busy', 'run-4')
    expect(await endsOf('busy')).toBe(5)
  })

  it('has a row in D1, written at most once a minute, and starts from it without its storage', async () => {
    await tell('rowed', 'run-0')
    await expect.poll(() => storedEnds('rowed')).toBe(1)
    await runDurableObjectAlarm(classStub('rowed'))
    const row = () => knownClass(env.DB, TENANT, 'rowed')
    expect(await row()).toMatchObject({ tenant: TENANT, class: 'rowed', ends: 1, sketch: { ends: 1 } })
    await tell('rowed', 'run-1')
    await expect.poll(() => storedEnds('rowed')).toBe(2)
    const due_ms = await runInDurableObject(classStub('rowed'), (_, { storage }) => storage.getAlarm())
    expect(due_ms).toBe(((await row())?.updated_at_ms ?? 0) + ROW_INTERVAL_MS)
    await runDurableObjectAlarm(classStub('rowed'))
    expect(await row()).toMatchObject({ ends: 2 })

    await runInDurableObject(classStub('rowed'), async (_, { storage }) => storage.deleteAll())
    await evictDurableObject(classStub('rowed'))
    await tell('rowed', 'run-2')
    expect(await endsOf('rowed')).toBe(3)
  })

  it('does not count while its storage is lost and D1 does not say what it knew', async () => {
    await replaceBindings(classStub('unsure'), { DB: d1Down })
    await runInDurableObject(classStub('unsure'), async (instance) => {
      const told = (instance as unknown as ClassRpc).ended({ run: 'run-0', program: FACTS })
      await expect(told).rejects.toThrow('D1 is down')
    })
    await evictDurableObject(classStub('unsure'))
    await tell('unsure', 'run-0')
    expect(await endsOf('unsure')).toBe(1)
  })

  it('keeps its row for later while D1 refuses it', async () => {
    await tell('refused', 'run-0')
    await replaceBindings(classStub('refused'), { DB: d1Down })
    await expect.poll(() => storedEnds('refused')).toBe(1)
    await runDurableObjectAlarm(classStub('refused'))
    expect(await knownClass(env.DB, TENANT, 'refused')).toBeNull()
    await evictDurableObject(classStub('refused'))
    await runDurableObjectAlarm(classStub('refused'))
    expect(await knownClass(env.DB, TENANT, 'refused')).toMatchObject({ ends: 1 })
  })

  it('without an end for as long as programs are kept is forgotten, in D1 too', async () => {
    await tell('past', 'run-0')
    await expect.poll(() => storedEnds('past')).toBe(1)
    await runDurableObjectAlarm(classStub('past'))
    later(Number(env.ARCHIVE_RETENTION_DAYS) * DAY_MS - 60_000)
    await runDurableObjectAlarm(classStub('past'))
    expect(await endsOf('past')).toBe(1)
    later(120_000)
    await runDurableObjectAlarm(classStub('past'))
    expect(await endsOf('past')).toBe(0)
    expect(await knownClass(env.DB, TENANT, 'past')).toBeNull()
    expect(await runInDurableObject(classStub('past'), async (_, { storage }) => (await storage.list()).size)).toBe(0)
  })

  it('tells of programs that go on, and nothing to one that knows it all', async () => {
    const tenant = tenantActor(env, TENANT)
    const running = { app: null, source: null, started_at_ms: 1, last_arrival_ms: 1, calls: 2, service_us: 1 }
    const told = (program: string, output_tokens: number, open_calls: number, of_class = 'known') =>
      tenant.programFlushed({ ...running, program, run: `of-${program}`, class: of_class, output_tokens, open_calls })
    const actor = classActor(env, TENANT, 'known')
    expect(await actor.sketch(null)).toBeNull()
    await told('going-on', 300, 1)
    await Promise.all([told('between', 400, 0), told('fresh', 0, 1), told('other', 500, 1, 'other')])
    const first = await actor.sketch(null)
    expect(first?.sketch).toMatchObject({ ends: 0, going_on: [[expect.any(Number), 1, 300]] })
    await tell('known', 'run-0')
    const second = await actor.sketch(first?.revision ?? '')
    expect(second?.sketch).toMatchObject({ ends: 1, going_on: first?.sketch.going_on })
    expect(await actor.sketch(second?.revision ?? '')).toBeNull()
    await tenant.programEnded('going-on', 'of-going-on')
    expect((await actor.sketch(second?.revision ?? ''))?.sketch).toMatchObject({ ends: 1, going_on: [] })
    await replaceBindings(classStub('known'), { TENANT: { getByName: () => ({ goingOn: refused }) } })
    expect((await actor.sketch(null))?.sketch).toMatchObject({ ends: 1, going_on: [] })
  })
})

describe('a tenant whose client invents classes', () => {
  it('has a bounded number of them, and one that lost its place is forgotten', async () => {
    const tenant = tenantActor(env, 'inventive')
    const ended = (name: string) => tenant.programEnded('program', 'run', name)
    await classActor(env, 'inventive', 'invented-0').ended({ run: 'run', program: FACTS })
    await expect.poll(() => storedEnds('invented-0', 'inventive')).toBe(1)
    for (let at = 0; at < CLASSES_PER_TENANT_MAX; at++) expect(await ended(`invented-${at}`)).toBe(`invented-${at}`)
    for (let at = 0; at < 50; at++) expect(await ended(`more-${at}`)).toBe(TENANT_CLASS)
    expect(await tenant.programEnded('program', 'run')).toBeNull()
    expect(await ended('used')).toBe(TENANT_CLASS)
    expect(await ended('used')).toBe('used')
    await expect.poll(() => storedEnds('invented-0', 'inventive')).toBeNull()
  })

  it('keeps them when its actor is evicted', async () => {
    const tenant = tenantActor(env, 'evicted')
    for (let at = 0; at < CLASSES_PER_TENANT_MAX; at++) await tenant.programEnded('program', 'run', `c${at}`)
    const stub = env.TENANT.getByName('evicted')
    const stored = () => runInDurableObject(stub, async (_, { storage }) => storage.get<unknown[]>('classes'))
    await expect.poll(stored).toHaveLength(CLASSES_PER_TENANT_MAX)
    await evictDurableObject(stub)
    expect(await tenant.programEnded('program', 'run', 'other')).toBe(TENANT_CLASS)
    expect(await tenant.programEnded('program', 'run', 'c0')).toBe('c0')
  })
})

describe('a pool', () => {
  const pool = poolActor(env, { id: 'us-east', location_hint: null }, MODEL)
  const links: Link[] = []
  afterEach(() => {
    for (const link of links.splice(0)) link.socket.close(1000)
  })

  async function linked(): Promise<Link> {
    const headers = { upgrade: 'websocket', authorization: `Bearer ${TOKEN_EAST}` }
    const path = `${ORIGIN}/agents/v1/link?region=us-east&model=${MODEL}`
    const response = await exports.default.fetch(new Request(path, { headers }))
    const link = new Link(response.webSocket as WebSocket)
    links.push(link)
    link.send(helloOf())
    expect((await link.message()).type).toBe('welcome')
    link.send(statusOf(1))
    return link
  }

  async function lease(of_class: string): Promise<void> {
    const request: LeaseRequest = {
      ...{ call: 'call', lease: crypto.randomUUID(), tenant: TENANT, program: 'program', class: of_class },
      ...{ prompt_tokens_estimate: 10, pin: null, excluded_engines: [], max_load: null, spilled: false },
      ...{ snapshot_version: null, now_ms: Date.now() },
    }
    await expect.poll(async () => (await pool.lease(request)).status).toBe('leased')
  }

  it('tells its agents what is known of the classes of its calls, what is new and a new link all', async () => {
    await classActor(env, TENANT, 'app:led').ended({ run: 'run-0', program: FACTS })
    const link = await linked()
    await lease('app:unknown')
    await lease('app:led')
    const first = Classes.parse(await link.message())
    expect(first.classes).toMatchObject([{ tenant: TENANT, class: 'app:led', sketch: { ends: 1 } }])

    await classActor(env, TENANT, 'app:led').ended({ run: 'run-1', program: FACTS })
    const again = await linked()
    expect(Classes.parse(await again.message())).toEqual(first)
    await lease('app:led')
    later(ASK_INTERVAL.max_ms)
    again.send(statusOf(2))
    await lease('app:led')
    const second = Classes.parse(await again.message())
    expect(second.classes).toMatchObject([{ class: 'app:led', sketch: { ends: 2 } }])
  })

  it('leases as ever while a class does not answer', async () => {
    await replaceBindings(env.POOL.getByName(JSON.stringify(['us-east', MODEL, 0])), {
      CLASS: { getByName: () => ({ sketch: () => new Promise(() => {}) }) },
    })
    await linked()
    for (let at = 0; at <= ASKS_AT_ONCE_MAX; at++) await lease(`app:stuck-${at}`)
  })
})

describe('the operator', () => {
  const admin = async (path: string) => {
    const response = await request('GET', `/admin/v1/classes${path}`, env.ADMIN_KEY)
    return { status: response.status, body: await response.json<Record<string, unknown>>() }
  }
  const known = async (tenant: string, name: string, programs: readonly Partial<EndedProgram>[]) => {
    const sketch = new ClassSketch()
    for (const one of programs) sketch.add({ ...FACTS, ...one })
    const row = { tenant, class: name, ends: sketch.ends, updated_at_ms: 1_700_000_000_000, sketch: sketch.data() }
    await putClass(env.DB, row)
  }

  it('reads the classes of one tenant in pages, with their quantiles', async () => {
    const many = Array.from({ length: 100 }, (_, at) => ({ output_tokens: at < 50 ? 10 : 1000 }))
    await known('tenant-b', 'app:a', many)
    await known('tenant-b', 'app:b/c', [{ service_us: 2_500_000 }])
    await known('tenant-b', 'tenant', [{}])
    await known('tenant-a', 'app:a', [{}])
    const first = await admin('?tenant=tenant-b&limit=2')
    expect(first.body).toMatchObject({ has_more: true, data: [{ class: 'app:a' }, { class: 'app:b/c' }] })
    const [mixed, other] = first.body.data as [object, object]
    expect(mixed).toEqual({
      ...{ tenant: 'tenant-b', class: 'app:a', ends: 100, updated_at: '2023-11-14T22:13:20.000Z' },
      output_tokens: {
        ...{ p10: expect.closeTo(10), p50: expect.any(Number), p90: expect.closeTo(1000), p99: expect.closeTo(1000) },
      },
      calls: { p10: expect.closeTo(2), p50: expect.closeTo(2), p90: expect.closeTo(2), p99: expect.closeTo(2) },
      ...{ path_s: expect.anything(), service_s: expect.anything(), tool_s: expect.anything() },
      prompt_tokens_per_output_token: expect.any(Number),
    })
    expect(other).toMatchObject({ service_s: { p10: 2.5, p99: 2.5 } })
    const rest = await admin(`?tenant=tenant-b&limit=2&cursor=${first.body.next_cursor}`)
    expect(rest.body).toMatchObject({ has_more: false, data: [{ class: 'tenant', ends: 1 }] })
  })

  it('reads how programs of a class are ordered by their output so far', async () => {
    await known(
      'tenant-b',
      'app:b/c',
      Array.from({ length: 200 }, () => ({ output_tokens: 400 })),
    )
    const { status, body } = await admin('/tenant-b/app%3Ab%2Fc')
    expect(status).toBe(200)
    expect(body).toMatchObject({ tenant: 'tenant-b', class: 'app:b/c', ends: 200, objective: 'token_latency' })
    const curve = body.index as { output_tokens: number; index: number; expected_remaining_tokens: number }[]
    expect(curve[0]?.output_tokens).toBe(0)
    expect(curve.at(-1)?.output_tokens).toBeLessThanOrEqual(1600)
    expect(curve.at(-1)?.output_tokens).toBeGreaterThan(1000)
    // The nearer to its end, the sooner it runs; beyond that nothing is known of the end.
    const at = (tokens: number) => curve.findLast(({ output_tokens }) => output_tokens <= tokens)?.index ?? 0
    expect(at(350)).toBeLessThan(at(0))
    expect(at(1000)).toBeGreaterThan(at(350))
    const response = await admin('/tenant-b/app%3Ab%2Fc?objective=response')
    expect(response.body.index).not.toEqual(curve)
  })

  it.each([
    ['?limit=5', 400],
    ['?tenant=absent', 404],
    ['?tenant=tenant-b&cursor=wrong', 400],
    ['/tenant-b/app%3Aunknown', 404],
    ['/tenant-b/app%3Aa?objective=fairness', 400],
  ])('is told what is wrong with %s', async (path, status) => {
    expect((await admin(path)).status).toBe(status)
  })
})

describe('frames of classes', () => {
  const data = (name: string, bins: number): ClassData => {
    const wide = Array.from({ length: bins }, (_, bin): [number, number, number] => [bin, 1 / 3, 1e15 / 7])
    const sketch = { ...{ ends: 1, calls: wide, path_us: wide, service_us: wide, tool_us: wide } }
    return { tenant: TENANT, class: name, sketch: { ...sketch, output_tokens: wide, later_prompt_tokens: wide } }
  }
  const read = (frames: string[]) => frames.map((frame) => Classes.parse(JSON.parse(frame)).classes)

  it('hold as many as a frame may, and no more bytes', () => {
    const small = Array.from({ length: 2 * CLASSES_PER_FRAME_MAX + 1 }, (_, at) => data(`${at}`, 1))
    expect(read(framesOf(small)).map(({ length }) => length)).toEqual([CLASSES_PER_FRAME_MAX, CLASSES_PER_FRAME_MAX, 1])
    const large = Array.from({ length: 40 }, (_, at) => data(`${at}`, 213))
    const frames = framesOf(large)
    expect(frames.length).toBeGreaterThan(1)
    for (const frame of frames) expect(new TextEncoder().encode(frame).length).toBeLessThanOrEqual(FRAME_BYTES_MAX)
    expect(read(frames).flat()).toEqual(large)
    expect(framesOf([])).toEqual([])
  })
})
