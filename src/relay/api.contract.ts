/**
 * What a call of every API keeps: whole streams, tools, errors in the API's own form before the answer and
 * inside it, comments of the engine, clients that leave, retries under a key. Engines and actors are scripted here, but for
 * the actor of keys. test/system/api-contract.test.ts repeats it over sockets.
 */
import { env } from 'cloudflare:workers'
import { describe, expect, it } from 'vitest'
import { idempotencyActor } from '../actors/stubs.ts'
import type { Json } from './dialects/dialect.ts'
import { DIALECTS } from './dialects/index.ts'
import { runCall } from './run-call.ts'
import { type ApiCase, ENGINE_TOOL_CALL, engineText, sseEvents } from './testing/api-cases.ts'
import { cutWithSignal, type Engine, MODEL, PROGRAM, Script, type WorldOptions, world } from './testing/world.ts'

const ERROR = { message: 'out of memory', type: 'server_error', param: null, code: 'engine_oom' }
const STATED = `event: error\ndata: ${JSON.stringify({ error: ERROR, status: 503, retryable: true })}\n\n`
const DONE = 'data: [DONE]\n\n'

let keys = 0

export function testApi(api: ApiCase): void {
  const { engine_path } = DIALECTS[api.name]
  const chunks = engineText(engine_path, 'Salt', ' water')
  const request = (stream: boolean, headers: Record<string, string> = {}, signal?: AbortSignal, question = 'sea?') =>
    new Request(`http://switchyard.test${api.path}`, {
      method: 'POST',
      body: JSON.stringify(api.body(MODEL, question, stream)),
      headers,
      ...(signal === undefined ? {} : { signal }),
    })
  const call = (options: WorldOptions, stream: boolean) => {
    const made = world(options)
    return { made, answering: runCall(request(stream, PROGRAM), api.name, made.deps) }
  }
  const play = (frames: readonly (Json | string)[]): Engine => {
    return () => {
      const script = new Script().write(': accepted\n\n')
      for (const frame of frames) typeof frame === 'string' ? script.write(frame) : script.chunk(frame)
      return script.end().response
    }
  }
  const streamOf = async (engine: Engine) => {
    const { made, answering } = call({ engines: { e0: engine } }, true)
    const response = await answering
    const read = api.readStream(sseEvents(await response.text()))
    await made.settled()
    return { response, read, ended: made.endings() }
  }

  describe(`an answer of ${api.name}`, () => {
    it('streams whole, with the engine’s counts', async () => {
      const { response, read, ended } = await streamOf(play([...chunks, DONE]))
      expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8')
      expect(read).toEqual({
        ...{ text: 'Salt water', tools: [], prompt_tokens: 12, output_tokens: 5 },
        ...{ is_whole: true, error: null },
      })
      expect(ended).toMatchObject([{ outcome: 'completed', error_code: null }])
    })

    it('comes in one piece, the same', async () => {
      const { answering } = call({ engines: { e0: play([...chunks, DONE]) } }, false)
      const response = await answering
      expect(response.headers.get('content-type')).toBe('application/json')
      const answer = (await response.json()) as Json
      expect(api.readWhole(answer)).toEqual({ text: 'Salt water', tools: [], prompt_tokens: 12, output_tokens: 5 })
    })

    it('survives comments of the engine between any two chunks', async () => {
      const queued = ': queued\n\n'
      const frames = [queued, ...chunks.flatMap((chunk) => [chunk, queued]), DONE]
      const { read } = await streamOf(play(frames))
      expect(read).toMatchObject({ text: 'Salt water', is_whole: true, error: null })
    })

    it('asks the engine for a stream in its own language', async () => {
      const bodies: Json[] = []
      const urls: string[] = []
      const engine: Engine = async (asked) => {
        urls.push(new URL(asked.url).pathname)
        bodies.push((await asked.json()) as Json)
        return play([...chunks, DONE])(asked)
      }
      await (await call({ engines: { e0: engine } }, true).answering).text()
      expect(urls).toEqual([engine_path])
      expect(bodies[0]).toMatchObject({ model: MODEL, stream: true, stream_options: { include_usage: true } })
    })

    it('keeps its client while the engine is silent, and is whole all the same', async () => {
      const script = new Script().write(': accepted\n\n')
      const times = { headers_hold_ms: 1, waiting_interval_ms: 1 }
      const { answering } = call({ engines: { e0: () => script.response }, times }, true)
      const response = await answering
      const reader = (response.body as ReadableStream<Uint8Array>).getReader()
      const decoder = new TextDecoder()
      let text = ''
      // Two writes of the Worker, so at least one comes after the answer has begun.
      for (let reads = 0; reads < 3; reads += 1) text += decoder.decode((await reader.read()).value, { stream: true })
      for (const chunk of chunks) script.chunk(chunk)
      script.write(DONE).end()
      for (;;) {
        const { done, value } = await reader.read()
        if (done) break
        text += decoder.decode(value, { stream: true })
      }
      expect(api.readStream(sseEvents(text))).toMatchObject({ text: 'Salt water', is_whole: true, error: null })
    })
  })

  if (api.has_tools) {
    describe(`tools of ${api.name}`, () => {
      const finish = {
        id: 'c',
        created: 1,
        model: 'm',
        choices: [{ index: 0, delta: {}, finish_reason: 'tool_calls' }],
      }
      const frames = [...ENGINE_TOOL_CALL, finish, DONE]
      const tools = [{ name: 'search', arguments: { q: 'salt' } }]

      it('are called in a stream', async () => {
        expect((await streamOf(play(frames))).read).toMatchObject({ tools, is_whole: true, error: null })
      })

      it('are called in one piece', async () => {
        const { answering } = call({ engines: { e0: play(frames) } }, false)
        expect(api.readWhole((await (await answering).json()) as Json)).toMatchObject({ tools })
      })
    })
  }

  describe(`a stream of ${api.name} that fails after it has begun`, () => {
    const broken: Engine = () => {
      const script = new Script().chunk(chunks[0] ?? {})
      setTimeout(() => script.break(), 10)
      return script.response
    }
    it.each<[string, Engine, string]>([
      ['the engine’s connection breaks', broken, 'engine_failed'],
      ['the engine ends without an end', play([chunks[0] ?? {}]), 'engine_failed'],
      ['the engine ends inside an event', play([chunks[0] ?? {}, 'data: {"id":"c","cho']), 'engine_failed'],
      ['the engine states an error', play([chunks[0] ?? {}, STATED]), 'engine_oom'],
    ])('%s: one error in its own form, and no mark of a whole answer', async (_, engine, code) => {
      const { made, answering } = call({ engines: { e0: engine } }, true)
      const text = await (await answering).text()
      // Half an event of the engine may precede the error where bytes pass unread.
      const events = sseEvents(text).filter(({ data }) => isJson(data))
      const read = api.readStream(events)
      await made.settled()
      expect(read.error?.code ?? (read.error as unknown as { error?: { code: string } })?.error?.code).toBe(code)
      expect(read.error?.message).toBeTruthy()
      expect(read.is_whole).toBe(false)
      expect(made.saidTo('callEnded')).toMatchObject([{ outcome: 'failed', error_code: code }])
    })

    it('no engine came after its headers: the same', async () => {
      const answered = Promise.withResolvers<void>()
      const failed: Engine = async () => {
        await answered.promise
        return new Script().write(STATED).end().response
      }
      const times = { headers_hold_ms: 1, acceptance_hold_ms: 1, waiting_interval_ms: 5 }
      const { answering } = call({ engines: { e0: failed }, times }, true)
      const response = await answering
      answered.resolve()
      expect(response.status).toBe(200)
      const read = api.readStream(sseEvents(await response.text()))
      expect(read).toMatchObject({ is_whole: false, error: { code: 'engine_oom' } })
    })
  })

  describe(`a call of ${api.name} that fails before its answer`, () => {
    it.each([true, false])('has status, headers and error in its own form (stream: %s)', async (stream) => {
      const { answering } = call({ engines: {} }, stream)
      const response = await answering
      expect(response.status).toBe(503)
      expect(response.headers.get('retry-after')).toBe('5')
      expect(api.readError((await response.json()) as Json)).toMatchObject({ code: 'no_engine' })
    })

    it('because it is not valid, likewise', async () => {
      const { deps } = world()
      const bodies = ['{', JSON.stringify({}), JSON.stringify(api.body('unknown', 'sea?', false))]
      const codes: (string | null)[] = []
      for (const body of bodies) {
        const init = { method: 'POST', body }
        const response = await runCall(new Request(`http://switchyard.test${api.path}`, init), api.name, deps)
        codes.push(api.readError((await response.json()) as Json).code)
      }
      expect(codes).toEqual(['invalid_json', 'invalid_value', 'model_not_found'])
    })
  })

  describe(`a client of ${api.name} that leaves`, () => {
    it.each([true, false])('cancels its call on the engine (stream: %s)', async (stream) => {
      const script = new Script().write(': accepted\n\n').chunk(chunks[0] ?? {})
      const leaving = new AbortController()
      let asked = 0
      const engine: Engine = ({ signal }) => {
        asked += 1
        return cutWithSignal(script.response, signal)
      }
      const made = world({ engines: { e0: engine } })
      const answering = runCall(request(stream, PROGRAM, leaving.signal), api.name, made.deps)
      if (stream) await ((await answering).body as ReadableStream<Uint8Array>).getReader().read()
      else await expect.poll(() => asked).toBe(1)
      leaving.abort()
      await answering
      await made.settled()
      expect(script.cancelled).toBe(true)
      expect(made.saidTo('callEnded')).toMatchObject([{ outcome: 'cancelled' }])
    })
  })

  describe(`a retry of ${api.name}`, () => {
    const keyed = () => {
      keys += 1
      const made = world({
        engines: { e0: play([...chunks, DONE]) },
        deps: { idempotency: (tenant, key) => idempotencyActor(env, tenant, key) },
        // The actor is real, and a machine may be slow.
        times: { key_timeout_ms: 60_000 },
      })
      const headers = { 'Idempotency-Key': `contract-${api.name}-${keys}` }
      return {
        made,
        ask: (stream: boolean, question?: string) =>
          runCall(request(stream, headers, undefined, question), api.name, made.deps),
      }
    }

    it('gets the answer again, byte for byte', async () => {
      const { made, ask } = keyed()
      const first = await ask(false)
      const text = await first.text()
      await made.settled()
      const again = await ask(false)
      expect(again.headers.get('idempotent-replayed')).toBe('true')
      expect(again.headers.get('request-id')).toBe(first.headers.get('request-id'))
      expect(await again.text()).toBe(text)
    })

    it.each<[string, boolean, string | undefined, number, string]>([
      ['another body', false, 'land?', 422, 'idempotency_key_reused'],
      ['a stream', true, undefined, 409, 'idempotency_answer_not_kept'],
    ])('of %s is refused in its own form', async (_, stream, question, status, code) => {
      const { made, ask } = keyed()
      await (await ask(stream)).text()
      await made.settled()
      const again = await ask(stream, question)
      expect(again.status).toBe(status)
      expect(api.readError((await again.json()) as Json).code).toBe(code)
    })
  })
}

function isJson(data: string): boolean {
  if (data === '[DONE]') return true
  try {
    JSON.parse(data)
    return true
  } catch {
    return false
  }
}
