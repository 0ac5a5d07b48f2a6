import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import Database from 'better-sqlite3'
import { expect, onTestFinished, test } from 'vitest'
import { ClassSketch } from '../../src/core/classes/class-sketch.ts'
import { CallRecord, CLOSE, type ClassData, NOTHING_MEASURED } from '../../src/protocol/index.ts'
import { Agent, AgentStartError } from './agent.ts'
import { ERRORS } from './data-plane/stream-errors.ts'
import type { AgentEvent } from './events.ts'
import type { EngineFrontEvents } from './fronts/engine-front.ts'
import type { LostCall } from './outbox/lost-calls.ts'
import { openOutbox } from './outbox/outbox.ts'
import { OUTBOX_FILE } from './outbox/outbox-database.ts'
import { type ControlPlaneStandIn, claimsOf, TOKEN } from './testing/control-plane-stand-in.ts'
import { startAgent, startControlPlane, temporaryFolder, until } from './testing/harness.ts'
import { ScriptedFront } from './testing/scripted-front.ts'

const QUIET = { tuning: { data_plane: { times: { keepalive_ms: 60_000 } } } }

test('tells the pool of a lease once, in a status that counts its call already', async () => {
  const { front, post, control } = await startAgent(QUIET)
  const [, call] = await Promise.all([post(), front.next().then((c) => c.accept())])
  const { lease } = call.call.claims
  const told = () => control.statuses.flatMap(({ engines }) => engines).filter((e) => e.leases_seen.includes(lease))
  await control.until(() => told().length > 0)
  expect(told()[0]).toMatchObject({ id: 'a-e0', running: 1 })
  const statuses = control.statuses.length
  front.events.status()
  await control.until(() => control.statuses.length > statuses)
  expect(told()).toHaveLength(1)
})

test('tells what open leases were charged, until they end', async () => {
  const { front, post, control } = await startAgent(QUIET)
  const [response, call] = await Promise.all([post(), front.next().then((c) => c.accept().step().step())])
  const { lease } = call.call.claims
  const last = () =>
    control.statuses.flatMap(({ engines }) => engines.flatMap((e) => (e.charges ? [e.charges] : []))).at(-1)
  await control.until(() => last()?.length === 1)
  const [told] = last() ?? []
  call.end()
  await response.text()
  await control.until(() => control.records.length === 1 && last()?.length === 0)
  const { service_wall_us, service_modelled_us } = control.records[0] ?? {}
  expect(told).toEqual([lease, service_wall_us, service_modelled_us])
})

test('keeps what pools tell about classes, tells its engines what is new, and starts with it', async () => {
  const known = (tenant: string, ends: number): ClassData => {
    const sketch = new ClassSketch()
    const program = { output_tokens: 9, calls: 1, path_us: 1, service_us: 1, tool_us: 0, later_prompt_tokens: 0 }
    for (let end = 0; end < ends; end++) sketch.add(program)
    return { tenant, class: 'app:x', sketch: sketch.data() }
  }
  const { front, control, agent, data_dir } = await startAgent(QUIET)
  control.down({ type: 'classes', classes: [known('a', 1), known('b', 1)] })
  control.down({ type: 'classes', classes: [known('a', 1), known('b', 2)] })
  await until(() => front.told.length === 3)
  expect(front.told.map(({ tenant, sketch }) => [tenant, sketch.ends])).toEqual([
    ['a', 1],
    ['b', 1],
    ['b', 2],
  ])
  const metrics = async (url: string) => (await fetch(`${url}/metrics`)).text()
  expect(await metrics(agent.url)).toContain('switchyard_agent_known_classes 2')
  expect(await metrics(agent.url)).toContain('switchyard_agent_known_class_ends 3')
  await agent.stop()

  // A control plane that never answers.
  const mute = await startControlPlane()
  mute.welcome = null
  const again = await startAgent({ ...QUIET, control: mute, data_dir })
  expect(again.front.told).toEqual([known('a', 1), known('b', 2)])
})

test('an ended program cancels its calls, and their clients are told why', async () => {
  const { front, post, control } = await startAgent(QUIET)
  const [response, call] = await Promise.all([post(), front.next().then((c) => c.accept())])
  control.down({ type: 'cancel', leases: ['unknown', call.call.claims.lease] })
  expect(await response.text()).toContain(`event: error\ndata: ${JSON.stringify(ERRORS.program_ended)}\n\n`)
  await control.until(() => control.records.length === 1)
  expect(control.records[0]).toMatchObject({ outcome: 'cancelled', error_code: 'program_ended' })
})

