/** Journeys of one call through a scripted world: what the client gets and what actors are told. */
import { describe, expect, it } from 'vitest'
import type { LeaseReply, LeaseRequest } from '../actors/contracts.ts'
import { SHORT_PROMPT_TOKENS } from '../core/pool-types.ts'
import { LEASES_PER_CALL_MAX } from '../core/program-state.ts'
import { type TicketClaims, verifyTicket } from '../protocol/index.ts'
import { deriveTicketKey, importTicketKey } from '../protocol/ticket.ts'
import { PoolMemory } from './pool-memory.ts'
import { runCall } from './run-call.ts'
import {
  ADMITTED,
  answering,
  chat,
  delta,
  failing,
  leaseOf,
  MODEL,
  Script,
  snapshotOf,
  type World,
  world,
} from './testing/world.ts'

const PROGRAM = { 'X-Program-Id': 'p' }
const LONG = { messages: [{ role: 'user', content: 'x'.repeat(4 * (SHORT_PROMPT_TOKENS + 1)) }] }

interface ErrorAnswer {
  error: { message: string; type: string; param: string | null; code: string | null }
}

async function failureOf(response: Response): Promise<{ status: number; code: string | null; headers: Headers }> {
  const { error } = (await response.json()) as ErrorAnswer
  return { status: response.status, code: error.code, headers: response.headers }
}

