/** Journeys of one call through a scripted world: what the client gets and what actors are told. */
import { describe, expect, it } from 'vitest'
import type { LeaseRequest } from '../actors/contracts.ts'
import { SHORT_PROMPT_TOKENS } from '../core/pool/pool-types.ts'
import { isAlone, runShard } from '../core/program/tenant-shards.ts'
import { DISPATCHED_BODY_BYTES_MAX } from '../protocol/index.ts'
import { chat as chatDialect } from './dialects/chat.ts'
import { forwardedBody } from './dialects/openai-body.ts'
import { PoolMemory } from './pool-memory.ts'
import { runCall } from './run-call.ts'
import {
  ADMITTED,
  answering,
  chat,
  claimsWorld,
  delta,
  type ErrorAnswer,
  failureOf,
  leaseOf,
  MODEL,
  PROGRAM,
  Script,
  snapshotOf,
  UNRESTRICTED,
  world,
} from './testing/world.ts'

const LONG = { messages: [{ role: 'user', content: 'x'.repeat(4 * (SHORT_PROMPT_TOKENS + 1)) }] }

describe('a call that goes well', () => {
  it('streams the engine’s bytes from its first data event, and says who served it', async () => {
    const it = world({ engines: { e0: answering('hello') } })
    const response = await runCall(chat({ stream: true }, PROGRAM), 'chat', it.deps)
    expect(response.status).toBe(200)
    expect(await response.text()).toBe(`data: ${JSON.stringify(delta('hello'))}\n\ndata: [DONE]\n\n`)
    const headers = Object.fromEntries(response.headers)
    expect(headers).toMatchObject({
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-store, no-transform',
      'x-program-id': 'p',
      'x-thread-id': 'thread-1',
      'x-engine-id': 'e0',
      'x-region': 'near',
    })
    expect(headers['x-call-id']).toBeTruthy()
    for (const stage of ['identify', 'admit', 'lease', 'dispatch', 'first_data']) {
      expect(headers['server-timing'], stage).toContain(`${stage};dur=`)
    }
    await it.settled()
    expect(it.saidTo('leaseOpened')).toMatchObject([
      { run: 'run-1', engine: 'e0', region: 'near', reason: 'least_used' },
    ])
    expect(it.endings()).toMatchObject([{ run: 'run-1', outcome: 'completed', error_code: null }])
  })

  it('is written to its client as often as its engine writes, the end with the last of it', async () => {
    const event = (content: string) => `data: ${JSON.stringify(delta(content))}\n\n`
    const done = 'data: [DONE]\n\n'
    const script = new Script()
      .write(event('a'))
      .write(`${event('b')}${event('c')}${done}`)
      .end()
    const it = world({ engines: { e0: () => script.response } })
    const { body } = await runCall(chat({ stream: true }, PROGRAM), 'chat', it.deps)
    const writes: string[] = []
    for await (const bytes of body as ReadableStream<Uint8Array>) writes.push(new TextDecoder().decode(bytes))
    expect(writes).toEqual([event('a'), `${event('b')}${event('c')}${done}`])
  })

  it('comes in one piece to a client that does not stream', async () => {
    const it = world({ engines: { e0: answering('hello') } })
    const response = await runCall(chat({}, PROGRAM), 'chat', it.deps)
    expect(response.headers.get('content-type')).toBe('application/json')
    expect(await response.json()).toMatchObject({
      object: 'chat.completion',
      choices: [{ index: 0, message: { role: 'assistant', content: 'hello' } }],
    })
    await it.settled()
    expect(it.endings()).toMatchObject([{ outcome: 'completed' }])
  })

  it('carries the tenant’s objective where it has one, else the model’s', async () => {
    const { it, claims } = claimsWorld()
    const identity = { ...UNRESTRICTED, objective: 'response' as const }
    const deps = { ...it.deps, authenticate: async () => ({ status: 'tenant' as const, identity }) }
    await (await runCall(chat(), 'chat', deps)).text()
    await (await runCall(chat(), 'chat', it.deps)).text()
    expect(claims.map(({ objective }) => objective)).toEqual(['response', 'token_latency'])
  })

  it('carries the program’s weight times its class’s, and none that a client sends', async () => {
    const { it, claims } = claimsWorld()
    const identity = { ...UNRESTRICTED, class_weights: { 'app:x': 3 } }
    const weighed = { ...it.deps, authenticate: async () => ({ status: 'tenant' as const, identity }) }
    const body = { program_weight: 9, weight: 9, vllm_xargs: { switchyard_program_weight: 9 } }
    await (await runCall(chat(body, PROGRAM), 'chat', weighed)).text()
    await (await runCall(chat(body, { ...PROGRAM, 'x-program-weight': '9' }), 'chat', it.deps)).text()
    expect(claims.map(({ program_weight }) => program_weight)).toEqual([3, undefined])
  })

  it('carries everything that the scheduler reads in a ticket, and nothing that the client sent', async () => {
    const { it, claims, requests } = claimsWorld()
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
    const headers = { ...PROGRAM, traceparent, authorization: 'Bearer client', 'x-secret': 'x' }
    await (await runCall(chat({ priority: -9, cache_salt: 'stolen' }, headers), 'chat', it.deps)).text()
    const [ticket] = claims
    expect(ticket).toMatchObject({
      tenant: 't',
      program: 'p',
      run: 'run-1',
      thread: 'thread-1',
      class: 'app:x',
      engine: 'e0',
    })
    expect(ticket).toMatchObject({
      sequence: [1, 9],
      settled_service_us: 5,
      open_elsewhere_us: 0,
      critical_path_us: 3,
      program_wait_us: 2,
      program_output_tokens: 4,
      tenant_weight: 1,
      objective: 'token_latency',
      model: MODEL,
    })
    expect(ticket?.cache_salt).toMatch(/^[0-9a-f]{32}$/)
    const [request] = requests
    expect(request?.url).toBe('http://e0.test/v1/chat/completions')
    expect(request?.headers.get('traceparent')).toBe(traceparent)
    expect(request?.headers.get('x-secret')).toBeNull()
    expect(await request?.json()).toEqual({
      model: MODEL,
      messages: [{ role: 'user', content: 'hi' }],
      stream: true,
      stream_options: { include_usage: true },
    })
  })

  it('tells the engine what other engines have charged for leases that are open still, and not its own or settled ones', async () => {
    const charge = (lease: string, engine: string, service_modelled_us: number) => ({
      ...{ lease, engine, service_modelled_us, service_wall_us: 1000, speed_factor: 2 },
    })
    const charges = [charge('open', 'e1', 10), charge('settled', 'e1', 40), charge('here', 'e0', 80)]
    const { it, claims } = claimsWorld({
      program: { admit: async () => ({ ...ADMITTED, open_leases: ['open', 'here'] }) },
      pool: { lease: async () => ({ ...leaseOf('e0'), charges }) },
    })
    await (await runCall(chat({}, PROGRAM), 'chat', it.deps)).text()
    expect(claims[0]).toMatchObject({ settled_service_us: 5, open_elsewhere_us: 20 })
  })

  it('of no program touches no ProgramActor and returns no program', async () => {
    const { it, claims } = claimsWorld()
    const response = await runCall(chat(), 'chat', it.deps)
    await response.text()
    await it.settled()
    expect(it.said.filter(({ to }) => to === 'program')).toEqual([])
    expect(response.headers.get('x-program-id')).toBeNull()
    const call = response.headers.get('x-call-id')
    expect(claims[0]).toMatchObject({ program: call, run: call, call, settled_service_us: 0 })
  })

  it('of a tenant of several shards is opened in one of them, and without a program metered in one', async () => {
    const identity = { ...UNRESTRICTED, shards: 4 }
    const authenticate = async () => ({ status: 'tenant' as const, identity })
    const { it, claims } = claimsWorld({ deps: { authenticate }, program: { admit: async () => ADMITTED } })
    await (await runCall(chat({}, PROGRAM), 'chat', it.deps)).text()
    expect(it.saidTo('admit')).toMatchObject([{ tenant_shards: 4 }])
    for (let i = 0; i < 30; i += 1) await (await runCall(chat(), 'chat', it.deps)).text()
    const alone = claims.slice(1)
    expect(alone.every((claim) => isAlone(claim))).toBe(true)
    expect(new Set(alone.map(({ run }) => runShard(run)))).toEqual(new Set([0, 1, 2, 3]))
  })

  it('takes its id from us and ignores the id that the client sends', async () => {
    const it = world({ engines: { e0: answering('x') } })
    const response = await runCall(chat({}, { 'X-Call-Id': 'mine' }), 'chat', it.deps)
    expect(response.headers.get('x-call-id')).not.toBe('mine')
  })
})