test('a call that comes after its program has ended is cancelled on arrival', async () => {
  const { post, control } = await startAgent(QUIET)
  const lease = 'on-its-way'
  const ticket = await control.ticket({ lease })
  control.down({ type: 'cancel', leases: [lease] })
  control.down({ type: 'ask', id: 1, leases: [lease] })
  await control.until(() => control.opens.length === 1)
  expect(await (await post({ ticket })).text()).toContain('"code":"program_ended"')
  await control.until(() => control.records.length === 1)
  expect(control.records[0]).toMatchObject({
    lease,
    outcome: 'cancelled',
    error_code: 'program_ended',
    service_wall_us: 0,
  })
})

test('an engine that restarts is described again, its calls fail, and tickets to its old epoch are void', async () => {
  const { front, post, control, events } = await startAgent(QUIET)
  const [response] = await Promise.all([post(), front.next().then((call) => call.accept().step())])
  front.restart('epoch-2')
  expect(await response.text()).toContain('"code":"engine_failed"')
  await control.until(() => control.hellos.length === 2)
  expect(control.hellos[1]?.engines[0]?.epoch).toBe('epoch-2')
  expect(events).toContainEqual({ event: 'engine_epoch', engine: 'a-e0', epoch: 'epoch-2' })
  expect((await post()).status).toBe(409)
  front.onCall = (call) => call.accept().end()
  expect((await post({ ticket: await control.ticket({ epoch: 'epoch-2' }) })).status).toBe(200)
  await control.until(() => control.records.length === 2)
  expect(control.records.map(({ epoch, outcome }) => [epoch, outcome])).toEqual([
    ['epoch-1', 'failed'],
    ['epoch-2', 'completed'],
  ])
})

test('what a killed agent left open is written at once, but for engines that outlive it: their fronts end it', async () => {
  const data_dir = temporaryFolder()
  const before = openOutbox({ data_dir, wall_ms: Date.now, report: () => undefined, fatal: expect.fail })
  if (before.status !== 'open') throw new Error(before.message)
  for (const engine of ['a-e0', 'a-e1']) {
    const opening = before.outbox.openLease({ ...claimsOf({ engine, lease: `of-${engine}` }), v: 2, iat: 0, exp: 60 })
    if (opening.status === 'opened') await opening.committed
  }
  before.outbox.close()
  const lost: LostCall[] = []
  const create = (id: string) => async (events: EngineFrontEvents, of_engine: readonly LostCall[]) => {
    lost.push(...of_engine)
    events.counted?.('record_foreign')
    events.counted?.('message_unknown')
    return new ScriptedFront(id, events)
  }
  const control = await startControlPlane()
  const events: AgentEvent[] = []
  const agent = new Agent({
    ...{ id: 'a', region: 'here', control_url: control.url, token: TOKEN, public_url: null, data_dir },
    listen: { host: '127.0.0.1', port: 0 },
    engines: [
      { id: 'a-e0', create: create('a-e0') },
      { id: 'a-e1', create: create('a-e1'), outlives_agent: true },
    ],
    report: (event) => events.push(event),
    fatal: expect.fail,
  })
  onTestFinished(() => agent.stop())
  await agent.start()
  await control.until(() => control.records.length === 1)
  expect(control.records[0]).toMatchObject({ lease: 'of-a-e0', error_code: 'agent_restarted' })
  expect(events).toContainEqual({ event: 'recovered', leases: 1 })
  expect(events).toContainEqual({ event: 'recovering', leases: 1 })
  expect(lost.map(({ claims }) => claims.lease)).toEqual(['of-a-e1'])
  await lost[0]?.ended({ ...NOTHING_MEASURED, prompt_tokens: 5, wait_us: 6 })
  await control.until(() => control.records.length === 2)
  expect(control.records[1]).toMatchObject({ lease: 'of-a-e1', outcome: 'failed', prompt_tokens: 5, wait_us: 6 })
  const metrics = await (await fetch(`${agent.url}/metrics`)).text()
  expect(metrics).toContain('switchyard_agent_engine_records_total{engine="a-e1",result="foreign"} 1')
  expect(metrics).toContain('switchyard_agent_engine_messages_ignored_total{engine="a-e1",kind="unknown"} 1')
  expect(metrics).toContain('switchyard_agent_calls_total{engine="a-e1",outcome="failed"} 1')
})

