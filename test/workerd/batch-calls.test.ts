/**
 * Lines of a batch through the real relay: what their tickets say, that their records are metered once and in bulk, and
 * what a line costs on Cloudflare (docs/cost.md). The engine is scripted.
 */
import { runInDurableObject } from 'cloudflare:test'
import { env, exports } from 'cloudflare:workers'
import { afterAll, beforeAll, expect, it, onTestFinished, vi } from 'vitest'
import { BatchActor } from '../../src/actors/batch/batch-actor.ts'
import { PACK_MS } from '../../src/actors/batch/line-run.ts'
import { LINES_PER_SLICE } from '../../src/actors/batch/slice.ts'
import { PoolActor } from '../../src/actors/pool.ts'
import { ProgramActor } from '../../src/actors/program.ts'
import { TenantActor } from '../../src/actors/tenant.ts'
import { RECORDS_PER_BATCH_MAX, type TicketClaims } from '../../src/protocol/index.ts'
import { createBatch, ended, lineOf, linesOf, outputOf, storeInput } from './batch-tools.ts'
import {
  helloOf,
  json,
  KEY_A,
  MODEL,
  ORIGIN,
  proven,
  provision,
  recordOf,
  request,
  statusOf,
  TOKEN_EAST,
} from './fixtures.ts'
import { Link } from './link-client.ts'
import { watchRun } from './run-billing.ts'

let link: Link | null = null
let reports = 0
/** Of the calls that the engine was given. */
const tickets: TicketClaims[] = []

