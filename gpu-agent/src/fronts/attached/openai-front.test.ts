/** The front of a server that is not ours, over real HTTP: order, measurement, refusals, and what a server can do wrong. */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { temporaryFolder, until } from '../../testing/harness.ts'
import { SharedServer } from './shared-server.ts'
import { attachFront } from './testing/attached-front.ts'
import { PlainServer, type PlainServerOptions } from './testing/plain-server.ts'

async function plain(options: Partial<PlainServerOptions> = {}): Promise<PlainServer> {
  const server = await new PlainServer(options).listen()
  onTestFinished(() => server.close())
  return server
}

const usage = { stream_options: { include_usage: true } }

describe('a server with two routes', () => {
  it('is used as it is, and what is known and not known of it is told once', async () => {
    const server = await plain()
    const { front, events, serve } = await attachFront(server.url, { context_tokens: undefined })
    const { sink } = serve({ max_tokens: 4, ...usage })
    const end = await sink.over
    expect(end).toMatchObject({ outcome: 'completed', finish_reason: 'length', measurement: { output_tokens: 4 } })
    expect(sink.text).toBe('a a a a ')
    expect(front.describe()).toMatchObject({ kind: 'openai', model: 'm', context_tokens_max: 8192 })
    expect(events).toHaveLength(1)
    expect(events[0]).toMatchObject({
      ...{ event: 'server_attached', kind: 'openai', model: 'plain', models: 1, seats: null, kv_tokens: null },
      unknown: [
        expect.stringMatching(/^seats: learned by its tokens per second/),
        expect.stringMatching(/^KV tokens/),
        expect.stringMatching(/^context: taken to be 8192/),
        expect.stringMatching(/^what it can do/),
      ],
    })
    expect(Object.keys(server.served[0]?.body ?? {}).toSorted(), 'nothing of a ticket goes there').toEqual([
      ...['max_tokens', 'messages', 'model', 'stream', 'stream_options'],
    ])
  })

  it('gets no more than a budget leaves, where the prompt counts by its bytes', async () => {
    const server = await plain()
    const { serve } = await attachFront(server.url)
    const asked = serve({ max_tokens: 50 }, { budget: { tokens: 200 } })
    expect(await asked.sink.over).toMatchObject({ outcome: 'completed', finish_reason: 'length' })
    const { max_tokens } = (server.served[0]?.body ?? {}) as { max_tokens: number }
    expect(max_tokens).toBeLessThanOrEqual(50)
    const tight = serve({ max_tokens: 50 }, { budget: { tokens: 120 } })
    await tight.sink.over
    const { max_tokens: cut } = (server.served[1]?.body ?? {}) as { max_tokens: number }
    expect(cut).toBeLessThan(50)
    const nothing = serve({ max_tokens: 50 }, { budget: { tokens: 20 } })
    expect(await nothing.sink.over).toBeNull()
    expect(nothing.sink.error).toMatchObject({ status: 402, error: { code: 'program_budget_exceeded' } })
    expect(server.served).toHaveLength(2)
  })

  it('says of each call that it was measured outside, and waiting here and there apart', async () => {
    const server = await plain({ seats: 1, step_ms: 5 })
    const { serve } = await attachFront(server.url, { seats: 1 })
    const [first, second] = [serve({ max_tokens: 10, ...usage }), serve({ max_tokens: 2, ...usage })]
    await Promise.all([first.ended, second.ended])
    const chunks = second.sink.end?.last_chunks ?? []
    const { usage: told } = chunks.at(-1) as { usage: { switchyard: Record<string, number> } }
    const { measured, queue_wait_s = 0, server_wait_s = 0, wait_s = 0 } = told.switchyard
    expect(measured).toBe('outside')
    expect(queue_wait_s).toBeGreaterThan(0.03)
    expect(queue_wait_s + server_wait_s).toBeCloseTo(wait_s)
    expect(server.open_max, 'the second never waited there').toBe(1)
  })

  it.each([
    { pieces: ['a ', 'b ', 'c '], output_tokens: 3 },
    { pieces: ['x'.repeat(31), 'y'.repeat(30)], output_tokens: 21 },
    { pieces: ['z'.repeat(600)], output_tokens: 40 },
  ])(
    'estimates tokens where the server tells no usage, and says so ($output_tokens)',
    async ({ pieces, output_tokens }) => {
      const server = await plain({ usage: false })
      const { serve } = await attachFront(server.url)
      server.answer = (_request, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        for (const [at, content] of pieces.entries()) {
          const finish_reason = at === pieces.length - 1 ? 'stop' : null
          response.write(`data: ${JSON.stringify({ choices: [{ index: 0, delta: { content }, finish_reason }] })}\n\n`)
        }
        response.end('data: [DONE]\n\n')
      }
      const end = await serve({ max_tokens: 40, ...usage }).sink.over
      expect(end?.measurement).toMatchObject({ output_tokens, prompt_tokens: expect.any(Number) })
      expect(end?.last_chunks.at(-1)).toMatchObject({
        usage: { completion_tokens: output_tokens, switchyard: { measured: 'outside', tokens: 'estimated' } },
      })
    },
  )

  it('serves programs by what they have received, and not in the order in which they came', async () => {
    const server = await plain({ seats: 1 })
    const { serve } = await attachFront(server.url, { seats: 1 })
    const ended: string[] = []
    const send = (program: string, settled_service_us: number): Promise<unknown> => {
      const of_program = { program, run: program, settled_service_us, critical_path_us: settled_service_us }
      return serve({ max_tokens: 5 }, { ...of_program, sequence: [1, 0] }).sink.over.then(() => ended.push(program))
    }
    const running = send('running', 0)
    await until(() => server.open === 1)
    await Promise.all([running, send('long', 90_000_000), send('middle', 9_000_000), send('short', 1000)])
    expect(ended).toEqual(['running', 'short', 'middle', 'long'])
  })

  it('models of one server wait in one queue', async () => {
    const server = await plain({ models: ['a', 'b'], seats: 1, step_ms: 5 })
    const shared = new SharedServer()
    const [a, b] = [
      await attachFront(server.url, { seats: 1 }, { model: 'a' }, shared),
      await attachFront(server.url, { seats: 1 }, { model: 'b' }, shared),
    ]
    const calls = [a, b, a, b].map(({ serve }) => serve({ max_tokens: 3 }).sink.over)
    expect(await Promise.all(calls)).toMatchObject(Array(4).fill({ outcome: 'completed' }))
    expect(server.open_max).toBe(1)
    expect(new Set(server.served.map(({ body }) => body.model))).toEqual(new Set(['a', 'b']))
  })

  it('cancels a call that waits here before the server has heard of it', async () => {
    const server = await plain({ seats: 1, step_ms: 20 })
    const { front, serve } = await attachFront(server.url, { seats: 1 })
    const running = serve({ max_tokens: 10 })
    const waiting = serve({ max_tokens: 10 })
    expect(front.status()).toMatchObject({ waiting: 2 })
    await until(() => server.open === 1)
    expect(front.status()).toMatchObject({ waiting: 1, running: 1 })
    front.cancel(waiting.lease, null)
    expect(await waiting.sink.over).toMatchObject({ outcome: 'cancelled', measurement: { service_wall_us: 0 } })
    front.cancel(running.lease, null)
    await running.ended
    await until(() => server.open === 0)
    expect(server.served).toHaveLength(1)
  })

  it('takes answers in one piece, and streams without usage or an end mark', async () => {
    const whole = await attachFront((await plain({ whole: true })).url)
    const one = whole.serve({ max_tokens: 3 })
    expect(await one.sink.over).toMatchObject({ outcome: 'completed', measurement: { output_tokens: 3 } })
    expect(one.sink.text).toBe('a a a ')
    const silent = await attachFront((await plain({ usage: false })).url)
    const counted = await silent.serve({ max_tokens: 3 }).sink.over
    expect(counted, 'tokens are its chunks').toMatchObject({ outcome: 'completed', measurement: { output_tokens: 3 } })
    const server = await plain()
    const { serve } = await attachFront(server.url)
    server.answer = answering(200, 'text/event-stream', `data: ${chunk('hello', 'stop')}\n\n`)
    expect(await serve().sink.over).toMatchObject({ outcome: 'completed', finish_reason: 'stop' })
  })

  it('a call that the server has no room for goes back to its place, unseen', async () => {
    const server = await plain()
    const { serve } = await attachFront(server.url)
    let refusals = 0
    server.answer = (request, response) => {
      refusals += 1
      if (refusals === 2) server.answer = null
      answering(429, 'application/json', '{"error":{"message":"busy"}}')(request, response)
    }
    const { sink } = serve({ max_tokens: 2 })
    expect(await sink.over).toMatchObject({ outcome: 'completed' })
    expect(refusals).toBe(2)
  })

  it('refuses by name what the kind of server would ignore', async () => {
    const server = await plain()
    const { serve } = await attachFront(server.url)
    for (const field of ['top_k', 'min_tokens', 'repetition_penalty', 'structured_outputs']) {
      const { sink } = serve({ [field]: 7 })
      await sink.over
      expect(sink.error).toMatchObject({ status: 400, error: { code: 'unsupported_parameter', param: field } })
    }
    const ollama = await attachFront(server.url, {}, { kind: 'ollama' })
    const tools = [{ type: 'function', function: { name: 'f', parameters: {} } }]
    const { sink } = ollama.serve({ tools, tool_choice: 'required' })
    await sink.over
    expect(sink.error).toMatchObject({ error: { param: 'tool_choice' } })
    expect(server.served).toHaveLength(0)
  })
})

