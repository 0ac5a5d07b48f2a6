/**
 * One stream, over real sockets: workerd between a client and an agent that does what the test says. What workerd does
 * with half-read, broken and abandoned responses can be seen nowhere else.
 */
import { createHash, randomBytes } from 'node:crypto'
import OpenAI, { APIError } from 'openai'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { startTestbed, type Testbed } from '../../lab/testbed/testbed.ts'
import { ScriptedAgent, type ScriptedCall } from './support/scripted-agent.ts'
import { eventually } from './support/system.ts'

const MODEL = 'scripted'
const AGENT = 'us-east-1'
const MESSAGES = [{ role: 'user' as const, content: 'hi' }]

let control: Testbed
let agent: ScriptedAgent
let client: OpenAI

beforeAll(async () => {
  control = await startTestbed({ name: 'relay', regions: ['us-east'], model: MODEL })
  const token = control.secrets.agentTokens[AGENT] ?? ''
  agent = new ScriptedAgent({ controlUrl: control.url, id: AGENT, region: 'us-east', model: MODEL, token, engines: 2 })
  await agent.start()
  client = new OpenAI({ baseURL: `${control.url}/v1`, apiKey: control.secrets.apiKey, maxRetries: 0 })
})
afterAll(async () => {
  await agent?.stop()
  await control?.remove()
})
beforeEach(() => {
  agent.calls.length = 0
})

function delta(content: string, finish_reason: string | null = null): string {
  const choices = [{ index: 0, delta: { content }, finish_reason }]
  return `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: MODEL, choices })}\n\n`
}

const DONE = 'data: [DONE]\n\n'
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

const UNRESUMED = { 'x-resume': 'off' }

function post(
  stream: boolean,
  init: { signal?: AbortSignal; program?: string; headers?: Record<string, string> } = {},
): Promise<Response> {
  const headers: Record<string, string> = { 'content-type': 'application/json', ...init.headers }
  if (init.program !== undefined) headers['x-program-id'] = init.program
  const body = JSON.stringify({ model: MODEL, messages: MESSAGES, stream })
  return control.fetch('/v1/chat/completions', {
    method: 'POST',
    headers,
    body,
    ...(init.signal ? { signal: init.signal } : {}),
  })
}

async function* textOf(response: Response): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  for await (const bytes of response.body as AsyncIterable<Uint8Array>) yield decoder.decode(bytes, { stream: true })
}

interface ListedCall {
  outcome: string | null
  error_code: string | null
  state: string
  leases: { engine: string; state: string; error_code: string | null }[]
}

/** The one call of a program, once it has ended. */
function ended(program: string): Promise<ListedCall> {
  return eventually(`the call of ${program} ends`, async () => {
    const response = await control.fetch(`/v1/programs/${program}/calls`)
    if (response.status !== 200) return undefined
    const [call] = ((await response.json()) as { data: ListedCall[] }).data
    return call?.state === 'ended' ? call : undefined
  })
}

async function thrownBy(work: Promise<unknown>): Promise<unknown> {
  return work.then(
    () => undefined,
    (error: unknown) => error,
  )
}

async function drain(stream: AsyncIterable<OpenAI.ChatCompletionChunk>): Promise<string> {
  let text = ''
  for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? ''
  return text
}

