import { createHmac } from 'node:crypto'
import { createConnection } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { NOT_APPLIED_HEADER } from '../../../src/core/call/field-warnings.ts'
import {
  ACCEPTED_HEADER,
  DISPATCHED_BODY_BYTES_MAX,
  StreamError,
  TICKET_CLOCK_TOLERANCE_S,
  TICKET_LIFETIME_S,
} from '../../../src/protocol/index.ts'
import { startAgent, startControlPlane, until } from '../testing/harness.ts'
import { HEADER_BYTES_MAX } from './data-plane.ts'
import { ERRORS } from './stream-errors.ts'

async function refusalOf(response: Response): Promise<[number, string | null]> {
  const { error } = StreamError.parse(await response.json())
  return [response.status, error.code]
}

const QUIET = { tuning: { data_plane: { times: { keepalive_ms: 60_000 } } } }

test('a call is accepted, streamed chunk by chunk, and its record is sent', async () => {
  const { front, control, post } = await startAgent(QUIET)
  const [response, call] = await Promise.all([post({ body: '{"messages":[]}' }), front.next().then((c) => c.accept(7))])
  expect(response.status).toBe(200)
  expect(response.headers.get('content-type')).toMatch(/^text\/event-stream/)
  expect(response.headers.get('cache-control')).toBe('no-store, no-transform')
  expect(response.headers.get('x-accel-buffering')).toBe('no')
  expect(response.headers.has(ACCEPTED_HEADER)).toBe(true)
  expect(call.call).toMatchObject({ dialect: 'chat', body: { messages: [] } })
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader()
  call.step().chunk({ n: 1 })
  expect(await reader?.read()).toEqual({ done: false, value: ': accepted\n\ndata: {"n":1}\n\n' })
  call.step().chunk({ n: 2 })
  expect(await reader?.read()).toEqual({ done: false, value: 'data: {"n":2}\n\n' })
  call.end({ last_chunks: [{ usage: 1 }] })
  let rest = ''
  for (let read = await reader?.read(); read?.value !== undefined; read = await reader?.read()) rest += read.value
  expect(rest).toBe('data: {"usage":1}\n\ndata: [DONE]\n\n')
  await control.until(() => control.records.length === 1)
  expect(control.records[0]).toMatchObject({
    lease: call.call.claims.lease,
    outcome: 'completed',
    finish_reason: 'stop',
    error_code: null,
    prompt_tokens: 7,
    output_tokens: 2,
    service_wall_us: 2000,
    service_modelled_us: 1400,
  })
})

test('hints go to a front that applies them, and the response names the others', async () => {
  const { front, post } = await startAgent(QUIET)
  front.hints = new Set(['verbosity'])
  const sent = { messages: [], verbosity: 'low', reasoning_effort: 'high', frobnicate: 1, priority: -9 }
  const [response, call] = await Promise.all([
    post({ body: JSON.stringify(sent) }),
    front.next().then((arrived) => arrived.accept()),
  ])
  expect(call.call.body).toEqual({ messages: [], verbosity: 'low' })
  expect(response.headers.get(NOT_APPLIED_HEADER)).toBe('reasoning_effort')
  call.end()
  await response.text()
})

