/** One suite for both APIs of a provider, over real HTTP, and what is Anthropic's alone: tools, breakpoints, events. */
import { describe, expect, it, onTestFinished } from 'vitest'
import { ChunkFrame } from '../../../openai/chunk-frame.ts'
import { AnswerStream } from '../../vllm/calls/answer-stream.ts'
import { type AttachedFront, attachFront } from '../testing/attached-front.ts'
import type { Json } from '../testing/json-http.ts'
import { type ProviderOptions, ScriptedProvider } from '../testing/provider/scripted-provider.ts'
import { MessagesAnswer } from './messages-answer.ts'
import { messagesBody } from './messages-request.ts'

const KEY = 'sk-ant-secret'
const usage = { stream_options: { include_usage: true } }

describe.each([
  { api: 'chat', kind: 'openai', path: 'openai', headers: 'openai', counts: 'reserved' },
  { api: 'messages', kind: 'anthropic', path: 'messages', headers: 'anthropic', counts: 'used' },
] as const)('a provider that speaks $api alone', ({ api, kind, path, headers, counts }) => {
  async function served(
    options: Partial<ProviderOptions> = {},
    api_key = KEY,
  ): Promise<{ provider: ScriptedProvider; front: AttachedFront }> {
    const own = { keys: [KEY], apis: [api], headers, counts, ttft_s: 0.01, words_per_s: 5000 }
    const provider = await new ScriptedProvider({ ...own, ...options }).listen()
    onTestFinished(() => provider.close())
    const server = { model: 'hosted', api_key, key_variable: 'KEY', kind, api: path }
    return { provider, front: await attachFront(provider.url, { context_tokens: 32_768 }, server) }
  }

  it('streams, says how it ended, and is counted by its own usage', async () => {
    const { provider, front } = await served()
    const { sink } = front.serve({ max_tokens: 5, ...usage })
    const end = await sink.over
    expect(end).toMatchObject({ outcome: 'completed', finish_reason: 'length', measurement: { output_tokens: 5 } })
    expect(sink.text).toBe('word word word word word ')
    expect(end?.measurement.prompt_tokens).toBe(provider.calls[0]?.prompt_tokens)
    expect(provider.calls[0]?.api).toBe(api)
  })

  it('cached tokens are told as the provider tells them', async () => {
    const { provider, front } = await served({ cache_min_tokens: 128 })
    const body = { messages: [{ role: 'user', content: 'x'.repeat(8000) }], max_tokens: 2 }
    await front.serve(body).ended
    const { sink } = front.serve(body)
    const end = await sink.over
    expect(end?.measurement.cached_tokens).toBeGreaterThan(1000)
    expect(end?.measurement.cached_tokens).toBe(provider.calls[1]?.cached_tokens)
  })

  it('a refusal before the answer is not seen by the client', async () => {
    const { provider, front } = await served({ faults: { refused: 0.5 } })
    const sinks = Array.from({ length: 5 }, () => front.serve({ max_tokens: 2 }).sink)
    await Promise.all(sinks.map((sink) => sink.over))
    expect(sinks.map(({ end }) => end?.outcome)).toEqual(Array.from({ length: 5 }, () => 'completed'))
    expect(provider.calls.filter(({ whole }) => whole)).toHaveLength(5)
    expect(provider.calls.filter(({ status }) => status === 429)).not.toEqual([])
  }, 60_000)

  it('a broken stream is a failed call, and a cancelled one is over at the provider', async () => {
    const { front } = await served({ faults: { breaks: 1 } })
    expect(await front.serve({ max_tokens: 8 }).sink.over).toMatchObject({ outcome: 'failed' })
    const stalled = await served({ faults: { stalls: 1 } })
    const { sink, lease } = stalled.front.serve({ max_tokens: 8 })
    await expect.poll(() => stalled.provider.calls.length).toBe(1)
    stalled.front.front.cancel(lease, null)
    expect(await sink.over).toMatchObject({ outcome: 'cancelled' })
  })

  it('a wrong key is said, and not shown', async () => {
    await expect(served({}, 'sk-ant-wrong')).rejects.toThrow(/another API key: put its key into the variable KEY/)
    await expect(served({}, 'sk-ant-wrong')).rejects.not.toThrow(/sk-ant/)
  })
})

