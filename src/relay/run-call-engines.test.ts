/** A call whose engine fails, is slow, or whose client leaves, through a scripted world. */
import { describe, expect, it } from 'vitest'
import type { LeaseReply, LeaseRequest } from '../actors/contracts.ts'
import { ACCEPTED_HEADER } from '../protocol/index.ts'
import { ENGINES_TRIED_MAX } from './dispatch.ts'
import { runCall } from './run-call.ts'
import {
  answering,
  chat,
  cutWithSignal,
  delta,
  failing,
  failureOf,
  leaseOf,
  PROGRAM,
  Script,
  snapshotOf,
  world,
} from './testing/world.ts'

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

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
    expect(it.endings()).toMatchObject([{ outcome: 'completed' }])
  })

  it('an engine of another agent is preferred, and one of the same agent is still tried', async () => {
    const asked: (readonly string[])[] = []
    const lease = async ({ excluded_engines }: LeaseRequest): Promise<LeaseReply> => {
      asked.push(excluded_engines)
      const free = ['e0', 'e1'].find((engine) => !excluded_engines.includes(engine))
      if (free === undefined) return { status: 'none', retry_after_s: 5, ticket_kid: null, snapshot: null, charges: [] }
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
      Array.from({ length: ENGINES_TRIED_MAX + 1 }, (_, i) => [`e${i}`, failing({ code: 'engine_full' })]),
    )
    const it = world({ engines })
    const { status, code, headers } = await failureOf(await runCall(chat({}, PROGRAM), 'chat', it.deps))
    expect({ status, code }).toEqual({ status: 503, code: 'engine_full' })
    expect(headers.get('retry-after')).not.toBeNull()
    await it.settled()
    expect(it.saidTo('lease')).toHaveLength(ENGINES_TRIED_MAX)
    expect(it.saidTo('callEnded')).toMatchObject([{ outcome: 'failed', error_code: 'engine_full' }])
  })

  it('engines that are all full give a 429 that says when the last one asked expects room', async () => {
    const error = { message: 'full', type: 'rate_limit_error', param: null, code: 'engine_full' }
    const full = (retry_after_s: number) => () =>
      Response.json({ error, status: 429, retryable: true, retry_after_s }, { status: 429 })
    const it = world({ engines: { e0: full(3), e1: full(7) } })
    const { status, code, headers } = await failureOf(await runCall(chat({}, PROGRAM), 'chat', it.deps))
    expect({ status, code }).toEqual({ status: 429, code: 'engine_full' })
    expect(headers.get('retry-after')).toBe('7')
  })

  it('the last of the bound may still serve', async () => {
    const bad = Object.fromEntries(
      Array.from({ length: ENGINES_TRIED_MAX - 1 }, (_, i) => [`e${i}`, failing({ code: 'engine_full' })]),
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

  it.each(['header', 'comment'])(
    'a stream has its headers after the hold, then comments, then its data (%s)',
    async (by) => {
      const script = new Script()
      if (by === 'header') script.response.headers.set(ACCEPTED_HEADER, '1')
      else script.write(': accepted\n\n')
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
    },
  )

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

  it.each([true, false])(
    'a refusal that comes late, but before the call is taken, has its status (stream: %s)',
    async (stream) => {
      const script = new Script().write(': queued\n\n')
      const it = world({ engines: { e0: () => script.response }, times })
      const answering = runCall(chat({ stream }, PROGRAM), 'chat', it.deps)
      const early = await Promise.race([answering, new Promise((resolve) => setTimeout(() => resolve('held'), 100))])
      expect(early).toBe('held')
      script.write(errorEvent('context_length_exceeded', false)).end()
      expect(await failureOf(await answering)).toMatchObject({ status: 400, code: 'context_length_exceeded' })
    },
  )

  it.each([true, false])(
    'an engine that neither takes nor refuses it holds the headers for a while only (stream: %s)',
    async (stream) => {
      const script = new Script().write(': queued\n\n')
      const it = world({ engines: { e0: () => script.response }, times: { ...times, acceptance_hold_ms: 10 } })
      const response = await runCall(chat({ stream }, PROGRAM), 'chat', it.deps)
      expect(response.status).toBe(200)
      script.chunk(delta('late')).write('data: [DONE]\n\n').end()
      expect(await response.text()).toContain('late')
    },
  )

  it('the reason of a broken answer, which the runtime logs, has nothing that an engine quotes from a prompt', async () => {
    const script = new Script().write(': accepted\n\n')
    const it = world({ engines: { e0: () => script.response }, times })
    const response = await runCall(chat({}, PROGRAM), 'chat', it.deps)
    const error = { message: 'my secret prompt', type: 'invalid_request_error', param: null, code: 'invalid_value' }
    script.write(`event: error\ndata: ${JSON.stringify({ error, status: 400, retryable: false })}\n\n`).end()
    await expect(response.text()).rejects.toThrow('the engine failed: invalid_value')
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

describe('a client that leaves a stream which has flowed for some time', () => {
  // A rejection that no code handles fails the run. The pipe has begun, and its tail is between two reads.
  it.each([1, 20, 60])('%d ms: upstream is cancelled, and no rejection is left', async (flowed_ms) => {
    const leaving = new AbortController()
    const script = new Script().chunk(delta('a'))
    const it = world({ engines: { e0: (request) => cutWithSignal(script.response, request.signal) } })
    const rejections: unknown[] = []
    const listen = (event: PromiseRejectionEvent): void => void rejections.push(event.reason)
    addEventListener('unhandledrejection', listen)
    const response = await runCall(chat({ stream: true }, PROGRAM, leaving.signal), 'chat', it.deps)
    const reader = (response.body as ReadableStream<Uint8Array>).getReader()
    await reader.read()
    await pause(flowed_ms)
    leaving.abort()
    await it.settled()
    expect(script.cancelled).toBe(true)
    expect(it.saidTo('callEnded')).toMatchObject([{ outcome: 'cancelled', error_code: 'client_left' }])
    // Reported in a turn of its own.
    await pause(50)
    removeEventListener('unhandledrejection', listen)
    expect(rejections).toEqual([])
  })
})

function errorEvent(code: string, retryable: boolean): string {
  const error = errorOf(code)
  return `event: error\ndata: ${JSON.stringify({ error, status: retryable ? 503 : 400, retryable })}\n\n`
}

function errorOf(code: string): object {
  return { message: code, type: 'server_error', param: null, code }
}