test('a pool drains one engine, leaves the others, and undrains it', async () => {
  const { fronts, post, control } = await startAgent({ engine_count: 2 })
  for (const front of fronts) front.onCall = (call) => call.accept().end()
  control.down({ type: 'drain', engines: ['a-e1', 'unknown'] })
  await control.until(() => control.statuses.at(-1)?.engines[1]?.state === 'draining')
  expect(fronts.map(({ drained }) => drained)).toEqual([false, false])
  expect(control.statuses.at(-1)?.engines[0]?.state).toBe('ready')
  expect((await post()).status).toBe(200)
  expect((await post({ ticket: await control.ticket({ engine: 'a-e1' }) })).status).toBe(503)
  control.down({ type: 'undrain', engines: [] })
  await control.until(() => control.statuses.at(-1)?.engines[1]?.state === 'ready')
  expect((await post({ ticket: await control.ticket({ engine: 'a-e1', lease: 'after' }) })).status).toBe(200)
})

test('an agent that the operator dismissed takes no ticket any more, and lets the calls under way end', async () => {
  const { front, post, control } = await startAgent(QUIET)
  const [response, call] = await Promise.all([post(), front.next().then((c) => c.accept())])
  const ticket = await control.ticket({ lease: 'after' })
  control.refuse_link = 403
  control.sockets.at(-1)?.close(CLOSE.dismissed, 'removed')
  await until(() => !control.sockets.some(({ readyState }) => readyState === 1))
  await expect.poll(async () => (await post({ ticket })).status).toBe(503)
  call.end()
  expect(await response.text()).toContain('[DONE]')
})

test('a drain refuses further calls, lets those under way end, sends every record, then stops', async () => {
  const { agent, front, post, control, events } = await startAgent(QUIET)
  const [response, call] = await Promise.all([post(), front.next().then((c) => c.accept())])
  const drained = agent.drain(60_000)
  expect((await post()).status).toBe(503)
  await control.until(() => control.statuses.at(-1)?.engines[0]?.state === 'draining')
  expect(control.records).toEqual([])
  call.step().end({ last_chunks: [{ last: 1 }] })
  expect(await response.text()).toContain('data: [DONE]')
  await drained
  expect(control.records).toHaveLength(1)
  expect(events).toContainEqual({ event: 'drained', calls_cancelled: 0, records_left: 0 })
  await expect(post()).rejects.toThrow('fetch failed')
})

test('a drain cancels what is left after its limit, and those calls are recorded too', async () => {
  const { agent, front, post, control, events } = await startAgent(QUIET)
  const [response] = await Promise.all([post(), front.next().then((c) => c.accept().step())])
  await agent.drain(0)
  expect(await response.text()).toContain('"code":"agent_draining"')
  expect(control.records).toEqual([expect.objectContaining({ outcome: 'cancelled', error_code: 'agent_draining' })])
  expect(events).toContainEqual({ event: 'drained', calls_cancelled: 1, records_left: 0 })
})

test('records that end while the control plane is away reach it when it is back, after a restart too', async () => {
  const { agent, front, post, control, data_dir } = await startAgent(QUIET)
  control.answer = () => ({ status: 503, body: {} })
  front.onCall = (call) => call.accept().end()
  await (await post()).text()
  await control.until(() => control.batches.length > 0)
  await agent.stop()
  const acknowledged: string[] = []
  control.answer = ({ records }) => {
    acknowledged.push(...records.map(({ lease }) => lease))
    return { status: 200, body: { acknowledged } }
  }
  await startAgent({ control, data_dir, ...QUIET })
  await control.until(() => acknowledged.length > 0)
  expect(acknowledged).toEqual([control.batches[0]?.[0]?.lease])
})

test('a start that fails says at which stage, and frees what it took', async () => {
  const data_dir = temporaryFolder()
  const engines = [{ id: 'a-e0', create: () => Promise.reject(new Error('no such model')) }]
  const failed = await startAgent({ data_dir, engines }).catch((error: unknown) => error)
  expect(failed).toBeInstanceOf(AgentStartError)
  expect(failed).toMatchObject({ stage: 'engine', message: 'engine a-e0: no such model' })
  const first = await startAgent({ data_dir })
  const beside = await startAgent({ data_dir }).catch((error: unknown) => error)
  expect(beside).toMatchObject({ stage: 'outbox', message: expect.stringContaining('another agent') })
  const { port } = new URL(first.agent.url)
  const taken = await startAgent({ listen: { host: '127.0.0.1', port: Number(port) } }).catch((error: unknown) => error)
  expect(taken).toMatchObject({ stage: 'listen', message: expect.stringContaining(port) })
})

