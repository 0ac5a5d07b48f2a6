/**
 * The contract of every API over real sockets (src/relay/api.contract.ts has it with scripted actors): workerd between a
 * client and an agent that does what the test says.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { startTestbed, type Testbed } from '../../lab/testbed/testbed.ts'
import type { Json } from '../../src/relay/dialects/dialect.ts'
import { DIALECTS } from '../../src/relay/dialects/index.ts'
import {
  API_CASES,
  type ApiCase,
  ENGINE_TOOL_CALL,
  engineText,
  type ReadStream,
  sseEvents,
} from '../../src/relay/testing/api-cases.ts'
import { ScriptedAgent } from './support/scripted-agent.ts'
import { eventually } from './support/system.ts'

const MODEL = 'scripted'
const AGENT = 'us-east-1'
const DONE = 'data: [DONE]\n\n'
const STATED = { message: 'out of memory', type: 'server_error', param: null, code: 'engine_oom' }

let control: Testbed
let agent: ScriptedAgent

beforeAll(async () => {
  control = await startTestbed({ name: 'api-contract', regions: ['us-east'], model: MODEL })
  const token = control.secrets.agentTokens[AGENT] ?? ''
  agent = new ScriptedAgent({ controlUrl: control.url, id: AGENT, region: 'us-east', model: MODEL, token, engines: 1 })
  await agent.start()
})
afterAll(async () => {
  await agent?.stop()
  await control?.remove()
})
beforeEach(() => {
  agent.calls.length = 0
})

const frame = (chunk: Json): string => `data: ${JSON.stringify(chunk)}\n\n`

function testApi(api: ApiCase): void {
  const chunks = engineText(DIALECTS[api.name].engine_path, 'Salt', ' water')
  const [first = {}] = chunks
  const post = (stream: boolean, init: { signal?: AbortSignal; headers?: Record<string, string> } = {}) =>
    control.fetch(api.path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...init.headers },
      body: JSON.stringify(api.body(MODEL, 'sea?', stream)),
      ...(init.signal === undefined ? {} : { signal: init.signal }),
    })
  const read = async (response: Response): Promise<ReadStream> => api.readStream(sseEvents(await response.text()))
  const ended = (program: string) =>
    eventually(`the call of ${program} ends`, async () => {
      const response = await control.fetch(`/v1/programs/${program}/calls`)
      if (response.status !== 200) return undefined
      const { data } = (await response.json()) as { data: { state: string; outcome: string; error_code: string }[] }
      return data[0]?.state === 'ended' ? data[0] : undefined
    })

  describe(api.name, () => {
    it('a stream is not buffered: chunk 2 is written only when the client has the text of chunk 1', async () => {
      const received = Promise.withResolvers<void>()
      agent.handler = async ({ accept, response }) => {
        accept()
        response.write(frame(first))
        await received.promise
        response.end(chunks.slice(1).map(frame).join('') + DONE)
      }
      const response = await post(true)
      let text = ''
      const decoder = new TextDecoder()
      for await (const bytes of response.body as AsyncIterable<Uint8Array>) {
        text += decoder.decode(bytes, { stream: true })
        if (text.includes('Salt')) received.resolve()
      }
      expect(api.readStream(sseEvents(text))).toMatchObject({ text: 'Salt water', is_whole: true, output_tokens: 5 })
    })

    it('a stream cut anywhere by the network reads the same', async () => {
      const bytes = Buffer.from([': accepted\n\n', ...chunks.map(frame), ': queued\n\n', DONE].join(''))
      agent.handler = async ({ response }) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        for (let at = 0; at < bytes.length; at += 37) {
          response.write(bytes.subarray(at, at + 37))
          await new Promise((resolve) => setTimeout(resolve, 2))
        }
        response.end()
      }
      expect(await read(await post(true))).toMatchObject({ text: 'Salt water', is_whole: true, error: null })
    })

    it('a waiting stream is kept alive in whole events', async () => {
      const go = Promise.withResolvers<void>()
      agent.handler = async ({ accept, response }) => {
        accept()
        await go.promise
        response.end(chunks.map(frame).join('') + DONE)
      }
      const response = await post(true)
      let text = ''
      let reads = 0
      const decoder = new TextDecoder()
      for await (const bytes of response.body as AsyncIterable<Uint8Array>) {
        text += decoder.decode(bytes, { stream: true })
        reads += 1
        if (reads === 3) go.resolve()
      }
      expect(api.readStream(sseEvents(text))).toMatchObject({ text: 'Salt water', is_whole: true, error: null })
    })

    if (api.has_tools) {
      it('tools are called, streamed and in one piece', async () => {
        agent.handler = ({ accept, body, response }) => {
          expect(body).toMatchObject({ tools: [{ type: 'function', function: { name: 'search' } }] })
          accept()
          response.end(ENGINE_TOOL_CALL.map(frame).join('') + DONE)
        }
        const tools = [{ name: 'search', arguments: { q: 'salt' } }]
        expect(await read(await post(true))).toMatchObject({ tools, is_whole: true })
        expect(api.readWhole((await (await post(false)).json()) as Json)).toMatchObject({ tools })
      })
    }

    it.each<[string, string, (call: Parameters<ScriptedAgent['handler']>[0]) => void]>([
      ['breaks', 'engine_failed', ({ response }) => void response.socket?.resetAndDestroy()],
      ['ends', 'engine_failed', ({ response }) => void response.end()],
      [
        'states an error',
        'engine_oom',
        ({ response }) => void response.end(`event: error\n${frame({ error: STATED, status: 503, retryable: true })}`),
      ],
    ])('an engine that %s after its first chunk: one error, no mark of a whole answer', async (what, code, die) => {
      const program = `${api.name}-${what.replaceAll(' ', '-')}`
      agent.handler = async (call) => {
        call.accept()
        call.response.write(frame(first))
        await new Promise((resolve) => setTimeout(resolve, 50))
        die(call)
      }
      const answer = await read(await post(true, { headers: { 'x-program-id': program, 'x-resume': 'off' } }))
      expect(answer.is_whole).toBe(false)
      expect(answer.error).toMatchObject({ code })
      expect(await ended(program)).toMatchObject({ outcome: 'failed', error_code: code })
    })

    it.each(['while it waits', 'while tokens flow'])(
      'a client that leaves %s closes the engine’s connection',
      async (when) => {
        const program = `${api.name}-leaves-${when.replaceAll(' ', '-')}`
        agent.handler = async ({ accept, response }) => {
          accept()
          while (when === 'while tokens flow' && !response.destroyed) {
            response.write(frame(first))
            await new Promise((resolve) => setTimeout(resolve, 20))
          }
        }
        const leaving = new AbortController()
        const asked = post(true, { signal: leaving.signal, headers: { 'x-program-id': program } })
        const call = await eventually('the engine was called', () => agent.calls[0])
        if (when === 'while tokens flow') await ((await asked).body as ReadableStream<Uint8Array>).getReader().read()
        leaving.abort()
        await asked.catch(() => undefined)
        await call.closed
        expect(await ended(program)).toMatchObject({ outcome: 'cancelled' })
      },
    )

    it('a retry under its key gets the same answer, and no second call', async () => {
      agent.handler = ({ accept, response }) => {
        accept()
        response.end(chunks.map(frame).join('') + DONE)
      }
      const headers = { 'idempotency-key': `${api.name}-${Date.now()}` }
      const text = await (await post(false, { headers })).text()
      const again = await eventually('the answer is kept', async () => {
        const response = await post(false, { headers })
        return response.status === 200 ? response : undefined
      })
      expect(again.headers.get('idempotent-replayed')).toBe('true')
      expect(await again.text()).toBe(text)
      expect(agent.calls).toHaveLength(1)
    })

    it('an unknown model is refused in its own form', async () => {
      const body = JSON.stringify(api.body('unknown', 'sea?', true))
      const response = await control.fetch(api.path, { method: 'POST', body })
      expect(response.status).toBe(404)
      expect(api.readError((await response.json()) as Json).code).toBe('model_not_found')
    })
  })
}

for (const api of API_CASES) testApi(api)