test('a ticket that is absent, altered, expired, of an unknown key, or for another engine is refused', async () => {
  const { post, control, front } = await startAgent()
  const ticket = await control.ticket()
  const [head = '', payload = '', signature = ''] = ticket.split('.')
  const claims = JSON.parse(Buffer.from(payload, 'base64url').toString())
  const forged = Buffer.from(JSON.stringify({ ...claims, tenant_weight: 1000 })).toString('base64url')
  const other_key = createHmac('sha256', 'guess').update(`${head}.${payload}`).digest('base64url')
  const none = Buffer.from('{"alg":"none","kid":"1"}').toString('base64url')
  const now_s = Date.now() / 1000
  const past_s = now_s - TICKET_LIFETIME_S - TICKET_CLOCK_TOLERANCE_S - 1
  const refused: [string, number, string][] = [
    ['', 401, 'ticket_invalid'],
    ['nonsense', 401, 'ticket_invalid'],
    [`${head}.${forged}.${signature}`, 401, 'ticket_invalid'],
    [`${head}.${payload}.${other_key}`, 401, 'ticket_invalid'],
    [`${none}.${payload}.`, 401, 'ticket_invalid'],
    [await control.ticket({}, past_s), 401, 'ticket_invalid'],
    [await control.ticket({}, now_s, '2'), 401, 'ticket_invalid'],
    [await control.ticket({ engine: 'a-e1' }), 403, 'ticket_wrong_engine'],
    [await control.ticket({ agent: 'b' }), 403, 'ticket_wrong_engine'],
    [await control.ticket({ model: 'other' }), 403, 'ticket_wrong_engine'],
    [await control.ticket({ epoch: 'epoch-0' }), 409, 'epoch_gone'],
  ]
  for (const [bad, status, code] of refused)
    expect(await refusalOf(await post({ ticket: bad }))).toEqual([status, code])
  expect(front.calls.size).toBe(0)
  front.onCall = (call) => call.accept().end()
  expect((await post({ ticket })).status).toBe(200)
})

test("a ticket's lifetime is measured on the control plane's clock", async () => {
  const control = await startControlPlane()
  control.clock_offset_ms = 3_600_000
  const { post, front } = await startAgent({ control })
  front.onCall = (call) => call.accept().end()
  expect(await refusalOf(await post())).toEqual([401, 'ticket_invalid'])
  const ticket = await control.ticket({}, Date.now() / 1000 + 3600)
  expect((await post({ ticket })).status).toBe(200)
})

test('a clock that is set after the welcome is known from the next status on', async () => {
  const control = await startControlPlane()
  const { post, front } = await startAgent({ control })
  front.onCall = (call) => call.accept().end()
  expect(Math.abs((control.statuses.at(-1)?.now_ms ?? 0) - Date.now())).toBeLessThan(60_000)
  const later = () => control.ticket({}, Date.now() / 1000 - 3600)
  expect(await refusalOf(await post({ ticket: await later() }))).toEqual([401, 'ticket_invalid'])
  control.down({ type: 'clock', clock_offset_ms: -3_600_000 })
  while ((await post({ ticket: await later() })).status !== 200);
})

test('a lease is used once, also by requests at the same time and after a restart', async () => {
  const first = await startAgent()
  first.front.onCall = (call) => call.accept().end()
  const ticket = await first.control.ticket()
  const answers = await Promise.all([first.post({ ticket }), first.post({ ticket }), first.post({ ticket })])
  expect(answers.map(({ status }) => status).sort()).toEqual([200, 409, 409])
  expect(await refusalOf(await first.post({ ticket }))).toEqual([409, 'lease_used'])
  await first.agent.stop()
  const second = await startAgent({ control: first.control, data_dir: first.data_dir })
  await until(() => second.agent.linked)
  expect(await refusalOf(await second.post({ ticket }))).toEqual([409, 'lease_used'])
  expect(second.front.calls.size).toBe(0)
})

test('before the first welcome no call is served, and that is retryable', async () => {
  const control = await startControlPlane()
  control.welcome = null
  const { post } = await startAgent({ control })
  const response = await post()
  expect(response.headers.get('retry-after')).toBe('1')
  expect(StreamError.parse(await response.json())).toMatchObject({ error: { code: 'not_linked' }, retryable: true })
})

test('an engine that is down and an agent that holds as many calls as it can refuse retryably', async () => {
  const { front, post } = await startAgent({ tuning: { data_plane: { open_calls_max: 1 } } })
  const [response] = await Promise.all([post(), front.next().then((call) => call.accept())])
  expect(response.status).toBe(200)
  expect(await refusalOf(await post())).toEqual([429, 'engine_full'])
  front.state = 'down'
  expect(await refusalOf(await post())).toEqual([503, 'engine_down'])
})

test('a body at the limit is served, one byte more is refused, and the lease is not used up by that', async () => {
  const { front, post, control } = await startAgent({ tuning: { data_plane: { body_bytes_max: 100 } } })
  front.onCall = (call) => call.accept().end()
  const ticket = await control.ticket()
  expect(await refusalOf(await post({ ticket, body: `"${'x'.repeat(99)}"` }))).toEqual([413, 'request_too_large'])
  expect(await refusalOf(await post({ ticket, body: '{"cut' }))).toEqual([400, 'invalid_json'])
  expect((await post({ ticket, body: `"${'x'.repeat(98)}"` })).status).toBe(200)
})

