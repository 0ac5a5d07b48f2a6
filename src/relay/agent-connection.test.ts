import { expect, it } from 'vitest'
import { FRAME_BYTES_MAX } from '../core/wire/sse.ts'
import {
  AGENT_CONNECTION_LIMITS,
  type AgentConnection,
  openAgentConnection,
  REFUSAL_BYTES_MAX,
} from './agent-connection.ts'
import { answering, chat, cutWithSignal, Script } from './testing/world.ts'

function open(response: Response, gone = new AbortController().signal): Promise<AgentConnection> {
  const fetching = (async () => response) as typeof fetch
  return openAgentConnection({
    url: 'http://e.test/',
    headers: new Headers(),
    body: '{}',
    gone,
    fetch: fetching,
    limits: AGENT_CONNECTION_LIMITS,
  })
}

function refusal(bytes: number): Response {
  const body = {
    error: { message: '', type: 'server_error', param: null, code: 'full' },
    status: 503,
    retryable: false,
  }
  const empty = JSON.stringify(body).length
  body.error.message = 'x'.repeat(bytes - empty)
  return Response.json(body, { status: 503 })
}

it('hands over the first data event and what came with it, and the rest as a stream', async () => {
  const script = new Script().write(': accepted\n\n: queued\n\ndata: 1\n\ndata: 2\n\nda').write('ta: 3\n\n').end()
  const opened = await open(script.response)
  if (opened.status !== 'data') throw new Error(opened.status)
  expect(new TextDecoder().decode(opened.head)).toBe('data: 1\n\ndata: 2\n\nda')
  let rest = ''
  for (let read = await opened.rest.read(); !read.done; read = await opened.rest.read())
    rest += new TextDecoder().decode(read.value)
  expect(rest).toBe('ta: 3\n\n')
})

it('a client that has left already starts nothing', async () => {
  const leaving = new AbortController()
  leaving.abort()
  expect(await open((await answering('x')(chat())) as Response, leaving.signal)).toEqual({ status: 'cancelled' })
})

it('reads a refusal of the bound, and takes a longer one for no reason at all', async () => {
  expect(await open(refusal(REFUSAL_BYTES_MAX))).toMatchObject({
    failure: { error: { code: 'full' }, replaceable: false },
  })
  expect(await open(refusal(REFUSAL_BYTES_MAX + 1))).toMatchObject({
    failure: { error: { code: 'engine_malformed' }, replaceable: true },
  })
})

it('takes a refusal that has no end for a broken connection', async () => {
  const endless = new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(new TextEncoder().encode('{"error":')),
  })
  const fetching = (async (_: string, { signal }: RequestInit) =>
    cutWithSignal(new Response(endless, { status: 503 }), signal as AbortSignal)) as unknown as typeof fetch
  const opened = await openAgentConnection({
    ...{ url: 'http://e.test/', headers: new Headers(), body: '{}', gone: new AbortController().signal },
    ...{ fetch: fetching, limits: { ...AGENT_CONNECTION_LIMITS, headers_timeout_ms: 40 } },
  })
  expect(opened).toMatchObject({ failure: { error: { code: 'engine_unreachable' }, replaceable: true } })
})

it('takes a first event that never ends for no event stream', async () => {
  const script = new Script().write(`data: ${'x'.repeat(FRAME_BYTES_MAX)}`)
  expect(await open(script.response)).toMatchObject({
    failure: { error: { code: 'engine_malformed' }, replaceable: true },
  })
})

it.each([401, 403, 404, 409])(
  'a %i speaks of ticket and lease, which are ours: another engine may serve',
  async (status) => {
    const error = { message: 'no', type: 'invalid_request_error', param: null, code: 'lease_used' }
    const response = Response.json({ error, status, retryable: false }, { status })
    expect(await open(response)).toMatchObject({ failure: { status: 502, replaceable: true } })
  },
)