describe('a stream', () => {
  it('is not buffered: chunk 2 is written only when the client has chunk 1', async () => {
    const received: ReturnType<typeof Promise.withResolvers<void>>[] = Array.from({ length: 5 }, () =>
      Promise.withResolvers<void>(),
    )
    agent.handler = async ({ accept, response }) => {
      accept()
      for (const [index, gate] of received.entries()) {
        response.write(delta(`${index}`))
        await gate.promise
      }
      response.end(DONE)
    }
    let text = ''
    for await (const piece of textOf(await post(true))) {
      text += piece
      for (let index = 0; index < received.length; index += 1) {
        if (text.includes(delta(`${index}`))) received[index]?.resolve()
      }
    }
    expect(text).toBe(`${['0', '1', '2', '3', '4'].map((part) => delta(part)).join('')}${DONE}`)
  })

  it('passes 1 MB/s through byte by byte, for all cuts of reads', async () => {
    const sent = createHash('sha256')
    const pieces = Array.from({ length: 32 }, () =>
      Buffer.from(`data: {"x":"${randomBytes(24_000).toString('base64')}ž🐎"}\n\n`),
    )
    agent.handler = async ({ response }) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      const all = Buffer.concat([...pieces, Buffer.from(DONE)])
      sent.update(all)
      for (let at = 0; at < all.length; at += 50_001) {
        response.write(all.subarray(at, at + 50_001))
        await sleep(50)
      }
      response.end()
    }
    const response = await post(true)
    const got = createHash('sha256')
    for await (const bytes of response.body as AsyncIterable<Uint8Array>) got.update(bytes)
    expect(got.digest('hex')).toBe(sent.digest('hex'))
  })

  it('holds a slow reader’s bytes back at the engine instead of piling them up', async () => {
    const piece = delta('x'.repeat(256 * 1024))
    const pieces_max = 256
    let written = 0
    let is_stalled = false
    agent.handler = async ({ response, closed }) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(delta('a'))
      while (written < pieces_max) {
        written += 1
        if (response.write(piece)) continue
        const drained = new Promise<'drained'>((resolve) => response.once('drain', () => resolve('drained')))
        const ends = await Promise.race([drained, closed.then(() => 'closed'), sleep(2000).then(() => 'stalled')])
        is_stalled = ends === 'stalled'
        if (ends !== 'drained') return
      }
    }
    // Held, since a response that is collected as garbage counts as left.
    const response = await post(true)
    await eventually('the engine’s writes stall', () => is_stalled || undefined)
    expect(written).toBeLessThan(pieces_max)
    await response.body?.cancel()
  })

  it('has its headers after the hold and comments while it waits', async () => {
    const go = Promise.withResolvers<void>()
    agent.handler = async ({ accept, response }) => {
      accept()
      await go.promise
      response.end(`${delta('late')}${DONE}`)
    }
    const response = await post(true)
    expect(response.status).toBe(200)
    expect(agent.engines).toContain(response.headers.get('x-engine-id'))
    let text = ''
    for await (const piece of textOf(response)) {
      text += piece
      if (text.split(': waiting').length > 2) go.resolve()
    }
    expect(text.replaceAll(': waiting\n\n', '')).toBe(`${delta('late')}${DONE}`)
  })
})

describe('a client that leaves', () => {
  it('while tokens flow: the engine’s connection closes and the call settles as cancelled', async () => {
    agent.handler = async ({ accept, response }) => {
      accept()
      while (!response.destroyed) {
        response.write(delta('x'))
        await sleep(20)
      }
    }
    const leaving = new AbortController()
    const response = await post(true, { signal: leaving.signal, program: 'leaves-while-tokens-flow' })
    await (response.body as ReadableStream<Uint8Array>).getReader().read()
    leaving.abort()
    await agent.calls[0]?.closed
    expect(await ended('leaves-while-tokens-flow')).toMatchObject({ outcome: 'cancelled', error_code: 'client_left' })
  })

  it.each([true, false])('while it waits (stream: %s): the same', async (stream) => {
    const program = `leaves-while-it-waits-${stream}`
    agent.handler = ({ accept }) => accept()
    const leaving = new AbortController()
    const answer = thrownBy(post(stream, { signal: leaving.signal, program }))
    const call = await eventually('the engine was called', () => agent.calls[0])
    leaving.abort()
    await answer
    await call.closed
    expect(await ended(program)).toMatchObject({ outcome: 'cancelled' })
  })

  it('while an answer in one piece is being put together: the same', async () => {
    agent.handler = async ({ accept, response }) => {
      accept()
      while (!response.destroyed) {
        response.write(delta('x'))
        await sleep(20)
      }
    }
    const leaving = new AbortController()
    const answer = thrownBy(
      post(false, { signal: leaving.signal, program: 'leaves-whole' }).then((response) => response.text()),
    )
    const call = await eventually('the engine was called', () => agent.calls[0])
    setTimeout(() => leaving.abort(), 1500)
    await answer
    await call.closed
    expect(await ended('leaves-whole')).toMatchObject({ outcome: 'cancelled' })
  })
})