function chunks(ticket: TicketClaims): string {
  const choice = { index: 0, delta: { content: ticket.call }, finish_reason: null }
  const usage = {
    ...{ prompt_tokens: 10, completion_tokens: 5, total_tokens: 15, prompt_tokens_details: { cached_tokens: 4 } },
    switchyard: {
      ...{ service_s: 1, service_wall_s: 1, service_modelled_s: 1, wait_s: 0, ttft_s: 0.1, tpot_s: 0.1 },
      ...{ preemptions: 0, swapped_out_tokens: 0, swapped_in_tokens: 0, recomputed_tokens: 0, swap_s: 0 },
      ...{ engine: ticket.engine, region: ticket.region, emulated: true },
    },
  }
  const head = { id: 'chatcmpl-x', object: 'chat.completion.chunk', created: 1, model: MODEL }
  return [
    { ...head, choices: [choice] },
    { ...head, choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] },
    { ...head, choices: [], usage },
  ]
    .map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`)
    .concat('data: [DONE]\n\n')
    .join('')
}

async function engine(_: RequestInfo | URL, init?: RequestInit): Promise<Response> {
  const token = new Headers(init?.headers).get('authorization') ?? ''
  const ticket = JSON.parse(atob((token.split('.')[1] ?? '').replaceAll('-', '+').replaceAll('_', '/')))
  tickets.push(ticket)
  return new Response(`: accepted\n\n${chunks(ticket)}`, { headers: { 'content-type': 'text/event-stream' } })
}

beforeAll(provision)

/** An agent is linked and has just reported, and the engine has been given nothing. */
async function ready(): Promise<void> {
  tickets.length = 0
  if (link === null) {
    vi.spyOn(globalThis, 'fetch').mockImplementation(engine as typeof fetch)
    const headers = { upgrade: 'websocket', authorization: `Bearer ${TOKEN_EAST}` }
    const url = `${ORIGIN}/agents/v1/link?region=us-east&model=${MODEL}`
    const response = await exports.default.fetch(new Request(url, { headers }))
    link = new Link(response.webSocket as WebSocket)
    link.send(helloOf())
    await link.message()
  }
  report()
  // The machine may be busy for longer than a report counts.
  const reporting = setInterval(report, 500)
  onTestFinished(() => clearInterval(reporting))
}

/** An engine that does not report for three seconds gets no calls. */
function report(): void {
  reports += 1
  link?.send(statusOf(reports, { leases_seen: tickets.slice(-256).map(({ lease }) => lease) }))
}

afterAll(() => {
  link?.socket.close(1000)
  vi.restoreAllMocks()
})

async function recordsOf(given: readonly TicketClaims[]) {
  return Promise.all(
    given.map(({ call, run, lease, thread, lease_proof, program }) =>
      proven(recordOf(program, run, call, { lease, thread, ...(lease_proof === undefined ? {} : { lease_proof }) })),
    ),
  )
}

async function settle(records: readonly unknown[]): Promise<string[]> {
  const sent = { agent: 'agent-east', records }
  const settled = await request('POST', '/agents/v1/records', TOKEN_EAST, sent)
  return (await settled.json<{ acknowledged: string[] }>()).acknowledged
}

async function usage(): Promise<{ calls: number; leases: number; service_wall_s: number; output_tokens: number }> {
  const { data } = await json<{ data: never[] }>(request('GET', '/v1/usage', KEY_A))
  return data[0] ?? { calls: 0, leases: 0, service_wall_s: 0, output_tokens: 0 }
}

it('a line is an offline call without a program, whatever its body names', async () => {
  await ready()
  const named = lineOf('named', {
    body: { model: MODEL, messages: [{ role: 'user', content: 'x' }], metadata: { program_id: 'p' }, priority: 1 },
  })
  const { id } = await createBatch(await storeInput([named]))
  const batch = await ended(id)
  expect(batch).toMatchObject({ status: 'completed', usage: { input_tokens: 10, output_tokens: 5 } })
  const [line] = await outputOf(batch.output_file_id)
  const [ticket] = tickets
  expect(ticket).toMatchObject({ offline: true, tenant: 'tenant-a', program: ticket?.call, run: ticket?.call })
  expect(line?.response).toMatchObject({
    status_code: 200,
    request_id: ticket?.call,
    body: { object: 'chat.completion' },
  })
  expect((await request('GET', '/v1/programs/p', KEY_A)).status).toBe(404)
})

it('every lease is metered once, in bulk, however often its record comes', async () => {
  await ready()
  const before = await usage()
  const { id } = await createBatch(await storeInput(linesOf(40)))
  expect((await ended(id)).request_counts.completed).toBe(40)
  const records = await recordsOf(tickets)
  const meter = vi.spyOn(TenantActor.prototype, 'meter')
  expect((await settle(records)).toSorted()).toEqual(tickets.map(({ lease }) => lease).toSorted())
  expect(meter).toHaveBeenCalledTimes(1)
  await settle(records.toReversed())
  await settle(records.slice(0, 7))
  const after = await usage()
  const sum = records.reduce((total, record) => total + record.service_wall_us, 0)
  expect(after.leases - before.leases).toBe(40)
  expect(after.calls - before.calls).toBe(40)
  expect(after.output_tokens - before.output_tokens).toBe(40 * 5)
  expect(Math.round((after.service_wall_s - before.service_wall_s) * 1e6)).toBe(sum)
  meter.mockRestore()
})

it('a line costs one request of a Durable Object; the rest is of slices, packs and parts', async () => {
  await ready()
  const count = 1000
  const calls = new Map<string, number>()
  const spies = [
    ...(['lease', 'release', 'noticeClass'] as const).map((name) => ({ name, on: PoolActor.prototype })),
    ...(['admit', 'leaseOpened', 'callEnded', 'settle'] as const).map((name) => ({ name, on: ProgramActor.prototype })),
    ...(['takeCalls', 'medianService', 'roomForProgram', 'meter'] as const).map((name) => ({
      ...{ name, on: TenantActor.prototype },
    })),
    ...(['alarm', 'start'] as const).map((name) => ({ name, on: BatchActor.prototype })),
  ].map(({ name, on }) => {
    const original = Reflect.get(on, name) as (...given: unknown[]) => unknown
    const prototype = on as unknown as Record<string, () => unknown>
    return vi.spyOn(prototype, name).mockImplementation(function (this: unknown, ...given: unknown[]) {
      calls.set(name, (calls.get(name) ?? 0) + 1)
      return original.apply(this, given)
    })
  })
  // Of one region: another one that is asked is one more request.
  const lines = linesOf(count).map((line) => ({
    ...line,
    body: { ...line.body, metadata: { program_regions: 'us-east' } },
  }))
  const input = await storeInput(lines)
  const metered: { rowsWritten: number }[] = []
  await runInDurableObject(env.TENANT.getByName('tenant-a'), (_, { storage: { sql } }) => {
    const exec = sql.exec.bind(sql)
    const value = (text: string, ...values: unknown[]) => {
      const cursor = exec(text, ...values)
      metered.push(cursor)
      return cursor
    }
    Object.defineProperty(sql, 'exec', { value })
  })
  const started_ms = Date.now()
  const { id } = await createBatch(input)
  const billed = await watchRun(env.BATCH.getByName(JSON.stringify(['tenant-a', id])))
  expect((await ended(id)).request_counts.completed).toBe(count)
  const packs_max = Math.ceil((Date.now() - started_ms) / PACK_MS) + 1
  for (let from = 0; from < count; from += RECORDS_PER_BATCH_MAX) {
    await settle(await recordsOf(tickets.slice(from, from + RECORDS_PER_BATCH_MAX)))
  }
  for (const spy of spies) spy.mockRestore()
  const slices = Math.ceil(count / LINES_PER_SLICE)
  const metered_rows = metered.reduce((sum, { rowsWritten }) => sum + rowsWritten, 0)
  expect(calls.get('lease')).toBe(count)
  expect(calls.get('meter')).toBe(Math.ceil(count / RECORDS_PER_BATCH_MAX))
  for (const name of ['admit', 'leaseOpened', 'callEnded', 'settle', 'takeCalls', 'medianService', 'release']) {
    expect(calls.get(name) ?? 0, name).toBe(0)
  }
  // A slice of checking, the slices of lines, and the end.
  expect(calls.get('alarm')).toBeLessThanOrEqual(slices + 3)
  expect(billed.alarms).toBeLessThanOrEqual(slices + 2)
  // One part of the output; the input is read in blocks of 1 MiB, once to check it and once to run it.
  expect(billed.r2_puts).toBe(1)
  expect(billed.r2_gets).toBeLessThanOrEqual(2)
  // Packs, at most one in PACK_MS and each deleted once, and the state some times.
  const packs = billed.puts.pack ?? 0
  expect(packs).toBeLessThanOrEqual(packs_max)
  expect(billed.rows - 2 * packs).toBeLessThanOrEqual(30)
  // The lease's row; the rest is once for a batch of records.
  expect(metered_rows / count).toBeLessThanOrEqual(1.1)
  expect(billed.d1_rows).toBeLessThanOrEqual(slices + 4)
})
