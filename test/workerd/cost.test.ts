/** What calls are billed for on Cloudflare, by kind, counted in workerd: docs/cost.md prices these very figures. */
import { createExecutionContext, waitOnExecutionContext } from 'cloudflare:test'
import { env, exports } from 'cloudflare:workers'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { FLUSH_DELAY_MS } from '../../src/actors/idempotency-actor.ts'
import { OPENING_DELAY_MS } from '../../src/actors/opening-write.ts'
import { idempotencyActor } from '../../src/actors/stubs.ts'
import { BASE_SHARDS } from '../../src/core/call/idempotency-shards.ts'
import { CREDITS_MS } from '../../src/core/pool/lease-credits.ts'
import { relayDeps } from '../../src/relay/deps.ts'
import { runCall } from '../../src/relay/run-call.ts'
import { catalogue } from '../../src/store/catalogue.ts'
import { Meter } from './billing.ts'
import {
  helloOf,
  KEY_A,
  MODEL,
  ORIGIN,
  programStub,
  proven,
  provision,
  recordOf,
  request,
  statusOf,
  TOKEN_EAST,
} from './fixtures.ts'
import { Link } from './link-client.ts'

const CALLS = 10
/** An isolate keeps its catalogue for ten seconds. */
const CATALOGUE_MS = { timeout: 15_000, interval: 500 }
/** Of docs/cost.md's mix. */
const CALL_MS = 2_000
const CALL_EVERY_MS = 3_000
const ANSWER = 'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\ndata: [DONE]\n\n'

/** A call that gives an actor up asks another one. */
const PATIENT = {
  ...{ admit_timeout_ms: 60_000, pool_timeout_ms: 60_000, conversation_timeout_ms: 60_000, key_timeout_ms: 60_000 },
}

let link: Link
let meter: Meter

beforeAll(async () => {
  await provision()
  meter = new Meter()
})

async function linked(seats = 4): Promise<void> {
  const headers = { upgrade: 'websocket', authorization: `Bearer ${TOKEN_EAST}` }
  const url = `${ORIGIN}/agents/v1/link?region=us-east&model=${MODEL}`
  const response = await exports.default.fetch(new Request(url, { headers }))
  link = new Link(response.webSocket as WebSocket)
  const hello = helloOf()
  link.send({ ...hello, engines: hello.engines.map((engine) => ({ ...engine, seats })) })
  await link.message()
}

afterAll(() => {
  link.socket.close(1000)
  vi.restoreAllMocks()
})

/** The claims of the ticket that the engine got. */
let dispatched: Record<string, string> = {}

/** A stream, as from a network: workerd cannot pipe one branch of a text body's tee. */
function answer(): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      controller.enqueue(new TextEncoder().encode(ANSWER))
      controller.close()
    },
  })
}

let statuses = 0
let engine_ms = 0
/** The engine answers when this is so. */
let engineMay = (): boolean => true

async function engine(_: RequestInfo | URL, init?: RequestInit): Promise<Response> {
  const ticket = new Headers(init?.headers).get('authorization') ?? ''
  dispatched = JSON.parse(atob((ticket.split('.')[1] ?? '').replaceAll('-', '+').replaceAll('_', '/')))
  do await new Promise((resolve) => setTimeout(resolve, engine_ms))
  while (!engineMay())
  return new Response(answer(), { headers: { 'content-type': 'text/event-stream' } })
}

interface Asked {
  program: string | null
  headers?: Record<string, string>
  content?: string
}