describe("Anthropic's API", () => {
  it('has turns that take sides, tools and their results, and two breakpoints', () => {
    const body = messagesBody({
      ...{ model: 'm', max_tokens: 9, temperature: 1.7, stop: 'END', parallel_tool_calls: false },
      messages: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: 'Weather?' },
        {
          ...{ role: 'assistant', content: null },
          tool_calls: [{ id: 'a', function: { name: 'weather', arguments: '{"city":"Rome"}' } }],
        },
        { role: 'tool', tool_call_id: 'a', content: 'sun' },
        { role: 'user', content: 'And now?' },
      ],
      tools: [{ type: 'function', function: { name: 'weather', parameters: { type: 'object' } } }],
      tool_choice: 'required',
    })
    const cached = { cache_control: { type: 'ephemeral' } }
    expect(body).toEqual({
      ...{ model: 'm', max_tokens: 9, stream: true, temperature: 1, stop_sequences: ['END'] },
      system: [{ type: 'text', text: 'Be brief.', ...cached }],
      messages: [
        { role: 'user', content: [{ type: 'text', text: 'Weather?' }] },
        { role: 'assistant', content: [{ type: 'tool_use', id: 'a', name: 'weather', input: { city: 'Rome' } }] },
        {
          role: 'user',
          content: [
            { type: 'tool_result', tool_use_id: 'a', content: 'sun' },
            { type: 'text', text: 'And now?', ...cached },
          ],
        },
      ],
      tools: [{ name: 'weather', input_schema: { type: 'object' } }],
      tool_choice: { type: 'any', disable_parallel_tool_use: true },
    })
  })

  const answer = () => {
    const made = { created_s: 0, system_fingerprint: 'f', include_usage: true }
    return new MessagesAnswer(new AnswerStream(new ChunkFrame({ dialect: 'chat', call: 'c', model: 'm', ...made }), 1))
  }
  const start = { type: 'message_start', message: { usage: { input_tokens: 3, cache_read_input_tokens: 4 } } }

  it('tool calls, thinking and usage are read from its events', () => {
    const read = answer()
    const events: Json[] = [
      start,
      { type: 'content_block_start', index: 0, content_block: { type: 'thinking' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'thinking_delta', thinking: 'hm' } },
      { type: 'content_block_start', index: 1, content_block: { type: 'tool_use', id: 't', name: 'weather' } },
      { type: 'content_block_delta', index: 1, delta: { type: 'input_json_delta', partial_json: '{"a":1}' } },
      { type: 'content_block_stop', index: 1 },
      { type: 'something_new', index: 1 },
      { type: 'message_delta', delta: { stop_reason: 'tool_use' }, usage: { output_tokens: 6 } },
    ]
    const chunks = events.flatMap((event) => {
      const reading = read.read(event)
      if (!reading.ok) throw new Error(reading.broken)
      return reading.chunks
    })
    expect(JSON.stringify(chunks)).toMatch(/"reasoning":"hm".*"name":"weather".*"arguments":"\{\\"a\\":1\}"/)
    expect(read.whole).toBe(false)
    read.read({ type: 'message_stop' })
    expect(read.whole).toBe(true)
    expect(read.finishes[0]?.reason).toBe('tool_calls')
    expect(read.usage).toEqual({ prompt_tokens: 7, output_tokens: 6, cached_tokens: 4 })
  })

  it('an event that is not what it says is refused', () => {
    expect(answer().read({ type: 'content_block_delta', index: -1 })).toMatchObject({ ok: false })
  })
})