describe('an engine that fails', () => {
  const dying: [string, (call: ScriptedCall) => void][] = [
    ['closes the connection', ({ response }) => void response.destroy()],
    [
      'resets it after its headers',
      ({ accept, response }) => {
        accept()
        setTimeout(() => response.socket?.resetAndDestroy(), 50)
      },
    ],
    [
      'ends its response',
      ({ accept, response }) => {
        accept()
        response.end()
      },
    ],
  ]

  it.each(dying)('and %s before its first data event is replaced', async (what, die) => {
    const program = `replaced-${what.replaceAll(' ', '-')}`
    agent.handler = (call) => {
      if (agent.calls.length === 1) return die(call)
      call.accept()
      call.response.end(`${delta('second')}${DONE}`)
    }
    const response = await post(true, { program })
    expect(await response.text()).toBe(`${delta('second')}${DONE}`)
    const engines = agent.calls.map(({ claims }) => claims.engine)
    expect(new Set(engines)).toEqual(new Set(agent.engines))
    expect(response.headers.get('x-engine-id')).toBe(engines[1])
    // A record would end the call, and this agent sends none. The program's next call tells of the answer that came.
    await (await post(true, { program })).text()
    const call = await ended(program)
    expect(call).toMatchObject({ outcome: 'completed' })
    expect(call.leases[0]).toMatchObject({ engine: engines[0], state: 'lost' })
  })

  it.each<[string, (call: ScriptedCall) => void]>([
    ['whose connection breaks', ({ response }) => void response.socket?.resetAndDestroy()],
    ['whose connection ends between chunks', ({ response }) => void response.socket?.end()],
  ])('%s after its first data event: the SDK raises, and the call settles as failed', async (what, die) => {
    const program = `fails-late-${what.replaceAll(' ', '-')}`
    agent.handler = async (call) => {
      call.accept()
      call.response.write(delta('half'))
      await sleep(100)
      die(call)
    }
    const request = { model: MODEL, messages: MESSAGES, stream: true as const }
    const error = await thrownBy(
      client.chat.completions.create(request, { headers: { ...UNRESUMED, 'x-program-id': program } }).then(drain),
    )
    expect(error).toBeInstanceOf(APIError)
    expect(error).toMatchObject({ code: 'engine_failed', type: 'server_error' })
    expect(agent.calls).toHaveLength(1)
    expect(await ended(program)).toMatchObject({ outcome: 'failed', error_code: 'engine_failed' })
  })

  it('and says why after its first data event: the SDK raises what the engine said', async () => {
    const error = { message: 'out of memory', type: 'server_error', param: null, code: 'engine_oom' }
    const frame = JSON.stringify({ error, status: 503, retryable: true })
    for (const event of ['event: error\n', '']) {
      agent.handler = ({ accept, response }) => {
        accept()
        response.end(`${delta('half')}${event}data: ${frame}\n\n`)
      }
      const thrown = await thrownBy(
        client.chat.completions
          .create({ model: MODEL, messages: MESSAGES, stream: true }, { headers: UNRESUMED })
          .then(drain),
      )
      expect(thrown).toBeInstanceOf(APIError)
      expect(thrown).toMatchObject({ code: 'engine_oom' })
    }
  })

  it('inside a chunk: its client sees nothing of what was cut', async () => {
    agent.handler = async ({ accept, response }) => {
      accept()
      response.write(delta('half'))
      response.write('data: {"id":"c","choi')
      await sleep(100)
      response.destroy()
    }
    const text = await (await post(true, { headers: UNRESUMED })).text()
    const events = text.split('\n\n').filter((event) => event !== '')
    expect(events).toHaveLength(2)
    expect(JSON.parse(events[1]?.replace('data: ', '') ?? '')).toMatchObject({ error: { code: 'engine_failed' } })
  })
})

describe('an answer in one piece', () => {
  it('is put together from the stream', async () => {
    agent.handler = ({ accept, body, response }) => {
      expect(body).toMatchObject({ stream: true, stream_options: { include_usage: true } })
      accept()
      const usage = { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 }
      const last = `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', choices: [], usage })}\n\n`
      response.end(`${delta('Hel')}${delta('lo', 'stop')}${last}${DONE}`)
    }
    const answer = await client.chat.completions.create({ model: MODEL, messages: MESSAGES })
    expect(answer).toMatchObject({ object: 'chat.completion', usage: { total_tokens: 3 } })
    expect(answer.choices).toMatchObject([{ message: { content: 'Hello' }, finish_reason: 'stop' }])
  })

  it('that takes long is kept alive with white space and is JSON all the same', async () => {
    const go = Promise.withResolvers<void>()
    agent.handler = async ({ accept, response }) => {
      accept()
      response.write(delta('Hel'))
      await go.promise
      response.end(`${delta('lo', 'stop')}${DONE}`)
    }
    const response = await post(false)
    expect(response.headers.get('content-type')).toBe('application/json')
    let text = ''
    for await (const piece of textOf(response)) {
      text += piece
      if (text.length >= 2) go.resolve()
    }
    expect(text).toMatch(/^ {2,}\{/)
    expect(JSON.parse(text)).toMatchObject({ choices: [{ message: { content: 'Hello' } }] })
  })

  it('that fails after it has begun breaks: the client sees no answer', async () => {
    const go = Promise.withResolvers<void>()
    agent.handler = async ({ accept, response }) => {
      accept()
      response.write(delta('Hel'))
      await go.promise
      response.socket?.resetAndDestroy()
    }
    const response = await post(false, { program: 'breaks-whole' })
    expect(response.status).toBe(200)
    go.resolve()
    expect(await thrownBy(response.text())).toBeInstanceOf(Error)
    expect(await ended('breaks-whole')).toMatchObject({ outcome: 'failed', error_code: 'engine_failed' })
  })

  it('that fails before it has begun has a status', async () => {
    agent.handler = async ({ accept, response }) => {
      accept()
      response.write(delta('Hel'))
      await sleep(50)
      response.socket?.resetAndDestroy()
    }
    const response = await post(false, { headers: UNRESUMED })
    expect(response.status).toBe(502)
    expect(await response.json()).toMatchObject({ error: { code: 'engine_failed' } })
  })
})
