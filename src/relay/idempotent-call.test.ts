/** Calls under a key through the relay, with the real actor behind it. */
import { env } from 'cloudflare:workers'
import { describe, expect, it } from 'vitest'
import { idempotencyActor } from '../actors/stubs.ts'
import { ANSWER_CHARS_MAX, KEY_CHARS_MAX } from '../core/call/idempotency-table.ts'
import { runCall } from './run-call.ts'
import {
  answering,
  chat,
  cutWithSignal,
  delta,
  failing,
  failureOf,
  PROGRAM,
  Script,
  UNRESTRICTED,
  world,
} from './testing/world.ts'

let keys = 0
/** A key that no other test has. */
function fresh(): Record<string, string> {
  keys += 1
  return { 'Idempotency-Key': `key-${keys}` }
}

function keyed(engine: (request: Request) => Response | Promise<Response>, options: Parameters<typeof world>[0] = {}) {
  const served: Request[] = []
  const it = world({
    engines: {
      e0: (request) => {
        served.push(request)
        return engine(request)
      },
    },
    ...options,
    // Its shard is a real actor, and a slow machine may start it late.
    times: { key_timeout_ms: 60_000, ...options.times },
    deps: { idempotency: (tenant, key) => idempotencyActor(env, tenant, key), ...options.deps },
  })
  return { ...it, served, ask: (request: Request) => runCall(request, 'chat', it.deps) }
}

describe('a retry of an answered call', () => {
  it('gets the same answer, byte for byte, and reaches no engine', async () => {
    const it = keyed(answering('hi'))
    const key = fresh()
    const first = await it.ask(chat({}, { ...PROGRAM, ...key }))
    const text = await first.text()
    await it.settled()
    const again = await it.ask(chat({}, { ...PROGRAM, ...key }))
    expect(await again.text()).toBe(text)
    expect(again.status).toBe(200)
    expect(again.headers.get('idempotent-replayed')).toBe('true')
    expect(again.headers.get('x-call-id')).toBe(first.headers.get('x-call-id'))
    expect(it.served).toHaveLength(1)
    expect(it.saidTo('admit')).toHaveLength(1)
  })

  it('needs no program, and is tenant-scoped', async () => {
    const it = keyed(answering('hi'))
    const other = keyed(answering('other'), {
      deps: { authenticate: async () => ({ status: 'tenant', identity: { ...UNRESTRICTED, tenant: 'u' } }) },
    })
    const key = fresh()
    await (await it.ask(chat({}, key))).text()
    await it.settled()
    expect((await it.ask(chat({}, key))).headers.get('idempotent-replayed')).toBe('true')
    expect(await (await other.ask(chat({}, key))).json()).toMatchObject({
      choices: [{ message: { content: 'other' } }],
    })
  })

  it('that was streamed is told which call it was, and that trying again is of no use', async () => {
    const it = keyed(answering('hi'))
    const key = fresh()
    const first = await it.ask(chat({ stream: true }, key))
    await first.text()
    await it.settled()
    const { status, code, headers } = await failureOf(await it.ask(chat({ stream: true }, key)))
    expect({ status, code }).toEqual({ status: 409, code: 'idempotency_answer_not_kept' })
    expect(headers.get('x-should-retry')).toBe('false')
    expect(headers.get('x-call-id')).toBe(first.headers.get('x-call-id'))
    expect(it.served).toHaveLength(1)
  })

  it('that is too long to be kept is told so', async () => {
    const it = keyed(answering('x'.repeat(ANSWER_CHARS_MAX)))
    const key = fresh()
    await (await it.ask(chat({}, key))).text()
    await it.settled()
    expect(await failureOf(await it.ask(chat({}, key)))).toMatchObject({ code: 'idempotency_answer_not_kept' })
  })
})

describe('a retry of an open call', () => {
  it.each([true, false])('starts nothing and is told to come back (stream: %s)', async (stream) => {
    const script = new Script().write(': accepted\n\n').chunk(delta('hi'))
    const it = keyed(() => script.response)
    const key = fresh()
    const first = it.ask(chat({ stream }, key))
    await expect.poll(() => it.served.length).toBe(1)
    const { status, code, headers } = await failureOf(await it.ask(chat({ stream }, key)))
    expect({ status, code }).toEqual({ status: 409, code: 'idempotency_in_progress' })
    expect(headers.get('retry-after')).toBe('1')
    expect(headers.get('x-should-retry')).toBeNull()
    script.write('data: [DONE]\n\n').end()
    await (await first).text()
    expect(it.served).toHaveLength(1)
  })

  it('finds it open as long as its Worker says so', async () => {
    const script = new Script().write(': accepted\n\n').chunk(delta('hi'))
    const heard: unknown[] = []
    const it = world({
      engines: { e0: () => script.response },
      idempotency: { heard: async (claim) => void heard.push(claim) },
      times: { key_heard_ms: 5 },
    })
    const first = runCall(chat({ stream: true }, fresh()), 'chat', it.deps)
    await expect.poll(() => heard.length).toBeGreaterThan(1)
    script.write('data: [DONE]\n\n').end()
    await (await first).text()
    await it.settled()
    const after = heard.length
    await new Promise((resolve) => setTimeout(resolve, 30))
    expect(heard.length).toBe(after)
  })
})

