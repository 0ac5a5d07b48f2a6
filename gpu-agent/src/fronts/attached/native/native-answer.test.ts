/** Calls that go to a server in their client's own API: what reaches the server, and what comes back. */
import { describe, expect, it, onTestFinished } from 'vitest'
import { readerOf } from '../../../../../src/core/wire/native/reader-of.ts'
import { NATIVE_PATHS } from '../../../../../src/protocol/index.ts'
import type { NativeFrame } from '../../../openai/native-frame.ts'
import { attachFront } from '../testing/attached-front.ts'
import { ScriptedProvider } from '../testing/provider/scripted-provider.ts'
import { KEPT_EVENTS_MAX, NativeAnswer } from './native-answer.ts'
import { nativeApis } from './native-apis.ts'
import { nativeRequest } from './native-request.ts'

const USAGE = { prompt_tokens: 3, completion_tokens: 2, cached_tokens: 1, switchyard: { measured: 'outside' } as never }

function fieldsOf(api: 'messages' | 'responses', body: object): Record<string, unknown> {
  const result = nativeRequest(api, body, 'served')
  return result.ok ? result.request.fields : expect.fail(result.error.error.message)
}

describe('an answer that passes on', () => {
  const events = [
    '{"type": "message_start",  "message": {"id": "msg_9", "usage": {"input_tokens": 3, "cache_read_input_tokens": 4}}}',
    '{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}',
    '{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln\\u00fc"}}',
    '{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_1","name":"look"}}',
    '{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{}"}}',
    '{"type":"a_kind_that_nobody_knows","x":1.0}',
  ]
  const last = [
    '{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":6}}',
    '{"type":"message_stop"}',
  ]

  it('has the data of every event as the server wrote it, and is read beside that', () => {
    const answer = new NativeAnswer('messages', readerOf('messages'))
    const frames = events.flatMap((data) => {
      const reading = answer.read(JSON.parse(data), data)
      return reading.ok ? reading.chunks : expect.fail(reading.broken)
    }) as NativeFrame[]
    expect(frames.map(({ data }) => data)).toEqual(events)
    expect(JSON.stringify(frames.map(({ choices }) => choices))).toContain('"name":"look"')
    expect(answer.whole).toBe(false)
    for (const data of last) expect(answer.read(JSON.parse(data), data)).toEqual({ ok: true, chunks: [] })
    expect(answer.whole).toBe(true)
    expect(answer.finishes[0]?.reason).toBe('tool_calls')
    expect(answer.usage).toEqual({ prompt_tokens: 7, output_tokens: 6, cached_tokens: 4 })
    const ended = answer.last([], USAGE) as NativeFrame[]
    expect(JSON.parse(ended[0]?.data ?? '')).toEqual({
      ...{ type: 'message_delta', delta: { stop_reason: 'tool_use' } },
      usage: { output_tokens: 6, switchyard: { measured: 'outside' } },
    })
    expect(ended[1]?.data).toBe(last[1])
  })

  it.each([
    ['response.failed', { response: { error: { code: 'server_error', message: 'x' } } }],
    ['error', { code: 'server_error', message: 'x' }],
    ['response.completed', { response: 'none' }],
    ['response.output_text.delta', { delta: 1 }],
  ])('that says %s in place of an answer is broken', (type, fields) => {
    const answer = new NativeAnswer('responses', readerOf('responses'))
    expect(answer.read({ type, ...fields }, '')).toMatchObject({ ok: false })
  })

  it('that does not end behind its end is broken', () => {
    const answer = new NativeAnswer('messages', readerOf('messages'))
    for (const data of [...events, last[0] as string]) answer.read(JSON.parse(data), data)
    const more = Array.from({ length: KEPT_EVENTS_MAX }, () => answer.read({ type: 'ping' }, '{"type":"ping"}'))
    expect(more.slice(0, -1).every(({ ok }) => ok)).toBe(true)
    expect(more.at(-1)).toMatchObject({ ok: false })
  })

  it('of Responses counts calls of tools, and what was cached', () => {
    const answer = new NativeAnswer('responses', readerOf('responses'))
    const item = { type: 'function_call', call_id: 'call_1', name: 'look' }
    const events = [
      { type: 'response.created', response: { id: 'resp_1', usage: null } },
      { type: 'response.output_item.added', output_index: 1, item },
      { type: 'response.function_call_arguments.delta', output_index: 1, delta: '{"a":' },
      { type: 'response.reasoning_summary_text.delta', output_index: 0, delta: 'hm' },
      {
        type: 'response.completed',
        response: { usage: { input_tokens: 9, output_tokens: 4, input_tokens_details: { cached_tokens: 8 } } },
      },
    ]
    const frames = events.flatMap((event) => {
      const reading = answer.read(event, JSON.stringify(event))
      return reading.ok ? reading.chunks : expect.fail(reading.broken)
    })
    expect(JSON.stringify(frames)).toMatch(/"id":"call_1".*"name":"look"/)
    expect(answer.finishes[0]?.reason).toBe('tool_calls')
    expect(answer.usage).toEqual({ prompt_tokens: 9, output_tokens: 4, cached_tokens: 8 })
    expect(JSON.stringify(answer.last([], USAGE))).toContain('switchyard')
  })
})