describe('order of admit and lease', () => {
  const order = async (body: object) => {
    const pin = { region: 'near', model: MODEL, engine: 'e0', epoch: 'epoch-1' }
    const it = world({ engines: { e0: answering('x') }, program: { admit: async () => ({ ...ADMITTED, pin }) } })
    await (await runCall(chat(body, PROGRAM), 'chat', it.deps)).text()
    return (it.saidTo('lease')[0] as LeaseRequest).pin
  }

  it('a short prompt is leased without waiting for its pin', async () => {
    expect(await order({})).toBeNull()
  })

  it('a prompt’s tokens are estimated by what engines measured, else by the catalogue’s ratio', async () => {
    const estimateBy = async (pools: PoolMemory): Promise<number | undefined> => {
      const it = world({ engines: { e0: answering('x') }, pools })
      const request = chat({ messages: [{ role: 'user', content: 'x'.repeat(1200) }] }, PROGRAM)
      await (await runCall(request, 'chat', it.deps)).text()
      return (it.saidTo('lease')[0] as LeaseRequest).prompt_tokens_estimate
    }
    const measured = new PoolMemory()
    measured.remember({ ...snapshotOf(['e0']), bytes_per_token: 2.5 })
    expect([await estimateBy(new PoolMemory()), await estimateBy(measured)]).toEqual([300, 480])
  })

  it('a long prompt is leased where its program’s KV cache is', async () => {
    expect(await order(LONG)).toMatchObject({ engine: 'e0' })
  })

  it('a lease that was granted to a call which is then refused is taken back', async () => {
    const refused = {
      status: 'refused' as const,
      code: 'program_open_calls_exceeded' as const,
      message: 'too many',
      retry_after_s: 3,
    }
    const it = world({ engines: { e0: answering('x') }, program: { admit: async () => refused } })
    const { status, code, headers } = await failureOf(await runCall(chat({}, PROGRAM), 'chat', it.deps))
    await it.settled()
    expect({ status, code, retry: headers.get('retry-after') }).toEqual({ status: 429, code: refused.code, retry: '3' })
    expect(it.saidTo('release')).toEqual([(it.saidTo('lease')[0] as LeaseRequest).lease])
  })
})