describe('a retry of a call that came to nothing', () => {
  it('is served, where the engines had failed', async () => {
    let failures = 0
    const it = keyed((request) => {
      failures += 1
      return failures === 1
        ? failing({ code: 'engine_full', status: 429, retryable: false })(request)
        : answering('hi')(request)
    })
    const key = fresh()
    expect((await it.ask(chat({}, key))).status).toBe(429)
    await it.settled()
    expect((await it.ask(chat({}, key))).status).toBe(200)
  })

  it('is served, where its client had left', async () => {
    const script = new Script().write(': accepted\n\n').chunk(delta('hi'))
    let asked = 0
    const it = keyed((request) => {
      asked += 1
      return asked === 1 ? cutWithSignal(script.response, request.signal) : answering('hi')(request)
    })
    const key = fresh()
    const leaving = new AbortController()
    const first = await it.ask(chat({ stream: true }, key, leaving.signal))
    leaving.abort()
    await first.text().catch(() => {})
    await it.settled()
    expect(await (await it.ask(chat({ stream: true }, key))).text()).toContain('hi')
  })

  it('is served, where no engine was there or the program refused', async () => {
    const none = world({ deps: { idempotency: (tenant, key) => idempotencyActor(env, tenant, key) } })
    const key = fresh()
    expect((await runCall(chat({}, key), 'chat', none.deps)).status).toBe(503)
    await none.settled()
    const it = keyed(answering('hi'))
    expect((await it.ask(chat({}, key))).status).toBe(200)
  })
})

describe('a key', () => {
  it('stands for one body', async () => {
    const it = keyed(answering('hi'))
    const key = fresh()
    await (await it.ask(chat({ n: 1 }, key))).text()
    await it.settled()
    for (const body of [{ n: 2 }, { n: 1, stream: true }]) {
      const { status, code } = await failureOf(await it.ask(chat(body, key)))
      expect({ status, code }).toEqual({ status: 422, code: 'idempotency_key_reused' })
    }
    expect(it.served).toHaveLength(1)
  })

  it(`has 1 to ${KEY_CHARS_MAX} printable characters`, async () => {
    const it = keyed(answering('hi'))
    const status = async (key: string) => (await it.ask(chat({}, { 'Idempotency-Key': key }))).status
    expect(await status('k'.repeat(KEY_CHARS_MAX))).toBe(200)
    for (const key of ['k'.repeat(KEY_CHARS_MAX + 1), '', 'é']) expect(await status(key)).toBe(400)
  })

  it('that is not sent asks no actor', async () => {
    const it = world({ engines: { e0: answering('hi') } })
    await (await runCall(chat({}, PROGRAM), 'chat', it.deps)).text()
    await it.settled()
    expect(it.said.filter(({ to }) => to === 'idempotency')).toEqual([])
  })
})

describe('an actor that does not answer', () => {
  it.each([
    ['is slow', () => new Promise<never>(() => {})],
    [
      'fails',
      () => {
        throw new Error('broken')
      },
    ],
  ])('and %s: nothing is started, and the client may try again', async (_, claim) => {
    const broken = world({ engines: { e0: answering('hi') }, idempotency: { claim }, times: { key_timeout_ms: 20 } })
    const { status, code, headers } = await failureOf(await runCall(chat({}, fresh()), 'chat', broken.deps))
    expect({ status, code }).toEqual({ status: 503, code: 'idempotency_unavailable' })
    expect(headers.get('retry-after')).toBe('1')
    expect(broken.saidTo('admit')).toEqual([])
  })

  it('but claims in the end gives the key back', async () => {
    const claim = Promise.withResolvers<{ status: 'claimed' }>()
    const it = world({ idempotency: { claim: () => claim.promise }, times: { key_timeout_ms: 5 } })
    expect((await runCall(chat({}, fresh()), 'chat', it.deps)).status).toBe(503)
    claim.resolve({ status: 'claimed' })
    await it.settled()
    expect(it.saidTo('ended')).toMatchObject([{ end: { status: 'failed' } }])
  })
})
