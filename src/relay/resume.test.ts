/** Answers that break after their client has a part: which go on elsewhere, and what client, engines and program see of it. */
import { decodeJwt } from 'jose'
import { describe, expect, it } from 'vitest'
import type { LeaseReply, LeaseRequest } from '../actors/contracts.ts'
import { LEASES_PER_CALL_MAX } from '../core/program/program-state.ts'
import type { DialectName } from './dialects/index.ts'
import { runCall } from './run-call.ts'
import { chat, cutWithSignal, type Engine, leaseOf, MODEL, PROGRAM, Script, world } from './testing/world.ts'

type Json = Record<string, unknown>

const FRAME = { id: 'chatcmpl-x', object: 'chat.completion.chunk', created: 17, model: MODEL, system_fingerprint: 'f' }
const USAGE = { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 }

const event = (delta: Json, tokens = '', finish_reason: string | null = null) => {
  const data = JSON.stringify({ ...FRAME, choices: [{ index: 0, delta, finish_reason }] })
  return `${tokens === '' ? '' : `id: ${tokens}\n`}data: ${data}\n\n`
}
const ROLE = event({ role: 'assistant', content: '' })
const FINISH = event({}, '', 'stop')
const USED = `data: ${JSON.stringify({ ...FRAME, choices: [], usage: USAGE })}\n\n`
const DONE = 'data: [DONE]\n\n'
const stated = (code: string, retryable: boolean) => {
  const error = { message: code, type: 'server_error', param: null, code }
  return `event: error\ndata: ${JSON.stringify({ error, status: 503, retryable })}\n\n`
}

/** What comes after the half of "Hello", and how the connection ends. */
interface Break {
  frames?: string[]
  end: 'broken' | 'closed' | 'silent'
}