test('a body of the longest that a Worker sends is served by default, one byte more is not', async () => {
  const { front, post } = await startAgent()
  front.onCall = (call) => call.accept().end()
  const of = (bytes: number) => `"${'x'.repeat(bytes - 2)}"`
  expect((await post({ body: of(DISPATCHED_BODY_BYTES_MAX) })).status).toBe(200)
  expect(await refusalOf(await post({ body: of(DISPATCHED_BODY_BYTES_MAX + 1) }))).toEqual([413, 'request_too_large'])
})

test('as many connections as the bound are served, one more is closed, and a free place is taken again', async () => {
  const { agent } = await startAgent({ tuning: { data_plane: { connections_max: 2 } } })
  const { port } = new URL(agent.url)
  const connect = async () => {
    const socket = createConnection({ port: Number(port), host: '127.0.0.1' })
    onTestFinished(() => void socket.destroy())
    const answer = new Promise<string>((resolve) => {
      socket.once('data', (part) => resolve(part.toString('latin1').split('\r\n', 1)[0] ?? ''))
      socket.on('error', () => resolve('closed'))
      socket.on('close', () => resolve('closed'))
    })
    socket.write('GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n')
    return { socket, answer: await answer }
  }
  const first = await connect()
  expect([first.answer, (await connect()).answer]).toEqual(['HTTP/1.1 200 OK', 'HTTP/1.1 200 OK'])
  expect((await connect()).answer).toBe('closed')
  first.socket.destroy()
  await new Promise((resolve) => first.socket.once('close', resolve))
  let again = await connect()
  while (again.answer === 'closed') again = await connect()
  expect(again.answer).toBe('HTTP/1.1 200 OK')
})

test('headers past the limit, unknown paths and methods are refused', async () => {
  const { agent, post } = await startAgent()
  const headers = { 'x-long': 'x'.repeat(HEADER_BYTES_MAX) }
  expect((await fetch(`${agent.url}/healthz`, { headers })).status).toBe(431)
  expect(await refusalOf(await post({ path: '/v1/nothing' }))).toEqual([404, 'not_found'])
  expect(await refusalOf(await post({ path: '/__proto__' }))).toEqual([404, 'not_found'])
  expect(await refusalOf(await fetch(`${agent.url}/v1/completions`))).toEqual([405, 'method_not_allowed'])
})

test("a front's early refusal is a plain status with its error, and leaves a failed record without service", async () => {
  const { front, post, control } = await startAgent()
  const error: StreamError = {
    error: { message: 'too long', type: 'invalid_request_error', param: 'messages', code: 'context_length_exceeded' },
    status: 400,
    retryable: false,
  }
  front.onCall = (call) => call.sink.refused(error)
  const response = await post()
  expect(response.status).toBe(400)
  expect(await response.json()).toEqual(error)
  await control.until(() => control.records.length === 1)
  expect(control.records[0]).toMatchObject({
    outcome: 'failed',
    error_code: 'context_length_exceeded',
    service_wall_us: 0,
  })
})

test('a call that is accepted after the headers are out says so at once', async () => {
  const { front, post } = await startAgent({ tuning: { data_plane: { times: { hold_ms: 5, keepalive_ms: 60_000 } } } })
  const response = await post()
  expect(response.headers.has(ACCEPTED_HEADER)).toBe(false)
  const call = await front.next()
  call.accept()
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader()
  expect(await reader?.read()).toEqual({ done: false, value: ': accepted\n\n' })
  call.end({ outcome: 'failed', error: ERRORS.engine_failed })
})

test('a refusal after the headers are out is an error event', async () => {
  const { front, post } = await startAgent({ tuning: { data_plane: { times: { hold_ms: 5, keepalive_ms: 60_000 } } } })
  const response = await post()
  expect(response.status).toBe(200)
  ;(await front.next()).sink.refused(ERRORS.engine_failed)
  expect(await response.text()).toBe(`event: error\ndata: ${JSON.stringify(ERRORS.engine_failed)}\n\n`)
})