describe('a body that passes on', () => {
  const marked = { type: 'text', text: 'Hi', cache_control: { type: 'ephemeral', ttl: '1h' } }

  it('has what the client wrote, its cache breakpoints too, and nothing that is ours', () => {
    const thinking = { type: 'thinking', thinking: 'hm', signature: 'sig' }
    const messages = [
      { role: 'user', content: [marked] },
      { role: 'assistant', content: [thinking] },
      { role: 'user', content: 'On' },
    ]
    const body = { model: 'm', messages, max_tokens: 9, metadata: { user_id: 'u' }, session_id: 's' }
    expect(fieldsOf('messages', body)).toEqual({ model: 'served', messages, max_tokens: 9, stream: true })
  })

  it('gets two breakpoints where the client set none', () => {
    const body = { model: 'm', system: 'Be brief.', messages: [{ role: 'user', content: 'Hi' }], max_tokens: 9 }
    const breakpoint = { cache_control: { type: 'ephemeral' } }
    expect(fieldsOf('messages', body)).toMatchObject({
      system: [{ type: 'text', text: 'Be brief.', ...breakpoint }],
      messages: [{ role: 'user', content: [{ type: 'text', text: 'Hi', ...breakpoint }] }],
    })
  })

  it('of Responses is never stored at the provider, and has a limit', () => {
    const fields = fieldsOf('responses', { model: 'm', input: 'Hi', store: true, prompt_cache_key: 'k', user: 'u' })
    expect(fields).toEqual({ ...{ model: 'served', input: 'Hi', store: false, stream: true }, max_output_tokens: 1024 })
  })

  it.each([
    ['messages', { messages: [], max_tokens: 1 }],
    ['messages', { messages: [{ role: 'user', content: 'x' }], max_tokens: 0 }],
    ['responses', { input: 3 }],
  ] as const)('that is no body of %s is refused by its field', (api, body) => {
    expect(nativeRequest(api, body, 'm')).toMatchObject({ ok: false, error: { status: 400 } })
  })
})

describe('which APIs a server speaks', () => {
  it.each([
    [['chat'], []],
    [['chat', 'messages'], ['messages']],
    [
      ['chat', 'messages', 'responses'],
      ['messages', 'responses'],
    ],
  ] as const)('a server of %j is found to speak %j beside chat', async (apis, found) => {
    const provider = await new ScriptedProvider({ apis: [...apis] }).listen()
    onTestFinished(() => provider.close())
    expect(await nativeApis({ url: provider.url, api_key: null }, 'openai')).toEqual(found)
    expect(provider.calls, 'nothing was generated').toEqual([])
  })

  it('is in what the pool is told, and a call of another API is not taken', async () => {
    const provider = await new ScriptedProvider({ apis: ['chat', 'messages'] }).listen()
    onTestFinished(() => provider.close())
    const { front, events } = await attachFront(provider.url, {}, { model: 'hosted', native: null })
    expect(front.describe().native_apis).toEqual(['messages'])
    expect(events.find(({ event }) => event === 'server_attached')).toMatchObject({ apis: ['chat', 'messages'] })
    expect(Object.keys(NATIVE_PATHS)).toContain('messages')
  })

  it("a client's own key of the cache is told apart by tenant", async () => {
    const provider = await new ScriptedProvider({ apis: ['chat', 'responses'] }).listen()
    onTestFinished(() => provider.close())
    const { serve } = await attachFront(provider.url, {}, { model: 'hosted', native: ['responses'] })
    const body = { input: 'Hi', max_output_tokens: 2, prompt_cache_key: 'mine' }
    for (const cache_salt of ['one', 'two']) {
      await serve({ ...body, messages: undefined }, { dialect: 'responses', cache_salt }).ended
    }
    // Only OpenAI itself is known to take a key: others may refuse it.
    expect(provider.calls.map(({ body: sent }) => sent.prompt_cache_key)).toEqual([undefined, undefined])
  })
})
