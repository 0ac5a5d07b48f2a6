/** Calls of Messages and Responses at engines whose servers speak those themselves: what goes, and what comes back. */
import { describe, expect, it } from 'vitest'
import { WARNINGS_HEADER } from '../core/call/field-warnings.ts'
import { runCall } from './run-call.ts'
import {
  delta,
  type Engine,
  failing,
  leaseOf,
  MODEL,
  PROGRAM,
  Script,
  UNRESTRICTED,
  type World,
  world,
} from './testing/world.ts'

type Json = Record<string, unknown>
type Api = 'messages' | 'responses'

const EVENTS: Record<Api, readonly string[]> = {
  messages: [
    '{"type":"message_start", "message":{"id":"msg_9","type":"message","role":"assistant","model":"own","content":[],"usage":{"input_tokens":3,"output_tokens":1}}}',
    '{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}',
    '{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}',
    '{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"sig"}}',
    '{"type":"content_block_stop","index":0}',
    '{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_1","name":"look","input":{}}}',
    '{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\\"at\\":1}"}}',
    '{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":6}}',
    '{"type":"message_stop"}',
  ],
  responses: [
    '{"type":"response.created","sequence_number":0,"response":{"id":"resp_9","status":"in_progress","usage":null}}',
    '{"type":"response.output_text.delta","sequence_number":1,"output_index":0,"delta":"Hi"}',
    '{"type":"response.completed","sequence_number":2,"response":{"id":"resp_9","object":"response","status":"completed","usage":{"input_tokens":3,"output_tokens":1}}}',
  ],
}