test('a call that fails after chunks ends with an error event and without [DONE]', async () => {
  const { front, post, control } = await startAgent(QUIET)
  front.onCall = (call) => call.accept().step().chunk({ n: 1 }).end({ outcome: 'failed', error: ERRORS.engine_failed })
  const text = await (await post()).text()
  expect(text).toBe(`: accepted\n\ndata: {"n":1}\n\nevent: error\ndata: ${JSON.stringify(ERRORS.engine_failed)}\n\n`)
  await control.until(() => control.records.length === 1)
  expect(control.records[0]).toMatchObject({ outcome: 'failed', error_code: 'engine_failed', service_wall_us: 1000 })
})

test('a front that throws fails its call and not the agent', async () => {
  const { front, post, events } = await startAgent()
  front.onCall = () => {
    throw new Error('bug')
  }
  expect(await refusalOf(await post())).toEqual([502, 'engine_failed'])
  expect(events).toContainEqual(expect.objectContaining({ event: 'call_crashed', message: 'bug' }))
  front.onCall = (call) => call.accept().end()
  expect((await post()).status).toBe(200)
})

test('silence is filled with comments until the end, also between chunks', async () => {
  const { front, post } = await startAgent({ tuning: { data_plane: { times: { keepalive_ms: 10 } } } })
  const [response, call] = await Promise.all([post(), front.next().then((c) => c.accept())])
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader()
  let text = ''
  const readUntil = async (part: string): Promise<void> => {
    for (text = ''; !text.includes(part); ) text += (await reader?.read())?.value
  }
  await readUntil(': queued\n\n: queued\n\n')
  call.step().chunk({ n: 1 })
  await readUntil('data: {"n":1}')
  await readUntil(': queued')
  call.end()
  await readUntil('data: [DONE]')
})

test('a client that leaves while its call waits or streams cancels it on the engine at once', async () => {
  const { front, post, control } = await startAgent(QUIET)
  for (const chunks of [0, 1]) {
    const client = new AbortController()
    const [, call] = await Promise.all([post({ signal: client.signal }), front.next().then((c) => c.accept())])
    for (let n = 0; n < chunks; n += 1) call.step().chunk({ n })
    client.abort()
    await until(() => call.cancelled !== undefined)
    expect(call.cancelled).toEqual(ERRORS.client_gone)
    await control.until(() => control.records.length === chunks + 1)
    const expected = { outcome: 'cancelled', error_code: 'client_gone', service_wall_us: chunks * 1000 }
    expect(control.records.at(-1)).toMatchObject(expected)
  }
})

test("a call is ended at its program's deadline, and the timer of one that ends before it does nothing", async () => {
  const { front, post, control } = await startAgent(QUIET)
  const under = async (ends_in_ms: number) => {
    const ticket = await control.ticket({ lease: `lease-${ends_in_ms}`, budget: { ends_in_ms } })
    return Promise.all([post({ ticket }), front.next().then((arrived) => arrived.accept())])
  }
  const [, late] = await under(20)
  await until(() => late.cancelled !== undefined)
  expect(late.cancelled).toEqual(ERRORS.program_deadline)
  const [early, call] = await under(60_000)
  call.end()
  await early.text()
  expect(call.cancelled).toBeUndefined()
  await control.until(() => control.records.length === 2)
  expect(control.records[0]).toMatchObject({ outcome: 'cancelled', error_code: 'program_deadline_exceeded' })
})

test('a client that half-closes its connection has left', async () => {
  const { front, agent, control } = await startAgent(QUIET)
  const { port } = new URL(agent.url)
  const socket = createConnection({ port: Number(port), host: '127.0.0.1', allowHalfOpen: true })
  onTestFinished(() => void socket.destroy())
  socket.resume()
  const ticket = await control.ticket()
  socket.write(
    `POST /v1/completions HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${ticket}\r\ncontent-length: 2\r\n\r\n{}`,
  )
  const call = (await front.next()).accept()
  expect(call.call.dialect).toBe('completions')
  socket.end()
  await until(() => call.cancelled !== undefined)
})