/** Ends when all that it has said was read, since what a broken stream has not handed out is lost. */
function half({ frames = [], end }: Break): Engine {
  return (request) => {
    const left = [': accepted\n\n', ROLE, event({ content: 'He' }, '5,6'), ...frames]
    const pull = async (controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> => {
      const frame = left.shift()
      if (frame !== undefined) controller.enqueue(new TextEncoder().encode(frame))
      else if (end === 'broken') controller.error(new Error('Network connection lost.'))
      else if (end === 'closed') controller.close()
      else await new Promise(() => undefined)
    }
    const headers = { 'content-type': 'text/event-stream' }
    const body = new ReadableStream({ pull }, { highWaterMark: 0 })
    return cutWithSignal(new Response(body, { headers }), request.signal)
  }
}

const NOTHING = { ticket_kid: null, snapshot: null, charges: [] }
const BROKEN: Break = { end: 'broken' }

interface Asked {
  body: Json
  claims: Json
}

/** Goes on where the other one broke. */
function goingOn(
  asked: Asked[],
  rest: (body: Json) => string[] = () => [event({ content: 'llo' }, '7'), FINISH, USED, DONE],
): Engine {
  return async (request) => {
    const body = (await request.json()) as Json
    asked.push({ body, claims: decodeJwt((request.headers.get('authorization') ?? '').slice('Bearer '.length)) })
    const script = new Script().write(': accepted\n\n')
    for (const frame of rest(body)) script.write(frame)
    return script.end().response
  }
}

/** All of the answer that its client has when the first engine breaks. */
async function brokenBy(
  breaks: Break,
  {
    headers = {},
    body = {},
    dialect = 'chat',
    others = 1,
    rest,
  }: {
    headers?: Record<string, string>
    body?: Json
    dialect?: DialectName
    others?: number
    rest?: (body: Json) => string[]
  } = {},
) {
  const asked: Asked[] = []
  const engines: Record<string, Engine> = { e0: half(breaks) }
  for (let at = 1; at <= others; at++) engines[`e${at}`] = goingOn(asked, rest)
  const times = { stream_silence_ms_max: 40, waiting_interval_ms: 5 }
  const it = world({ engines, times })
  const request = chat({ stream: true, ...body }, { ...PROGRAM, ...headers })
  const response = await runCall(request, dialect, it.deps)
  const text = await response.text()
  await it.settled()
  return { it, response, text, asked }
}

/** The client's data events. */
function dataOf(text: string): string[] {
  return text.split('\n\n').flatMap((frame) => (frame.startsWith('data: ') ? [frame.slice('data: '.length)] : []))
}

const contentOf = (text: string): string =>
  dataOf(text)
    .filter((data) => data !== '[DONE]')
    .flatMap((data) => (JSON.parse(data) as { choices?: { delta: { content?: string } }[] }).choices ?? [])
    .map(({ delta }) => delta.content ?? '')
    .join('')

const BREAKS: [string, Break][] = [
  ['its connection breaks', BROKEN],
  ['it ends without its end', { end: 'closed' }],
  ['it says nothing more', { end: 'silent' }],
  ['it reports a failure of its own', { frames: [stated('engine_failed', true)], end: 'closed' }],
  ['it ends in the middle of an event', { frames: ['data: {"id":"x","cho'], end: 'closed' }],
  ['it breaks before the end of a whole answer', { frames: [event({ content: 'l' }, '8'), FINISH], end: 'broken' }],
]

describe.each(BREAKS)('an engine of which %s', (name, breaks) => {
  const content = name.includes('whole') ? 'l' : ''

  it('is replaced, and its client has one answer with one end', async () => {
    const { it, text, asked } = await brokenBy(breaks)
    expect(contentOf(text)).toBe(`He${content}llo`)
    const data = dataOf(text)
    expect(data.filter((one) => one.includes('"role"'))).toHaveLength(1)
    expect(data.filter((one) => one.includes('"finish_reason":"stop"'))).toHaveLength(1)
    expect(data.filter((one) => one.includes('"prompt_tokens"'))).toHaveLength(1)
    expect(data.at(-1)).toBe('[DONE]')
    expect(text).not.toContain('id: ')
    expect(asked).toHaveLength(1)
    expect(it.saidTo('leaseOpened')).toHaveLength(2)
    expect(it.saidTo('leaseLost')).toHaveLength(1)
    expect(it.endings()).toMatchObject([{ outcome: 'completed', error_code: null }])
  })
})

describe('the engine that goes on', () => {
  it('has the same body, what the client has, and a ticket that says so', async () => {
    const { asked } = await brokenBy(BROKEN, { body: { temperature: 0.5 } })
    const [{ body, claims } = expect.fail()] = asked
    const { switchyard_resume, ...own } = body
    expect(own).toMatchObject({ model: MODEL, temperature: 0.5, stream: true })
    expect(switchyard_resume).toEqual({
      ...{ tokens: [5, 6], output_tokens: 2, content: 'He', reasoning: '', tool_calls: [] },
      ...{ created_s: 17, system_fingerprint: 'f' },
    })
    expect(claims.resumes).toBe(true)
  })

  it('is told so by nobody but us', async () => {
    const asked: Asked[] = []
    const it = world({ engines: { e0: goingOn(asked) } })
    await (await runCall(chat({ stream: true, switchyard_resume: { tokens: [1] } }, PROGRAM), 'chat', it.deps)).text()
    expect(asked).toHaveLength(1)
    expect(asked[0]?.body).not.toHaveProperty('switchyard_resume')
    expect(asked[0]?.claims).not.toHaveProperty('resumes')
  })

  it('may break too, until the call has had as many leases as it may', async () => {
    const { it, text, asked } = await brokenBy(BROKEN, {
      others: LEASES_PER_CALL_MAX + 1,
      rest: () => [event({ content: '.' }, '9'), stated('engine_failed', true)],
    })
    expect(contentOf(text)).toBe(`He${'.'.repeat(LEASES_PER_CALL_MAX - 1)}`)
    expect(asked.map(({ body }) => (body.switchyard_resume as { tokens: number[] }).tokens.length)).toEqual(
      Array.from({ length: LEASES_PER_CALL_MAX - 1 }, (_, at) => 2 + at),
    )
    expect(text).toContain('"code":"engine_failed"')
    expect(text).not.toContain('[DONE]')
    expect(it.saidTo('leaseOpened')).toHaveLength(LEASES_PER_CALL_MAX)
    expect(it.saidTo('callEnded')).toMatchObject([{ outcome: 'failed', error_code: 'engine_failed' }])
  })

  it('may fail before it has said anything, and another is waited for', async () => {
    const asked: Asked[] = []
    let questions = 0
    const pool = {
      lease: async ({ excluded_engines }: LeaseRequest): Promise<LeaseReply> => {
        questions += 1
        const engine = questions > 6 ? 'e2' : questions === 1 ? 'e0' : 'e1'
        if (excluded_engines.includes(engine)) return { status: 'none', retry_after_s: 1, ...NOTHING }
        return leaseOf(engine)
      },
    }
    const times = { resume_wait_ms_max: 10_000, resume_retry_ms: 1, waiting_interval_ms: 5 }
    const dead: Engine = () => Promise.reject(new Error('Network connection lost.'))
    const it = world({ engines: { e0: half(BROKEN), e1: dead, e2: goingOn(asked) }, pool, times })
    const response = await runCall(chat({ stream: true }, PROGRAM), 'chat', it.deps)
    expect(contentOf(await response.text())).toBe('Hello')
    expect(asked).toHaveLength(1)
  })

  it('may be the same one, once it has restarted', async () => {
    const asked: Asked[] = []
    let epoch = 1
    const engine: Engine = (request) => (epoch === 1 ? half(BROKEN)(request) : goingOn(asked)(request))
    let questions = 0
    const pool = {
      lease: async ({ excluded_engines }: LeaseRequest): Promise<LeaseReply> => {
        questions += 1
        if (questions > 4) epoch = 2
        if (excluded_engines.length > 0) return { status: 'none', retry_after_s: 1, ...NOTHING }
        return { ...leaseOf('e0'), epoch: `epoch-${epoch}` } as LeaseReply
      },
    }
    const times = { resume_wait_ms_max: 10_000, resume_retry_ms: 1, waiting_interval_ms: 5 }
    const it = world({ engines: { e0: engine }, pool, times })
    const response = await runCall(chat({ stream: true }, PROGRAM), 'chat', it.deps)
    expect(contentOf(await response.text())).toBe('Hello')
    expect(asked).toHaveLength(1)
  })
})

it('an engine that cannot go on with this answer is asked once', async () => {
  const asked: Asked[] = []
  const pool = {
    lease: async ({ excluded_engines }: LeaseRequest): Promise<LeaseReply> => {
      const engine = asked.length > 0 ? 'e1' : ['e0', 'e1'].find((one) => !excluded_engines.includes(one))
      if (engine === undefined || excluded_engines.includes(engine))
        return { status: 'none', retry_after_s: 1, ...NOTHING }
      return leaseOf(engine)
    },
  }
  const times = { resume_wait_ms_max: 3_000, resume_retry_ms: 50, waiting_interval_ms: 5 }
  const unable = goingOn(asked, () => [stated('cannot_resume', true)])
  const it = world({ engines: { e0: half(BROKEN), e1: unable }, pool, times })
  const response = await runCall(chat({ stream: true }, PROGRAM), 'chat', it.deps)
  const text = await response.text()
  expect(contentOf(text)).toBe('He')
  expect(text).toContain('"code":"engine_failed"')
  expect(asked).toHaveLength(1)
})

it('engines that say no more than was said share the time that is waited', async () => {
  const leg_ms = 600
  const wait_ms = 600
  let legs = 0
  const pool = {
    // Each time as if it had restarted, so that it is asked again at once.
    lease: async ({ excluded_engines }: LeaseRequest): Promise<LeaseReply> => {
      if (legs === 0) return leaseOf('e0')
      if (excluded_engines.includes('e1')) return { status: 'none', retry_after_s: 1, ...NOTHING }
      return { ...leaseOf('e1'), epoch: `epoch-${legs}` } as LeaseReply
    },
  }
  const breaks: Engine = async (request) => {
    legs += 1
    await new Promise((resolve) => setTimeout(resolve, leg_ms))
    return half(BROKEN)(request)
  }
  const again: Engine = async () => {
    legs += 1
    await new Promise((resolve) => setTimeout(resolve, leg_ms))
    return new Script().write(': accepted\n\n').end().response
  }
  const times = { resume_wait_ms_max: wait_ms, resume_retry_ms: 50, waiting_interval_ms: 5 }
  const it = world({ engines: { e0: breaks, e1: again }, pool, times })
  const response = await runCall(chat({ stream: true }, PROGRAM), 'chat', it.deps)
  expect(await response.text()).toContain('"code":"engine_failed"')
  expect(legs).toBeGreaterThan(1)
  // The first, those of three waits, and one that has begun.
  expect(legs).toBeLessThanOrEqual(2 + (3 * wait_ms) / leg_ms)
  expect(legs).toBeLessThan(LEASES_PER_CALL_MAX)
})

it('an engine that cannot go on with answers is passed over', async () => {
  const asked: Asked[] = []
  const released: string[] = []
  const pool = {
    lease: async ({ excluded_engines }: LeaseRequest): Promise<LeaseReply> => {
      const engine = ['e0', 'e1', 'e2'].find((one) => !excluded_engines.includes(one)) ?? 'e2'
      const { resumes: _, ...older } = leaseOf(engine) as LeaseReply & { status: 'leased' }
      return (engine === 'e1' ? older : { ...older, resumes: true }) as LeaseReply
    },
    release: async (lease: string) => void released.push(lease),
  }
  const never: Engine = () => expect.fail('it is not asked')
  const it = world({ engines: { e0: half(BROKEN), e1: never, e2: goingOn(asked) }, pool })
  const response = await runCall(chat({ stream: true }, PROGRAM), 'chat', it.deps)
  expect(contentOf(await response.text())).toBe('Hello')
  await it.settled()
  expect(asked).toHaveLength(1)
  expect(released).toHaveLength(2)
})

describe('an answer ends with an error', () => {
  it.each<[string, Break, Parameters<typeof brokenBy>[1], string]>([
    ['where no other engine is', BROKEN, { others: 0 }, 'engine_failed'],
    ['where its client wants that', BROKEN, { headers: { 'X-Resume': 'off' } }, 'engine_failed'],
    ['where it has several choices', BROKEN, { body: { n: 2 } }, 'engine_failed'],
    ["where it was the client's mistake", { frames: [stated('too_long', false)], end: 'closed' }, {}, 'too_long'],
    ['where its text cannot be read', { frames: ['data: {"half\n\n'], end: 'broken' }, {}, 'engine_failed'],
  ])('%s', async (_, breaks, options, code) => {
    const { it, text, asked } = await brokenBy(breaks, options)
    expect(contentOf(text.replaceAll('data: {"half\n\n', ''))).toBe('He')
    expect(text).toContain(`"code":"${code}"`)
    expect(text).not.toContain('[DONE]')
    expect(asked).toEqual([])
    expect(it.saidTo('callEnded')).toMatchObject([{ outcome: 'failed', error_code: code }])
  })
})

describe('an answer in one piece that no engine can go on with', () => {
  const WHOLE = () => [ROLE, event({ content: 'Hello' }, '5,6,7'), FINISH, USED, DONE]
  const HALF_AGAIN = () => [ROLE, event({ content: 'He' }, '5,6'), stated('engine_failed', true)]
  const body = { stream: false, n: 2 }

  it('is computed again elsewhere, and has nothing of the first', async () => {
    const { it, response, text, asked } = await brokenBy(BROKEN, { body, rest: WHOLE })
    expect(response.status).toBe(200)
    expect(JSON.parse(text)).toMatchObject({ choices: [{ message: { content: 'Hello' } }], usage: USAGE })
    expect(asked).toHaveLength(1)
    expect(asked[0]?.body).not.toHaveProperty('switchyard_resume')
    expect(it.saidTo('leaseOpened')).toHaveLength(2)
    expect(it.saidTo('leaseLost')).toMatchObject([{ lease: expect.any(String), error_code: 'engine_failed' }])
    expect(it.saidTo('callEnded')).toEqual([])
  })

  it('is computed again where what has come of it cannot be told another engine', async () => {
    const breaks: Break = {
      frames: ['data: {"choices":[{"index":0,"delta":{"audio":{"data":"x"}}}]}\n\n'],
      end: 'broken',
    }
    const { it, text, asked } = await brokenBy(breaks, { body: { stream: false }, rest: WHOLE })
    expect(JSON.parse(text)).toMatchObject({ choices: [{ message: { content: 'Hello' } }] })
    expect(asked[0]?.body).not.toHaveProperty('switchyard_resume')
    expect(it.saidTo('leaseLost')).toHaveLength(1)
  })

  it('is computed again by the engine that broke, where no other is and it is back', async () => {
    const asked: Asked[] = []
    const first = half(BROKEN)
    let calls = 0
    const e0: Engine = (request) => {
      calls += 1
      return calls === 1 ? first(request) : goingOn(asked, WHOLE)(request)
    }
    let leases = 0
    const pool = {
      lease: async (): Promise<LeaseReply> => {
        leases += 1
        if (leases === 2) return { ...NOTHING, status: 'none', retry_after_s: 5 }
        return { ...leaseOf('e0'), epoch: `epoch-${leases}`, resumes: false } as LeaseReply
      },
      release: async () => {},
    }
    const times = { resume_wait_ms_max: 5_000, resume_retry_ms: 5 }
    const it = world({ engines: { e0 }, pool, times })
    const response = await runCall(chat({}, PROGRAM), 'chat', it.deps)
    expect(await response.json()).toMatchObject({ choices: [{ message: { content: 'Hello' } }] })
    expect(asked).toHaveLength(1)
  })

  it.each<[string, Parameters<typeof brokenBy>[1], number, number]>([
    ['no other engine is', { body, others: 0 }, 1, 502],
    ['its client wants that', { body, headers: { 'X-Resume': 'off' }, rest: WHOLE }, 1, 502],
    ['three engines have broken', { body, others: 5, rest: HALF_AGAIN }, 3, 503],
  ])('fails where %s', async (_, options, leases, status) => {
    const { it, response, text } = await brokenBy(BROKEN, options)
    expect(response.status).toBe(status)
    expect(JSON.parse(text)).toMatchObject({ error: { code: 'engine_failed' } })
    expect(it.saidTo('leaseOpened')).toHaveLength(leases)
    expect(it.saidTo('callEnded')).toMatchObject([{ outcome: 'failed', error_code: 'engine_failed' }])
  })
})

describe('an answer that goes on elsewhere', () => {
  it('is one object for a client that asked for no stream', async () => {
    const { text } = await brokenBy(BROKEN, { body: { stream: false } })
    expect(JSON.parse(text)).toMatchObject({
      choices: [{ message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }],
      usage: USAGE,
    })
  })

  it('is one message of Messages', async () => {
    const body = { max_tokens: 9, messages: [{ role: 'user', content: 'hi' }] }
    const { text } = await brokenBy(BROKEN, { dialect: 'messages', body })
    const events = dataOf(text.replaceAll(/event: .*\n/g, '')).map((data) => JSON.parse(data) as Json)
    const named = (type: string) => events.filter((one) => one.type === type)
    expect(
      named('content_block_delta')
        .map(({ delta }) => (delta as { text: string }).text)
        .join(''),
    ).toBe('Hello')
    expect([named('message_start').length, named('message_stop').length, named('error').length]).toEqual([1, 1, 0])
  })

  it('is one response of Responses', async () => {
    const { text } = await brokenBy(BROKEN, { dialect: 'responses', body: { input: 'hi' } })
    const events = dataOf(text.replaceAll(/event: .*\n/g, '')).map((data) => JSON.parse(data) as Json)
    const done = events.filter(({ type }) => type === 'response.completed')
    expect(done).toHaveLength(1)
    expect(JSON.stringify(done[0])).toContain('"text":"Hello"')
  })

  it('ends quietly when its client leaves while an engine is found', async () => {
    const reached = Promise.withResolvers<void>()
    const never: Engine = (request) => {
      reached.resolve()
      return cutWithSignal(new Script().response, request.signal)
    }
    const engines = { e0: half(BROKEN), e1: never }
    const it = world({ engines, times: { waiting_interval_ms: 5 } })
    const response = await runCall(chat({ stream: true }, PROGRAM), 'chat', it.deps)
    const reader = (response.body as ReadableStream<Uint8Array>).getReader()
    await reader.read()
    void reader.read().catch(() => undefined)
    await reached.promise
    await reader.cancel()
    await it.settled()
    expect(it.saidTo('callEnded')).toMatchObject([{ outcome: 'cancelled', error_code: 'client_left' }])
  })
})
