/** How a started stream ended, as metrics, traces, the program and a retry under its key are told. */
import { env } from 'cloudflare:workers'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { idempotencyActor } from '../actors/stubs.ts'
import { countedCalls } from './call-counters.ts'
import { Tracing } from './call-trace.ts'
import { runCall } from './run-call.ts'
import { answering, chat, delta, type Engine, failing, PROGRAM, Script, world } from './testing/world.ts'

const ERROR = { message: 'out of memory', type: 'server_error', param: null, code: 'engine_oom' }
const STATED = `event: error\ndata: ${JSON.stringify({ error: ERROR, status: 503, retryable: true })}\n\n`

interface SentSpan {
  name: string
  attributes: { key: string; value: { stringValue?: string } }[]
}

let keys = 0
const UNRESUMED = { 'X-Resume': 'off' }
/** Characters. */
const LONG = 100_000

/** The call of a client that streams under a key, from an engine that answers `engine` and later "hi". */
async function ended(engine: Engine) {
  keys += 1
  const spans: SentSpan[] = []
  const post = async (_: unknown, init?: RequestInit): Promise<Response> => {
    spans.push(...JSON.parse(String(init?.body)).resourceSpans[0].scopeSpans[0].spans)
    return new Response()
  }
  let asked = 0
  const it = world({
    engines: {
      e0: (request) => {
        asked += 1
        return asked === 1 ? engine(request) : answering('hi')(request)
      },
    },
    deps: {
      idempotency: (tenant, key) => idempotencyActor(env, tenant, key),
      tracing: new Tracing({ url: 'http://receiver/v1/traces', headers: {}, ratio: 1 }, post as typeof fetch),
    },
    // The actor is real, and a machine may be slow.
    times: { key_timeout_ms: 60_000 },
  })
  const failed = (): number => countedCalls(['chat']).find(({ outcome }) => outcome === 'failed')?.calls ?? 0
  const failed_before = failed()
  const request = () => chat({ stream: true }, { ...PROGRAM, ...UNRESUMED, 'Idempotency-Key': `ending-${keys}` })
  const text = await (await runCall(request(), 'chat', it.deps)).text()
  await it.settled()
  const counted_as_failed = failed() - failed_before === 1
  const call = spans.find(({ name }) => name.startsWith('chat '))
  const traced_error = call?.attributes.find(({ key }) => key === 'error.type')?.value.stringValue ?? null
  const retry = await runCall(request(), 'chat', it.deps)
  return { text, counted_as_failed, traced_error, callEnded: it.endings(), retry }
}

function streaming(...frames: readonly string[]): Engine {
  return () => frames.reduce((script, frame) => script.write(frame), new Script().chunk(delta('half'))).end().response
}

/** Its connection breaks when all of it has been read. */
function breaking(...frames: readonly string[]): Engine {
  return () => {
    const left = [`data: ${JSON.stringify(delta('half'))}\n\n`, ...frames]
    const pull = (controller: ReadableStreamDefaultController<Uint8Array>): void => {
      const frame = left.shift()
      if (frame === undefined) controller.error(new Error('Network connection lost.'))
      else controller.enqueue(new TextEncoder().encode(frame))
    }
    return new Response(new ReadableStream({ pull }), { headers: { 'content-type': 'text/event-stream' } })
  }
}

const FAILED_IN_STREAM: [string, Engine, string][] = [
  ['an error event', streaming(STATED), 'engine_oom'],
  ['an error event after a long event', streaming(`data: ${'x'.repeat(LONG)}\n\n`, STATED), 'engine_oom'],
  ["an error in OpenAI's form", streaming(`data: ${JSON.stringify({ error: ERROR })}\n\n`), 'engine_oom'],
  ['neither [DONE] nor an error', streaming(), 'engine_failed'],
  ['half an event', streaming('data: {"id":"c","cho'), 'engine_failed'],
  ['a broken connection', breaking(': still here\n\n'), 'engine_failed'],
  ['a broken connection behind an error', breaking(STATED), 'engine_oom'],
]

describe.each(FAILED_IN_STREAM)('a stream that ends with %s', (_, engine, code) => {
  it('is a failed call in metrics, traces and the process table', async () => {
    const { counted_as_failed, traced_error, callEnded } = await ended(engine)
    expect(counted_as_failed).toBe(true)
    expect(traced_error).toBe(code)
    expect(callEnded).toMatchObject([{ outcome: 'failed', error_code: code }])
  })

  it('frees its key, so that a retry runs', async () => {
    const { retry } = await ended(engine)
    expect(retry.status).toBe(200)
    expect(await retry.text()).toContain('hi')
  })

  it('tells its client of one error', async () => {
    const { text } = await ended(engine)
    expect(text).not.toContain('[DONE]')
    expect(text.split('"error":{')).toHaveLength(2)
    expect(text).toContain(`"code":"${code}"`)
  })
})

describe('a stream that ends with [DONE]', () => {
  it.each([
    ['at once', streaming('data: [DONE]\n\n')],
    ['before its connection breaks', breaking('data: [DONE]\n\n')],
    ['after text that looks like an error', streaming(`data: ${JSON.stringify(STATED)}\n\n`, 'data: [DONE]\n\n')],
    ['after a long event', streaming(`data: ${'x'.repeat(LONG)}\n\n`, 'data: [DONE]\n\n')],
  ])('is a completed call: %s', async (_, engine) => {
    const { text, counted_as_failed, traced_error, callEnded, retry } = await ended(engine)
    expect(text.endsWith('data: [DONE]\n\n')).toBe(true)
    expect(counted_as_failed).toBe(false)
    expect(traced_error).toBeNull()
    expect(callEnded).toMatchObject([{ outcome: 'completed', error_code: null }])
    expect(retry.status).toBe(409)
  })
})

describe('nothing of a call hangs on a signal once it is over', () => {
  afterEach(() => vi.restoreAllMocks())
  const cases: [string, boolean, Engine[]][] = [
    ['a stream', true, [answering('hi')]],
    ['an answer in one piece', false, [answering('hi')]],
    ['a stream that breaks', true, [streaming(STATED)]],
    ['a call whose first engine fails', true, [failing({ code: 'engine_oom' }), answering('hi')]],
  ]

  it.each(cases)('%s', async (_, stream, engines) => {
    const listeners: unknown[] = []
    const { addEventListener, removeEventListener } = AbortSignal.prototype
    vi.spyOn(AbortSignal.prototype, 'addEventListener').mockImplementation(function (this: AbortSignal, ...added) {
      listeners.push(added[1])
      addEventListener.apply(this, added as never)
    })
    vi.spyOn(AbortSignal.prototype, 'removeEventListener').mockImplementation(function (this: AbortSignal, ...gone) {
      if (listeners.includes(gone[1])) listeners.splice(listeners.indexOf(gone[1]), 1)
      removeEventListener.apply(this, gone as never)
    })
    const left = [...engines]
    const next: Engine = (request) => (left.shift() as Engine)(request)
    const it = world({ engines: { e0: next, e1: next } })
    const asked = chat({ stream }, { ...PROGRAM, ...UNRESUMED })
    expect(await (await runCall(asked, 'chat', it.deps)).text()).not.toBe('')
    await it.settled()
    // The client's, and one for each connection to an agent.
    expect(AbortSignal.prototype.addEventListener).toHaveBeenCalledTimes(1 + engines.length)
    expect(listeners).toEqual([])
  })
})
