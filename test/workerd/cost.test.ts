/**
 * What one program of ten calls is billed for on Cloudflare, counted in workerd: docs/cost.md prices these very figures. Calls
 * last longer than a flush is put off, so that each is written when it opens and when it settles, the dearer case.
 */
import { createExecutionContext, waitOnExecutionContext } from 'cloudflare:test'
import { env, exports } from 'cloudflare:workers'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { FLUSH_DELAY_MS } from '../../src/actors/program-flush.ts'
import { relayDeps } from '../../src/relay/deps.ts'
import { runCall } from '../../src/relay/run-call.ts'
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
const PROGRAM = 'metered'
const ANSWER = 'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\ndata: [DONE]\n\n'

let link: Link

beforeAll(provision)

async function linked(): Promise<void> {
  const headers = { upgrade: 'websocket', authorization: `Bearer ${TOKEN_EAST}` }
  const url = `${ORIGIN}/agents/v1/link?region=us-east&model=${MODEL}`
  const response = await exports.default.fetch(new Request(url, { headers }))
  link = new Link(response.webSocket as WebSocket)
  link.send(helloOf())
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

/** An engine that takes longer than a flush is put off. */
async function engine(_: RequestInfo | URL, init?: RequestInit): Promise<Response> {
  const ticket = new Headers(init?.headers).get('authorization') ?? ''
  dispatched = JSON.parse(atob((ticket.split('.')[1] ?? '').replaceAll('-', '+').replaceAll('_', '/')))
  await new Promise((resolve) => setTimeout(resolve, FLUSH_DELAY_MS + 100))
  return new Response(answer(), { headers: { 'content-type': 'text/event-stream' } })
}

async function call(index: number): Promise<void> {
  link.send(statusOf(index + 1, { leases_seen: dispatched.lease === undefined ? [] : [dispatched.lease] }))
  const context = createExecutionContext()
  const deps = { ...relayDeps(env, context), fetch: engine as typeof fetch }
  const messages = [{ role: 'user', content: 'Hello' }]
  const sent = new Request(`${ORIGIN}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${KEY_A}`, 'x-program-id': PROGRAM },
    body: JSON.stringify({ model: MODEL, stream: true, messages }),
  })
  const response = await runCall(sent, 'chat', deps)
  expect(await response.text()).toContain('[DONE]')
  await waitOnExecutionContext(context)
  const { call: id = '', run = '', lease = '', thread = '' } = dispatched
  const record = await proven(recordOf(PROGRAM, run, id, { lease, thread }))
  const settled = await request('POST', '/agents/v1/records', TOKEN_EAST, { agent: 'agent-east', records: [record] })
  expect(await settled.json()).toMatchObject({ acknowledged: [lease] })
}

it('a call is five requests of Durable Objects and six rows; a program some rows more when it begins and ends', async () => {
  await linked()
  const meter = new Meter()
  await meter.watch(programStub(PROGRAM))
  await call(0)
  const first = meter.billed
  for (let index = 1; index < CALLS; index++) await call(index)
  const calls = meter.billed
  expect((await request('DELETE', `/v1/programs/${PROGRAM}`, KEY_A)).status).toBe(200)
  const end = meter.billed

  const { 'tenant.programFlushed': told = 0, ...requests } = calls.requests
  expect(requests).toEqual({
    'program.admit': CALLS,
    'program.leaseOpened': CALLS,
    'program.callEnded': CALLS,
    'program.settle': CALLS,
    'pool.lease': CALLS,
  })
  // At most one in two seconds for any number of calls.
  expect(told).toBeLessThanOrEqual(CALLS)
  // The program's row, the call's and the lease's, when the call opens and when it settles.
  expect(calls.rows_written - first.rows_written).toBe(6 * (CALLS - 1))
  // Tables and bookkeeping of the first write.
  expect(first.rows_written - 6).toBeLessThanOrEqual(11)
  expect(calls.alarms_set).toBeLessThanOrEqual(2)
  // The archive: one part of a segment in R2, and the program's row in D1 with its two indexes, however many calls it had.
  expect(end.requests).toMatchObject({ 'program.end': 1, 'tenant.programEnded': 1, 'archive.append': 1 })
  expect(calls.d1_rows_written).toBe(0)
  expect(end.d1_rows_written).toBe(3)
}, 60_000)