test('a reader slower than the engine is cut at the bound, and the engine stops working for it', async () => {
  const { front, agent, control } = await startAgent({
    tuning: { data_plane: { times: { unread_bytes_max: 64 * 1024, keepalive_ms: 60_000 } } },
  })
  const { port } = new URL(agent.url)
  const socket = createConnection({ port: Number(port), host: '127.0.0.1' })
  onTestFinished(() => void socket.destroy())
  socket.on('error', () => {})
  const ticket = await control.ticket()
  socket.pause()
  socket.write(
    `POST /v1/completions HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${ticket}\r\ncontent-length: 2\r\n\r\n{}`,
  )
  const call = (await front.next()).accept()
  const chunk = { text: 'x'.repeat(32 * 1024) }
  // The kernel's socket buffers take a few MiB before the agent holds any byte.
  for (let n = 0; n < 4096 && call.cancelled === undefined; n += 1) {
    call.chunk(chunk)
    if (n % 8 === 0) await new Promise((resolve) => setImmediate(resolve))
  }
  expect(call.cancelled).toEqual(ERRORS.reader_too_slow)
  await control.until(() => control.records.length === 1)
  expect(control.records[0]).toMatchObject({ outcome: 'cancelled', error_code: 'reader_too_slow' })
  let received = ''
  socket.on('data', (part) => {
    received += part.toString('latin1')
  })
  const closed = new Promise((resolve) => socket.on('close', resolve))
  socket.resume()
  await closed
  expect(received).not.toContain('[DONE]')
  expect(received).not.toMatch(/0\r\n\r\n$/)
})

test('health tells whether calls can be served, metrics have bounded labels and count every outcome', async () => {
  const { agent, front, post } = await startAgent()
  const health = await fetch(`${agent.url}/healthz`)
  expect(health.status).toBe(200)
  expect(await health.json()).toMatchObject({ status: 'ok', linked: true, engines: [{ id: 'a-e0', state: 'ready' }] })
  const kv = { swapped_out_tokens: 12, swapped_in_tokens: 8, recomputed_tokens: 3, swap_us: 2000 }
  const asked = { choices: [{ index: 0, delta: { tool_calls: [{ index: 0, function: { name: 'search' } }] } }] }
  front.onCall = (call) => call.accept(5).step().moved(kv).chunk(asked).end()
  await (await post()).text()
  await post({ ticket: 'nonsense' })
  const metrics = await (await fetch(`${agent.url}/metrics`)).text()
  expect(metrics).toContain('switchyard_agent_calls_total{engine="a-e0",outcome="completed"} 1')
  expect(metrics).toContain('switchyard_agent_calls_refused_total{code="ticket_invalid"} 1')
  expect(metrics).toContain('switchyard_agent_service_seconds_total{engine="a-e0",reading="wall"} 0.001')
  expect(metrics).toContain('switchyard_agent_tokens_total{engine="a-e0",kind="prompt"} 5')
  expect(metrics).toContain('switchyard_agent_tools_asked_total{engine="a-e0"} 1')
  expect(metrics).not.toContain('search')
  expect(metrics).toContain('switchyard_agent_kv_tokens_total{engine="a-e0",kind="swapped_out"} 12')
  expect(metrics).toContain('switchyard_agent_kv_tokens_total{engine="a-e0",kind="swapped_in"} 8')
  expect(metrics).toContain('switchyard_agent_kv_tokens_total{engine="a-e0",kind="recomputed"} 3')
  expect(metrics).toContain('switchyard_agent_swap_seconds_total{engine="a-e0"} 0.002')
  expect(metrics).toContain('switchyard_agent_link_up{model="test-model"} 1')
  expect(metrics).toContain('switchyard_agent_open_calls 0')
  expect(metrics).toContain('switchyard_agent_engine_waiting_calls{engine="a-e0"} 0')
  expect(metrics).toContain('switchyard_agent_call_duration_seconds_count{engine="a-e0"} ')
  expect(metrics).not.toContain('tenant')
  front.state = 'down'
  expect((await fetch(`${agent.url}/healthz`)).status).toBe(503)
})