interface Child {
  process: ChildProcess
  url: string
  events: AgentEvent[]
}

async function spawnAgent(control: ControlPlaneStandIn, data_dir: string): Promise<Child> {
  const script = fileURLToPath(new URL('./testing/crash-agent.ts', import.meta.url))
  const child = spawn(process.execPath, [script, control.url, data_dir, '2'], { stdio: ['ignore', 'pipe', 'inherit'] })
  onTestFinished(() => void child.kill('SIGKILL'))
  const events: AgentEvent[] = []
  createInterface({ input: child.stdout }).on('line', (line) => events.push(JSON.parse(line)))
  await until(() => events.some(({ event }) => event === 'linked') || child.exitCode !== null)
  const ready = events.find((event) => event.event === 'ready')
  if (ready === undefined) throw new Error(`the agent ended with ${child.exitCode}`)
  return { process: child, url: ready.url, events }
}

async function read(response: Response, parts: string[]): Promise<void> {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader()
  for (let part = await reader?.read(); part?.value !== undefined; part = await reader?.read()) parts.push(part.value)
}

/** Lease to [wall, modelled] as the engine wrote it, read from the file of a running agent. */
function ledgerOf(data_dir: string): Map<string, [number, number]> {
  const db = new Database(join(data_dir, OUTBOX_FILE), { readonly: true })
  try {
    const rows = db
      .prepare('select lease, sum(wall_us) wall, sum(modelled_us) modelled from ledger group by lease')
      .all()
    return new Map(
      (rows as { lease: string; wall: number; modelled: number }[]).map((r) => [r.lease, [r.wall, r.modelled]]),
    )
  } finally {
    db.close()
  }
}

test('kill -9 with calls open: each has one record, equal to its ledger, and what clients saw complete is complete', async () => {
  const control = await startControlPlane()
  const data_dir = temporaryFolder()
  const texts = new Map<string, string[]>()
  const call = async (url: string, body: object): Promise<void> => {
    const ticket = await control.ticket()
    const { lease } = JSON.parse(Buffer.from(ticket.split('.')[1] ?? '', 'base64url').toString())
    const parts: string[] = []
    texts.set(lease, parts)
    const headers = { authorization: `Bearer ${ticket}` }
    const response = await fetch(`${url}/v1/completions`, { method: 'POST', headers, body: JSON.stringify(body) })
    await read(response, parts).catch(() => parts.push('(broken)'))
  }
  // The first two lives end by kill -9 in the middle of their calls; the third only recovers.
  for (let life = 0; life < 2; life += 1) {
    const child = await spawnAgent(control, data_dir)
    const open = Array.from({ length: 5 }, () => call(child.url, {}))
    const short = Array.from({ length: 5 }, (_, n) => call(child.url, { max_tokens: n + 1 }))
    await Promise.all(short)
    await until(() => ledgerOf(data_dir).size === texts.size)
    child.process.kill('SIGKILL')
    await once(child.process, 'exit')
    await Promise.all(open)
  }
  const child = await spawnAgent(control, data_dir)
  expect(child.events).toContainEqual({ event: 'recovered', leases: 5 })
  const by_lease = () => new Map(control.records.map((record) => [record.lease, record]))
  await control.until(() => by_lease().size === texts.size)
  const ledger = ledgerOf(data_dir)
  for (const [lease, record] of by_lease()) {
    expect(CallRecord.parse(record)).toEqual(record)
    expect([record.service_wall_us, record.service_modelled_us]).toEqual(ledger.get(lease) ?? [0, 0])
    const complete = texts.get(lease)?.join('').includes('[DONE]')
    expect([lease, record.outcome]).toEqual([lease, complete ? 'completed' : 'failed'])
    if (!complete) expect(record).toMatchObject({ error_code: 'agent_restarted', prompt_tokens: 9 })
  }
  expect([...by_lease().values()].filter(({ outcome }) => outcome === 'completed')).toHaveLength(10)
  const repeated = control.records.filter(
    (record) => JSON.stringify(by_lease().get(record.lease)) !== JSON.stringify(record),
  )
  expect(repeated).toEqual([])
})