/** One call and its record. */
async function call({ program, headers = {}, content = 'Hello' }: Asked): Promise<void> {
  statuses += 1
  link.send(statusOf(statuses, { leases_seen: dispatched.lease === undefined ? [] : [dispatched.lease] }))
  const context = createExecutionContext()
  const made = relayDeps(env, context)
  const deps = { ...made, fetch: engine as typeof fetch, times: { ...made.times, ...PATIENT } }
  const sent = new Request(`${ORIGIN}/v1/chat/completions`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${KEY_A}`,
      ...(program === null ? {} : { 'x-program-id': program }),
      ...headers,
    },
    body: JSON.stringify({ model: MODEL, stream: true, messages: [{ role: 'user', content }] }),
  })
  const response = await runCall(sent, 'chat', deps)
  expect(await response.text()).toContain('[DONE]')
  await waitOnExecutionContext(context)
  const { program: billed = '', call: id = '', run = '', lease = '', thread = '' } = dispatched
  const record = await proven(recordOf(billed, run, id, { lease, thread }), { granted_at_ms: Date.now() })
  const settled = await request('POST', '/agents/v1/records', TOKEN_EAST, { agent: 'agent-east', records: [record] })
  expect(await settled.json()).toMatchObject({ acknowledged: [lease] })
}

/** Not of each call: a tenant is told at most once in eight seconds, its index is written and a pool asks for a class once in a minute. */
const SHARED = ['tenant.programFlushed', 'tenant.alarm', 'class.sketch']

/** What the calls cost. */
async function costOf(calls: () => Promise<void>) {
  const before = meter.billed
  await calls()
  const after = meter.billed
  const requests: Record<string, number> = {}
  for (const [name, times] of Object.entries(after.requests)) {
    const more = times - (before.requests[name] ?? 0)
    if (more > 0 && !SHARED.includes(name)) requests[name] = more
  }
  const rows = after.rows_written - before.rows_written
  const { 'program.alarm': fired = 0, ...of_calls } = requests
  // On a slow machine an alarm may come while a call is open, and writes it.
  const least = rows - fired
  const d1_rows = after.d1_rows_written - before.d1_rows_written
  return { requests: of_calls, rows, least, fired, alarms: after.alarms_set - before.alarms_set, d1_rows }
}

/** Its spend is no request of its own: its program tells it with what it tells anyway. */
const THREE = { 'program.admit': 1, 'pool.lease': 1, 'program.settle': 1 }

it('a call of a live, named program is three requests and one row, and shares an alarm', async () => {
  await linked()
  const program = 'metered'
  await meter.watch(programStub(program))
  const first = await costOf(() => call({ program }))
  expect(first.requests).toEqual({ ...THREE, 'program.leaseOpened': 1 })
  // The program's row and the call's. The rest are two tables.
  expect(first.rows).toBeLessThanOrEqual(2 + 4)
  const others = await costOf(async () => {
    for (let index = 1; index < CALLS; index++) await call({ program })
  })
  const each = CALLS - 1
  expect(others.requests).toEqual({
    'program.admit': each,
    'pool.lease': each,
    'program.settle': each,
  })
  expect(others.least).toBeLessThanOrEqual(each)
  expect(first.alarms + others.alarms).toBeLessThanOrEqual(2 + 2 * others.fired)
  // Its archive has its tables, and is not being watched for what it has to forget.
  await call({ program: 'before' })
  expect((await request('DELETE', '/v1/programs/before', KEY_A)).status).toBe(200)
  await meter.watch(env.ARCHIVE.getByName('tenant-a'))
  const end = await costOf(async () => {
    expect((await request('DELETE', `/v1/programs/${program}`, KEY_A)).status).toBe(200)
  })
  // The archive: one part of a segment in R2, and the program's row with its two indexes, however many calls it had.
  expect(end.requests).toMatchObject({ 'program.end': 1, 'tenant.programEnded': 1, 'archive.keep': 1 })
  // And the program's own row, whose end is stored before.
  expect([end.rows, end.d1_rows]).toEqual([3 + 1, 0])
})

it('a call that is open when its opening is due is written then too', async () => {
  const program = 'long'
  await meter.watch(programStub(program))
  await call({ program })
  const before = meter.billed.rows_written
  engine_ms = OPENING_DELAY_MS.alarm + 1_500
  engineMay = () => meter.billed.rows_written > before
  const long = await costOf(() => call({ program }))
  engine_ms = 0
  engineMay = () => true
  expect(long.requests).toEqual(THREE)
  expect(long.fired).toBeGreaterThan(0)
  expect(long.rows).toBe(2)
  // For its opening, and for when its program goes stale.
  expect(long.alarms).toBeLessThanOrEqual(long.fired + 1)
})

it('where seats are free, a call at its program’s home is two requests, and its pool is told of it with others', async () => {
  await linked(64)
  const program = 'at-home'
  // A region counts as one with engines once the isolate has read the catalogue again.
  await vi.waitFor(
    async () => expect((await catalogue(env)).linked.get(MODEL)?.has('us-east')).toBe(true),
    CATALOGUE_MS,
  )
  await call({ program })
  const others = await costOf(async () => {
    for (let index = 1; index < CALLS; index++) await call({ program })
  })
  const { 'pool.leasedByCredit': told = 0, ...each } = others.requests
  expect(each).toEqual({ 'program.admit': CALLS - 1, 'program.settle': CALLS - 1 })
  // Each of these calls waits until its pool has been told. Those of a quarter of a second share a message.
  expect(told).toBe(CALLS - 1)
  // The other calls here are of an engine that has hardly a seat to give away.
  await linked()
  await new Promise((resolve) => setTimeout(resolve, CREDITS_MS))
})

it('a call under a budget is stored before it goes on', async () => {
  const program = 'budgeted'
  const headers = { 'x-program-budget': 'tokens=100000' }
  await meter.watch(programStub(program))
  await call({ program, headers })
  const budgeted = await costOf(() => call({ program, headers }))
  expect(budgeted.requests).toEqual(THREE)
  expect(budgeted.least).toBeLessThanOrEqual(2)
})

it('a call that names no program asks for its conversation, and tells what was answered', async () => {
  const alone = await costOf(() => call({ program: null, content: 'of nobody' }))
  const inferred = { 'conversation.place': 1, 'conversation.answered': 1 }
  expect(alone.requests).toEqual({ ...THREE, ...inferred, 'program.leaseOpened': 1 })
})

it('a call under an Idempotency-Key is two requests more, and two rows of its shard', async () => {
  const program = 'keyed'
  await meter.watch(programStub(program))
  await call({ program })
  const { id } = idempotencyActor(env, 'tenant-a', 'first') as unknown as DurableObjectStub
  const names = Array.from({ length: BASE_SHARDS }, (_, shard) => JSON.stringify(['tenant-a', shard]))
  const name = names.find((one) => env.IDEMPOTENCY.idFromName(one).equals(id)) ?? expect.unreachable()
  const isOfShard = (key: string) =>
    (idempotencyActor(env, 'tenant-a', key) as unknown as DurableObjectStub).id.equals(id)
  const second = Array.from({ length: 1_000 }, (_, at) => `second-${at}`).find(isOfShard) ?? expect.unreachable()
  await meter.watch(env.IDEMPOTENCY.getByName(name))
  const written = () => new Promise((resolve) => setTimeout(resolve, 5 * FLUSH_DELAY_MS))
  // Its shard makes its tables.
  await call({ program, headers: { 'idempotency-key': 'first' } })
  await written()
  engine_ms = 5 * FLUSH_DELAY_MS
  const keyed = await costOf(async () => {
    await call({ program, headers: { 'idempotency-key': second } })
    await written()
  })
  engine_ms = 0
  expect(keyed.requests).toEqual({ ...THREE, 'idempotency.claim': 1, 'idempotency.ended': 1 })
  // The call's own, and the key when it is claimed and when it is answered. In another bucket of time that is a row more, which goes.
  expect(keyed.least).toBeGreaterThanOrEqual(2)
  expect(keyed.least).toBeLessThanOrEqual(4)
})

// The last one: what the tenant's storage writes is counted from here on.
it('a program of ten calls is billed as docs/cost.md says', async () => {
  const program = 'mixed'
  await meter.watch(programStub(program))
  await meter.watch(env.TENANT.getByName('tenant-a'))
  // The tenant's first record of a day deletes what is older.
  await call({ program: 'earlier' })
  // What programs of other tests are still billed for would count too, and what they spent.
  for (const other of ['long', 'budgeted', 'keyed', 'earlier']) await request('DELETE', `/v1/programs/${other}`, KEY_A)
  expect((await request('GET', '/v1/spend', KEY_A)).status).toBe(200)
  engine_ms = CALL_MS
  const before = meter.billed
  for (let index = 0; index < CALLS; index++) {
    const next_ms = Date.now() + CALL_EVERY_MS
    await call({ program })
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, next_ms - Date.now())))
  }
  engine_ms = 0
  expect((await request('DELETE', `/v1/programs/${program}`, KEY_A)).status).toBe(200)
  // What tells its class and its tenant.
  await new Promise((resolve) => setTimeout(resolve, 500))
  // Its sums of spend are written, as they are after a while or when they are read.
  expect((await request('GET', '/v1/spend', KEY_A)).status).toBe(200)
  const after = meter.billed
  const requests = Object.fromEntries(
    Object.entries(after.requests).map(([name, times]) => [name, times - (before.requests[name] ?? 0)]),
  )
  const each = (total: number): number => total / CALLS
  const per_call = {
    objects: each(Object.values(requests).reduce((sum, times) => sum + times, 0)),
    rows: each(after.rows_written - before.rows_written),
    alarms: each(after.alarms_set - before.alarms_set),
    d1_rows: each(after.d1_rows_written - before.d1_rows_written),
    dollars: 0,
  }
  // For a million calls, as docs/cost.md has the prices.
  const { objects, rows, alarms, d1_rows } = per_call
  per_call.dollars = 0.15 * objects + 1.0 * (rows + alarms + d1_rows) + 4.5 / CALLS + 2 * 0.3
  // 4.7. On a slow machine the program takes longer, and more alarms fire.
  expect(per_call.dollars, JSON.stringify({ per_call, requests })).toBeLessThanOrEqual(5.4)
})