const BODIES: Record<Api, Json> = {
  messages: {
    max_tokens: 9,
    system: [{ type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral' } }],
    messages: [{ role: 'user', content: 'hi' }],
    thinking: { type: 'enabled', budget_tokens: 1024 },
    service_tier: 'priority',
  },
  responses: { input: 'hi', store: false, include: ['reasoning.encrypted_content'], prompt_cache_key: 'k' },
}

function ask(api: Api, body: Json = {}): Request {
  const init = { method: 'POST', body: JSON.stringify({ model: MODEL, ...BODIES[api], ...body }), headers: PROGRAM }
  return new Request(`http://switchyard.test/v1/${api}`, init)
}

interface Sent {
  path: string
  body: Json
}

/** One engine, whose server speaks `apis` itself. `slow`: it answers after its client was told that it waits. */
function serving(api: Api, apis: readonly Api[], events = EVENTS[api]): { it: World; sent: Sent[] } {
  const sent: Sent[] = []
  const engine: Engine = async (request) => {
    const { pathname: path } = new URL(request.url)
    sent.push({ path, body: (await request.json()) as Json })
    const script = new Script().write(': accepted\n\n')
    if (path === '/v1/chat/completions') script.chunk(delta('Hi'))
    else for (const data of events) script.write(`data: ${data}\n\n`)
    return script.write('data: [DONE]\n\n').end().response
  }
  const pool = { lease: async () => ({ ...leaseOf('e0'), native_apis: [...apis] }) as ReturnType<typeof leaseOf> }
  return { it: world({ engines: { e0: engine }, pool }), sent }
}

const named = (events: readonly string[]): string =>
  events.map((data) => `event: ${(JSON.parse(data) as Json).type}\ndata: ${data}\n\n`).join('')

describe.each(['messages', 'responses'] as const)('a call of %s', (api) => {
  it('goes as its client wrote it, and the events come back as the server wrote them', async () => {
    const { it, sent } = serving(api, [api])
    const response = await runCall(ask(api, { stream: true }), api, it.deps)
    expect(await response.text()).toBe(named(EVENTS[api]))
    expect(sent[0]?.path).toBe(`/v1/${api}`)
    const { service_tier: _, ...kept } = BODIES[api]
    expect(sent[0]?.body).toEqual({ model: MODEL, ...kept, stream: true })
  })

  it('has one object for a client that did not ask for a stream', async () => {
    const { it } = serving(api, [api])
    const json = (await (await runCall(ask(api), api, it.deps)).json()) as Json
    if (api === 'responses') expect(json).toEqual((JSON.parse(EVENTS[api][2] as string) as Json).response)
    else
      expect(json).toMatchObject({
        ...{ id: 'msg_9', model: 'own', stop_reason: 'tool_use', usage: { input_tokens: 3, output_tokens: 6 } },
        content: [
          { type: 'thinking', thinking: 'hm', signature: 'sig' },
          { type: 'tool_use', id: 'toolu_1', name: 'look', input: { at: 1 } },
        ],
      })
  })

  it('is translated for an engine that speaks chat alone', async () => {
    const { it, sent } = serving(api, [api === 'messages' ? 'responses' : 'messages'])
    const text = await (await runCall(ask(api, { stream: true }), api, it.deps)).text()
    expect(sent[0]?.path).toBe('/v1/chat/completions')
    expect(text).toContain('Hi')
    expect(text).not.toContain('chat.completion.chunk')
  })

  it('tells of the fields that had no effect there', async () => {
    const headerOf = async (apis: readonly Api[]): Promise<string | null> => {
      const { it } = serving(api, apis)
      const response = await runCall(ask(api, { service_tier: 'priority' }), api, it.deps)
      await response.text()
      return response.headers.get(WARNINGS_HEADER)
    }
    expect(await headerOf([api])).toBe('ignored=service_tier')
    expect(await headerOf([])).toContain('service_tier')
  })

  it('that is broken off has an error of its API behind the events', async () => {
    const { it } = serving(api, [api], EVENTS[api].slice(0, 2))
    const cut = { ...it.deps, fetch: breaking(it.deps.fetch) }
    const text = await (await runCall(ask(api, { stream: true }), api, cut)).text()
    expect(text.startsWith(named(EVENTS[api].slice(0, 2)))).toBe(true)
    expect(text).toMatch(/\nevent: error\n/)
  })

  it('has no usage that cannot be', async () => {
    const wild = EVENTS[api].map((data) =>
      data
        .replace('"output_tokens":6', '"output_tokens":600000')
        .replace('"output_tokens":1}}}', '"output_tokens":900000}}}'),
    )
    const { it } = serving(api, [api], wild)
    const text = await (await runCall(ask(api, { stream: true }), api, it.deps)).text()
    expect(text).not.toMatch(/00000/)
    expect(it.reports).toContain('usage_nonsense')
  })

  it('is followed for its conversation', async () => {
    const { it } = serving(api, [api])
    const deps = {
      ...it.deps,
      authenticate: async () => ({ status: 'tenant' as const, identity: { ...UNRESTRICTED, inference: true } }),
    }
    const request = ask(api, { stream: true })
    request.headers.delete('x-program-id')
    await (await runCall(request, api, deps)).text()
    await it.settled()
    expect(it.saidTo('answered')).toHaveLength(1)
  })
})

it('an engine that fails is replaced by one that speaks chat alone', async () => {
  const { it: one, sent } = serving('messages', [])
  let leases = 0
  const pool = {
    lease: async () => {
      leases += 1
      const native = { ...leaseOf('e1'), native_apis: ['messages'] }
      return (leases === 1 ? native : leaseOf('e0')) as ReturnType<typeof leaseOf>
    },
  }
  const engines = {
    e0: (request: Request) => one.deps.fetch(request.url, request),
    e1: failing({ code: 'engine_down' }),
  }
  const { deps } = world({ engines, pool })
  const text = await (await runCall(ask('messages', { stream: true }), 'messages', deps)).text()
  expect(sent[0]?.path).toBe('/v1/chat/completions')
  expect(text).toContain('event: message_stop')
})

it.each([
  ['is stored', { store: true }],
  ['continues another', { previous_response_id: 'resp_x' }],
  ['has tools that a provider would run', { tools: [{ type: 'web_search' }] }],
])('a response that %s is translated', async (_, body) => {
  const { it, sent } = serving('responses', ['responses'])
  await (await runCall(ask('responses', { stream: true, ...body }), 'responses', it.deps)).text()
  for (const { path } of sent) expect(path).toBe('/v1/chat/completions')
})

/** The connection breaks before the end mark. */
function breaking(fetch: World['deps']['fetch']): World['deps']['fetch'] {
  return async (...given) => {
    const response = await fetch(...given)
    const text = (await response.text()).replace('data: [DONE]\n\n', '')
    return new Script().write(text).end().response
  }
}