describe('what is refused before any actor is asked', () => {
  it.each<[string, Request, number, string, string | null]>([
    ['no JSON', new Request('http://x/', { method: 'POST', body: '{' }), 400, 'invalid_json', null],
    ['a wrong type', chat({ messages: 7 }), 400, 'invalid_value', 'messages'],
    ['an unknown model', chat({ model: 'gpt-17' }), 404, 'model_not_found', 'model'],
    ['an id over 128 characters', chat({}, { 'X-Program-Id': 'x'.repeat(129) }), 400, 'invalid_id', 'X-Program-Id'],
    [
      'a program id in metadata',
      chat({ metadata: { program_id: 'a\u0007b' } }),
      400,
      'invalid_id',
      'metadata.program_id',
    ],
  ])('%s', async (_, request, status, code, param) => {
    const it = world({ engines: { e0: answering('x') } })
    const response = await runCall(request, 'chat', it.deps)
    expect(response.status).toBe(status)
    expect((await response.json()) as ErrorAnswer).toMatchObject({
      error: { code, param, type: 'invalid_request_error' },
    })
    await it.settled()
    expect(it.said).toEqual([])
  })

  it('a body that grows past what an agent takes when it is written again; one at the bound is served', async () => {
    const numbers = Array.from({ length: 4000 }, () => 1e20)
    const body = { model: MODEL, messages: [{ role: 'user', content: '' }], documents: numbers }
    const parsed = chatDialect.parse(body, new Headers())
    const shortest = parsed.status === 'parsed' ? forwardedBody(parsed.call).length : 0
    const bodyOf = (forwarded_bytes: number): Request => {
      const text = 'x'.repeat(forwarded_bytes - shortest)
      const written = numbers.map(() => '1e20').join()
      const body = `{"model":"${MODEL}","messages":[{"role":"user","content":"${text}"}],"documents":[${written}]}`
      return new Request('http://x/', { method: 'POST', body })
    }
    const { it, requests } = claimsWorld()
    expect((await runCall(bodyOf(DISPATCHED_BODY_BYTES_MAX), 'chat', it.deps)).status).toBe(200)
    expect((await requests[0]?.arrayBuffer())?.byteLength).toBe(DISPATCHED_BODY_BYTES_MAX)
    const refused = await failureOf(await runCall(bodyOf(DISPATCHED_BODY_BYTES_MAX + 1), 'chat', it.deps))
    expect(refused).toMatchObject({ status: 413, code: 'request_too_large' })
    expect(requests).toHaveLength(1)
  })

  it('a request without a valid key, even with a malformed body', async () => {
    for (const reason of ['missing', 'unknown'] as const) {
      const it = world({ deps: { authenticate: async () => ({ status: 'refused', reason }) } })
      const { status, code, headers } = await failureOf(await runCall(chat({ model: 7 }), 'chat', it.deps))
      expect({ status, code }).toEqual({
        status: 401,
        code: reason === 'missing' ? 'missing_api_key' : 'invalid_api_key',
      })
      expect(headers.get('www-authenticate')).toBe('Bearer')
    }
  })
})