describe('a server that does wrong', () => {
  it.each([
    ['a web page', 'text/html', '<html><title>Sign in</title>', /is a web page: is this the address of its API/],
    ['no JSON', 'text/plain', 'hello', /is not JSON/],
    ['another JSON', 'application/json', '{"models":[]}', /is not that of an OpenAI server/],
    ['no model', 'application/json', '{"data":[]}', /serves no model plain \(--model\), but none/],
  ])('in the place of its models: %s', async (_, type, text, message) => {
    const server = await plain()
    server.answer = answering(200, type, text)
    await expect(attachFront(server.url)).rejects.toThrow(message)
  })

  it('redirects to another host: the key is not sent there', async () => {
    const other = await plain()
    const server = await plain()
    const heard: (string | undefined)[] = []
    other.answer = (request, response) => {
      heard.push(request.headers.authorization)
      response.end('{}')
    }
    server.answer = (request, response) => {
      response.writeHead(307, { location: `${other.url}${request.url}` }).end()
    }
    const attached = attachFront(server.url, {}, { api_key: 'sk-secret' })
    await expect(attached).rejects.toThrow(`it redirects to ${other.url}, and its key is sent to no other address`)
    server.answer = null
    const { serve, reports } = await attachFront(server.url, {}, { api_key: 'sk-secret' })
    server.answer = (request, response) => {
      response.writeHead(308, { location: `${other.url}${request.url}` }).end()
    }
    const { sink, ended } = serve()
    await ended
    expect(sink.error).toMatchObject({ retryable: true, error: { code: 'engine_failed' } })
    expect(heard).toEqual([])
    expect(reports.join()).not.toContain('sk-secret')
  })

  it('asks for another key: the variable is named, and the key is not', async () => {
    const server = await plain({ key: 'right' })
    const wrong = attachFront(server.url, {}, { api_key: 'sk-wrong', key_variable: 'SERVER_KEY' })
    await expect(wrong).rejects.toThrow(/another API key: put its key into the variable SERVER_KEY/)
    await expect(wrong).rejects.not.toThrow(/sk-wrong/)
    const { serve } = await attachFront(server.url, {}, { api_key: 'right' })
    expect(await serve({ max_tokens: 1 }).sink.over).toMatchObject({ outcome: 'completed' })
  })

  it('has a certificate that nobody signed: the way out is named', async () => {
    const { key, cert } = selfSigned()
    const server = createHttpsServer({ key, cert }, (_, response) => response.end('{}'))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void server.close())
    const { port } = server.address() as AddressInfo
    await expect(attachFront(`https://127.0.0.1:${port}`)).rejects.toThrow(/not trusted .*NODE_EXTRA_CA_CERTS=FILE/)
  })

  it('serves another model than the one that is named', async () => {
    const server = await plain({ models: ['a', 'b'] })
    await expect(attachFront(server.url, {}, { model: 'c' })).rejects.toThrow('serves no model c (--model), but a, b')
  })

  it('streams without an end: the call fails, and the server is not asked for more', async () => {
    const server = await plain()
    const { serve, reports } = await attachFront(server.url)
    let closed = false
    server.answer = (_, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      const timer = setInterval(() => {
        for (let index = 0; index < 100; index++) response.write(`data: ${chunk('x', null)}\n\n`)
      }, 1)
      response.on('close', () => {
        closed = true
        clearInterval(timer)
      })
    }
    expect(await serve({ max_tokens: 8 }).sink.over).toMatchObject({ outcome: 'failed' })
    expect(reports.join()).toContain('does not end its answers')
    await until(() => closed)
  })

  it.each([
    ['a frame without an end', 'text/event-stream', `data: ${'x'.repeat(3_000_000)}`],
    ['an answer of many megabytes', 'application/json', `{"choices":"${'x'.repeat(17_000_000)}"}`],
    ['a web page', 'text/html', '<html>'],
    ['chunks that are none', 'text/event-stream', 'data: {"choices":7}\n\n'],
    ['no JSON', 'text/event-stream', 'data: hello\n\n'],
  ])('answers a call with %s', async (_, type, text) => {
    const server = await plain()
    const { serve } = await attachFront(server.url)
    server.answer = answering(200, type, text)
    const { sink } = serve()
    await sink.over
    const failed = sink.end ?? { outcome: 'failed', error: sink.error }
    expect(failed).toMatchObject({ outcome: 'failed', error: { status: expect.any(Number) } })
  })

  it('has wrong /metrics: what cannot be is not believed', async () => {
    const server = await plain()
    const lies = 'vllm:num_requests_waiting -3\nvllm:num_requests_running NaN\nvllm:cache_config_info{x="-1"} 1\n'
    const given = server.answer
    server.answer = (request, response) => {
      if (request.url === '/metrics') response.end(lies)
      else response.end(JSON.stringify({ data: [{ id: 'plain', max_model_len: -5 }] }))
    }
    const { events } = await attachFront(server.url, { context_tokens: undefined })
    server.answer = given
    expect(events[0]).toMatchObject({ kind: 'vllm', reports_queue: false, kv_tokens: null, context_tokens: 8192 })
  })
})

/** Made for the one test: no key lies in the repository. */
function selfSigned(): { key: Buffer; cert: Buffer } {
  const folder = temporaryFolder()
  const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')]
  const made = ['-newkey', 'rsa:2048', '-nodes', '-keyout', key, '-out', cert, '-days', '1', '-subj', '/CN=127.0.0.1']
  execFileSync('openssl', ['req', '-x509', ...made], { stdio: 'ignore' })
  return { key: readFileSync(key), cert: readFileSync(cert) }
}

function chunk(content: string, finish_reason: string | null): string {
  return JSON.stringify({ choices: [{ index: 0, delta: { content }, finish_reason }] })
}

function answering(status: number, type: string, text: string) {
  return (_: IncomingMessage, response: ServerResponse): void =>
    void response.writeHead(status, { 'content-type': type }).end(text)
}