/** The claims of every ticket that engines were shown, in order; engines answer "hi". */
function claimsWorld(options: Parameters<typeof world>[0] = {}): {
  it: World
  claims: TicketClaims[]
  requests: Request[]
} {
  const claims: TicketClaims[] = []
  const requests: Request[] = []
  const engine = async (request: Request): Promise<Response> => {
    requests.push(request.clone() as Request)
    const key = await importTicketKey(await deriveTicketKey('secret', '1', 'agent-e0'))
    const ticket = request.headers.get('authorization')?.replace('Bearer ', '') ?? ''
    const verdict = await verifyTicket(ticket, new Map([['1', key]]), Date.now() / 1000)
    if (!verdict.ok) throw new Error(verdict.reason)
    claims.push(verdict.claims)
    return answering('hi')(request)
  }
  return { it: world({ engines: { e0: engine }, ...options }), claims, requests }
}

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
    expect(it.saidTo('callEnded')).toMatchObject([{ run: 'run-1', outcome: 'completed', error_code: null }])
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
    expect(it.saidTo('callEnded')).toMatchObject([{ outcome: 'completed' }])
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
      attained_service_us: 5,
      critical_path_us: 3,
      wait_us: 2,
      tenant_weight: 1,
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

  it('of no program touches no ProgramActor and returns no program', async () => {
    const { it, claims } = claimsWorld()
    const response = await runCall(chat(), 'chat', it.deps)
    await response.text()
    await it.settled()
    expect(it.said.filter(({ to }) => to === 'program')).toEqual([])
    expect(response.headers.get('x-program-id')).toBeNull()
    const call = response.headers.get('x-call-id')
    expect(claims[0]).toMatchObject({ program: call, run: call, call, attained_service_us: 0 })
  })

  it('takes its id from us, whatever the client sends', async () => {
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

describe('an actor that is slow or broken', () => {
  const never = new Promise<never>(() => {})

  it('admit: the call goes on unpinned at the tenant’s median, under a run that nobody has', async () => {
    for (const admit of [() => never, () => Promise.reject(Object.assign(new Error('x'), { overloaded: true }))]) {
      const { it, claims } = claimsWorld({ program: { admit }, times: { admit_timeout_ms: 10 } })
      const response = await runCall(chat({}, PROGRAM), 'chat', it.deps)
      expect(response.status).toBe(200)
      expect(claims[0]).toMatchObject({ program: 'p', attained_service_us: 77 })
      expect(claims[0]?.run).not.toBe('run-1')
    }
  })

  it('admit that answers late still hears how its call went, in its own run', async () => {
    const { promise, resolve } = Promise.withResolvers<typeof ADMITTED>()
    const it = world({
      engines: { e0: answering('x') },
      program: { admit: () => promise },
      times: { admit_timeout_ms: 10 },
    })
    await (await runCall(chat({}, PROGRAM), 'chat', it.deps)).text()
    expect(it.saidTo('callEnded')).toEqual([])
    resolve(ADMITTED)
    await it.settled()
    expect(it.said.filter(({ to }) => to === 'program').map(({ method }) => method)).toEqual([
      'admit',
      'leaseOpened',
      'callEnded',
    ])
    expect(it.saidTo('callEnded')).toMatchObject([{ run: 'run-1', outcome: 'completed' }])
  })

  it('admit and the tenant both: the call goes on at service 0', async () => {
    const options = { program: { admit: () => never }, tenant: { medianService: () => never } }
    const { it, claims } = claimsWorld({ ...options, times: { admit_timeout_ms: 5, median_timeout_ms: 5 } })
    expect((await runCall(chat({}, PROGRAM), 'chat', it.deps)).status).toBe(200)
    expect(claims[0]?.attained_service_us).toBe(0)
  })

  it('pool: the isolate’s last snapshot decides; without one it is 503', async () => {
    const pools = new PoolMemory()
    const pool = { lease: (): Promise<LeaseReply> => never }
    const times = { pool_timeout_ms: 10 }
    const blind = world({ engines: { e0: answering('x') }, pool, times, pools })
    const { status, code, headers } = await failureOf(await runCall(chat({}, PROGRAM), 'chat', blind.deps))
    expect({ status, code }).toEqual({ status: 503, code: 'no_engine' })
    expect(Number(headers.get('retry-after'))).toBeGreaterThan(0)
    await blind.settled()
    expect(blind.saidTo('callEnded')).toMatchObject([{ outcome: 'failed', error_code: 'no_engine' }])

    const seeing = world({
      pool: { lease: async () => leaseOf('e0', snapshotOf(['e0'])) },
      engines: { e0: answering('x') },
      pools,
    })
    await (await runCall(chat(), 'chat', seeing.deps)).text()
    const it = world({ engines: { e0: answering('x') }, pool, times, pools })
    expect((await runCall(chat({}, PROGRAM), 'chat', it.deps)).status).toBe(200)
    await it.settled()
    expect(it.saidTo('leaseOpened')).toMatchObject([{ engine: 'e0', reason: 'snapshot' }])
  })

  it('settle notes that are lost are reported and harm nobody', async () => {
    const leaseOpened = () => Promise.reject(new Error('gone'))
    const it = world({ engines: { e0: answering('x') }, program: { leaseOpened } })
    expect((await runCall(chat({}, PROGRAM), 'chat', it.deps)).status).toBe(200)
    await it.settled()
    expect(it.reports).toEqual(['note_failed'])
    expect(it.saidTo('callEnded')).toHaveLength(1)
  })
})

describe('regions', () => {
  it('the next region is asked when the near one is too full, and the reason says so', async () => {
    const asked: string[] = []
    const it = world({ engines: { e0: answering('x') }, regions: ['near', 'far'] })
    const deps = {
      ...it.deps,
      pool: (region: { id: string }) => {
        asked.push(region.id)
        const lease = async (): Promise<LeaseReply> =>
          region.id === 'near' ? { status: 'busy', load: 9, snapshot: null } : leaseOf('e0')
        return { lease } as unknown as ReturnType<World['deps']['pool']>
      },
    }
    const response = await runCall(chat({}, PROGRAM), 'chat', deps)
    await it.settled()
    expect(asked).toEqual(['near', 'far'])
    expect(response.headers.get('x-region')).toBe('far')
    expect(it.saidTo('leaseOpened')).toMatchObject([{ region: 'far', reason: 'spilled' }])
  })
})

describe('an engine that fails before its first data event', () => {
  const beforeData: [string, () => Response | Promise<Response>][] = [
    ['cannot be reached', () => Promise.reject(new Error('Network connection lost.'))],
    ['is draining', () => failing({ code: 'draining' })(chat()) as Response],
    ['has another epoch', () => failing({ code: 'epoch_gone' }, 409)(chat()) as Response],
    [
      'does not know our ticket',
      () => failing({ code: 'ticket_invalid', status: 401, retryable: false }, 401)(chat()) as Response,
    ],
    ['answers nonsense', () => new Response('<html>', { status: 502 })],
    ['breaks after its headers', () => new Script().write(': accepted\n\n').break().response],
    ['ends after its headers', () => new Script().write(': accepted\n\n').end().response],
    [
      'reports a failure',
      () => new Script().write(': accepted\n\n').write(errorEvent('engine_failed', true)).end().response,
    ],
    ['is silent', () => new Script().response],
    ['never answers', () => new Promise<Response>(() => {})],
  ]

  it.each(beforeData)('%s: another one serves, and the client knows nothing', async (_, engine) => {
    const times = { silence_ms_max: 20, headers_timeout_ms: 20 }
    const abortable = (request: Request): Promise<Response> =>
      Promise.race([
        Promise.resolve(engine()),
        new Promise<never>((_resolve, reject) =>
          request.signal.addEventListener('abort', () => reject(request.signal.reason)),
        ),
      ])
    const it = world({
      engines: { e0: (request) => cutWithSignal(abortable(request), request.signal), e1: answering('hello') },
      times,
    })
    const response = await runCall(chat({ stream: true }, PROGRAM), 'chat', it.deps)
    expect(response.headers.get('x-engine-id')).toBe('e1')
    expect(await response.text()).toContain('hello')
    await it.settled()
    const [first, second] = it.saidTo('lease') as LeaseRequest[]
    expect(second?.excluded_engines).toEqual(['e0'])
    expect(it.saidTo('leaseOpened')).toMatchObject([{ engine: 'e0' }, { engine: 'e1' }])
    expect(it.saidTo('leaseLost')).toMatchObject([{ lease: first?.lease }])
    expect(it.saidTo('release')).toEqual([first?.lease])
    expect(it.saidTo('callEnded')).toMatchObject([{ outcome: 'completed' }])
  })

  it('an engine of another agent is preferred, and one of the same agent is still tried', async () => {
    const asked: (readonly string[])[] = []
    const lease = async ({ excluded_engines }: LeaseRequest): Promise<LeaseReply> => {
      asked.push(excluded_engines)
      const free = ['e0', 'e1'].find((engine) => !excluded_engines.includes(engine))
      if (free === undefined) return { status: 'none', retry_after_s: 5, snapshot: null }
      return { ...leaseOf(free, sameAgent), agent: 'agent-e0' } as LeaseReply
    }
    const listed = snapshotOf(['e0', 'e1'])
    const sameAgent = { ...listed, engines: listed.engines.map((engine) => ({ ...engine, agent: 'agent-e0' })) }
    const it = world({ engines: { e0: failing({ code: 'engine_down' }), e1: answering('x') }, pool: { lease } })
    expect((await runCall(chat({ stream: true }), 'chat', it.deps)).headers.get('x-engine-id')).toBe('e1')
    expect(asked).toEqual([[], ['e0', 'e1'], ['e0']])
  })

  it('no more than the bound of leases is tried', async () => {
    const engines = Object.fromEntries(
      Array.from({ length: LEASES_PER_CALL_MAX + 1 }, (_, i) => [`e${i}`, failing({ code: 'engine_full' })]),
    )
    const it = world({ engines })
    const { status, code, headers } = await failureOf(await runCall(chat({}, PROGRAM), 'chat', it.deps))
    expect({ status, code }).toEqual({ status: 503, code: 'engine_full' })
    expect(headers.get('retry-after')).not.toBeNull()
    await it.settled()
    expect(it.saidTo('lease')).toHaveLength(LEASES_PER_CALL_MAX)
    expect(it.saidTo('callEnded')).toMatchObject([{ outcome: 'failed', error_code: 'engine_full' }])
  })

  it('the last of the bound may still serve', async () => {
    const bad = Object.fromEntries(
      Array.from({ length: LEASES_PER_CALL_MAX - 1 }, (_, i) => [`e${i}`, failing({ code: 'engine_full' })]),
    )
    const it = world({ engines: { ...bad, good: answering('x') } })
    expect((await runCall(chat({}, PROGRAM), 'chat', it.deps)).status).toBe(200)
  })

  it('a client’s own mistake is answered at once with its field, before and after the headers', async () => {
    const error = {
      message: 'too long',
      type: 'invalid_request_error',
      param: 'messages',
      code: 'context_length_exceeded',
    }
    const stated = { error, status: 400, retryable: false }
    const engines = [
      () => Response.json(stated, { status: 400 }),
      () => new Script().write(`event: error\ndata: ${JSON.stringify(stated)}\n\n`).end().response,
    ]
    for (const engine of engines) {
      const it = world({ engines: { e0: engine, e1: answering('x') } })
      const response = await runCall(chat({ stream: true }, PROGRAM), 'chat', it.deps)
      expect(response.status).toBe(400)
      expect(await response.json()).toEqual({ error })
      await it.settled()
      expect(it.saidTo('lease')).toHaveLength(1)
      expect(it.saidTo('callEnded')).toMatchObject([{ outcome: 'failed', error_code: 'context_length_exceeded' }])
    }
  })
})

describe('an engine that fails after its first data event', () => {
  it('a stream ends with a chunk that has the error, and the call settles as failed', async () => {
    const script = new Script().chunk(delta('half'))
    const it = world({ engines: { e0: () => script.response, e1: answering('x') } })
    const response = await runCall(chat({ stream: true }, PROGRAM), 'chat', it.deps)
    expect(response.status).toBe(200)
    const text = response.text()
    script.break()
    const events = (await text).split('\n\n').filter((event) => event !== '')
    expect(events[0]).toBe(`data: ${JSON.stringify(delta('half'))}`)
    expect(JSON.parse(events.at(-1)?.replace('data: ', '') ?? '')).toMatchObject({
      error: { code: 'engine_failed', type: 'server_error' },
    })
    expect(await text).not.toContain('[DONE]')
    await it.settled()
    expect(it.saidTo('lease')).toHaveLength(1)
    expect(it.saidTo('callEnded')).toMatchObject([{ outcome: 'failed', error_code: 'engine_failed' }])
  })

  it.each<[string, (script: Script) => void, number, string]>([
    ['breaks', (script) => script.break(), 502, 'engine_failed'],
    ['ends without [DONE]', (script) => script.end(), 502, 'engine_failed'],
    ['says why', (script) => script.write(errorEvent('engine_oom', true)).end(), 503, 'engine_oom'],
    [
      'says why as OpenAI does',
      (script) => script.write(`data: ${JSON.stringify({ error: errorOf('engine_oom') })}\n\n`).end(),
      502,
      'engine_oom',
    ],
    ['sends nonsense', (script) => script.write('data: {"id":\n\n'), 502, 'engine_failed'],
  ])('an answer in one piece that has not begun has its status: %s', async (_, fail, status, code) => {
    const script = new Script().chunk(delta('half'))
    const it = world({ engines: { e0: () => script.response } })
    const answer = runCall(chat({}, PROGRAM), 'chat', it.deps)
    // An errored stream drops what was not read yet, so the first chunk must be read before.
    setTimeout(() => fail(script), 20)
    expect(await failureOf(await answer)).toMatchObject({ status, code })
    await it.settled()
    expect(it.saidTo('callEnded')).toMatchObject([{ outcome: 'failed', error_code: code }])
  })
})

describe('a call that waits', () => {
  const times = { headers_hold_ms: 10, waiting_interval_ms: 10 }

  it('a stream has its headers after the hold, then comments, then its data', async () => {
    const script = new Script().write(': accepted\n\n')
    const it = world({ engines: { e0: () => script.response }, times })
    const response = await runCall(chat({ stream: true }, PROGRAM), 'chat', it.deps)
    expect(response.headers.get('x-engine-id')).toBe('e0')
    expect(response.headers.get('server-timing')).not.toContain('first_data')
    const reader = (response.body as ReadableStream<Uint8Array>).pipeThrough(new TextDecoderStream()).getReader()
    expect((await reader.read()).value).toBe(': waiting\n\n')
    expect((await reader.read()).value).toBe(': waiting\n\n')
    script.chunk(delta('late')).write('data: [DONE]\n\n').end()
    let rest = ''
    for (let read = await reader.read(); !read.done; read = await reader.read()) rest += read.value
    expect(rest.replaceAll(': waiting\n\n', '')).toBe(`data: ${JSON.stringify(delta('late'))}\n\ndata: [DONE]\n\n`)
  })

  it('a stream that fails after the hold ends with the error in a chunk', async () => {
    const script = new Script().write(': accepted\n\n')
    const it = world({ engines: { e0: () => script.response }, times })
    const response = await runCall(chat({ stream: true }, PROGRAM), 'chat', it.deps)
    script.write(errorEvent('context_length_exceeded', false)).end()
    const text = await response.text()
    expect(text).toContain('data: {"error":{')
    expect(text).not.toContain('[DONE]')
    await it.settled()
    expect(it.saidTo('callEnded')).toMatchObject([{ outcome: 'failed', error_code: 'context_length_exceeded' }])
  })

  it('an answer in one piece is white space until its JSON', async () => {
    const script = new Script().chunk(delta('he'))
    const it = world({ engines: { e0: () => script.response }, times })
    const response = await runCall(chat({}, PROGRAM), 'chat', it.deps)
    const reader = (response.body as ReadableStream<Uint8Array>).pipeThrough(new TextDecoderStream()).getReader()
    expect((await reader.read()).value).toBe(' ')
    script.chunk(delta('llo')).write('data: [DONE]\n\n').end()
    let rest = ''
    for (let read = await reader.read(); !read.done; read = await reader.read()) rest += read.value
    expect(JSON.parse(rest)).toMatchObject({ choices: [{ message: { content: 'hello' } }] })
  })

  it('an answer in one piece that fails after it began breaks, and is never half an answer', async () => {
    const script = new Script().chunk(delta('he'))
    const it = world({ engines: { e0: () => script.response }, times })
    const response = await runCall(chat({}, PROGRAM), 'chat', it.deps)
    expect(response.status).toBe(200)
    script.break()
    await expect(response.text()).rejects.toThrow()
    await it.settled()
    expect(it.saidTo('callEnded')).toMatchObject([{ outcome: 'failed' }])
  })

  it('one engine that is slow and then fails is replaced inside the open stream', async () => {
    const script = new Script().write(': accepted\n\n')
    const it = world({ engines: { e0: () => script.response, e1: answering('second') }, times })
    const response = await runCall(chat({ stream: true }, PROGRAM), 'chat', it.deps)
    script.break()
    const text = await response.text()
    expect(text.replaceAll(': waiting\n\n', '')).toBe(`data: ${JSON.stringify(delta('second'))}\n\ndata: [DONE]\n\n`)
  })
})

describe('a client that leaves', () => {
  it.each([true, false])(
    'while it waits (stream: %s): upstream is cut, and the call settles as cancelled',
    async (stream) => {
      const leaving = new AbortController()
      const script = new Script().write(': accepted\n\n')
      const it = world({ engines: { e0: (request) => cutWithSignal(script.response, request.signal) } })
      const response = runCall(chat({ stream }, PROGRAM, leaving.signal), 'chat', it.deps)
      leaving.abort()
      expect((await response).status).toBe(499)
      await it.settled()
      expect(it.saidTo('leaseLost')).toMatchObject([{ error_code: 'client_left' }])
      expect(it.saidTo('callEnded')).toMatchObject([{ outcome: 'cancelled' }])
    },
  )

  it('while tokens flow: upstream is cancelled', async () => {
    const leaving = new AbortController()
    const script = new Script().chunk(delta('a'))
    const it = world({ engines: { e0: (request) => cutWithSignal(script.response, request.signal) } })
    const response = await runCall(chat({ stream: true }, PROGRAM, leaving.signal), 'chat', it.deps)
    const reader = (response.body as ReadableStream<Uint8Array>).getReader()
    await reader.read()
    leaving.abort()
    await it.settled()
    expect(script.cancelled).toBe(true)
    expect(it.saidTo('callEnded')).toMatchObject([{ outcome: 'cancelled', error_code: 'client_left' }])
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

  it('a request without a valid key, whatever its body', async () => {
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

function errorEvent(code: string, retryable: boolean): string {
  const error = errorOf(code)
  return `event: error\ndata: ${JSON.stringify({ error, status: retryable ? 503 : 400, retryable })}\n\n`
}

function errorOf(code: string): object {
  return { message: code, type: 'server_error', param: null, code }
}

/** As the network does it: an aborted fetch errors the body that is being read. */
async function cutWithSignal(coming: Response | Promise<Response>, signal: AbortSignal): Promise<Response> {
  const response = await coming
  if (response.body === null) return response
  const reader = (response.body as ReadableStream<Uint8Array>).getReader()
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => {
      signal.addEventListener('abort', () => {
        controller.error(signal.reason)
        void reader.cancel()
      })
    },
    pull: async (controller) => {
      const { done, value } = await reader.read()
      if (signal.aborted) return
      if (done) controller.close()
      else controller.enqueue(value)
    },
  })
  return new Response(body, response)
}
