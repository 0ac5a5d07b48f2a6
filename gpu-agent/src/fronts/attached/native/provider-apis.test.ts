/**
 * One suite for every API of a client and of a provider, over real HTTP: calls that are translated, and calls that pass on as they
 * are. And what is Anthropic's alone: tools, breakpoints, events.
 */
import { describe, expect, it, onTestFinished } from 'vitest'
import { readerOf } from '../../../../../src/core/wire/native/reader-of.ts'
import { ChunkFrame } from '../../../openai/chunk-frame.ts'
import { AnswerStream } from '../../vllm/calls/answer-stream.ts'
import { type AttachedFront, attachFront } from '../testing/attached-front.ts'
import type { Json } from '../testing/json-http.ts'
import { type ProviderOptions, ScriptedProvider } from '../testing/provider/scripted-provider.ts'
import { messagesBody } from './messages-request.ts'
import { TranslatedAnswer } from './translated-answer.ts'

const KEY = 'sk-ant-secret'
const usage = { stream_options: { include_usage: true } }

const CHAT = { kind: 'openai', path: 'openai', headers: 'openai', counts: 'reserved' } as const
const MESSAGES = { kind: 'anthropic', path: 'messages', headers: 'anthropic', counts: 'used' } as const

describe.each([
  { dialect: 'chat', api: 'chat', native: [], apis: ['chat'], ...CHAT },
  { dialect: 'chat', api: 'messages', native: [], apis: ['messages'], ...MESSAGES },
  { dialect: 'messages', api: 'messages', native: ['messages'], apis: ['messages'], ...MESSAGES },
  { dialect: 'messages', api: 'messages', native: ['messages'], apis: ['chat', 'messages'], ...CHAT },
  { dialect: 'responses', api: 'responses', native: ['responses'], apis: ['chat', 'responses'], ...CHAT },
] as const)(
  'a client of $dialect at a provider of $apis',
  ({ dialect, api, native, apis, kind, path, headers, counts }) => {
    const isNative = dialect !== 'chat'

    /** The same call in each API. */
    function bodyOf(content: string, tokens: number): Json {
      if (dialect === 'responses') return { model: 'm', input: content, max_output_tokens: tokens, store: false }
      return { model: 'm', messages: [{ role: 'user', content }], max_tokens: tokens }
    }
    async function served(
      options: Partial<ProviderOptions> = {},
      api_key = KEY,
    ): Promise<{ provider: ScriptedProvider; front: AttachedFront }> {
      const own = { keys: [KEY], apis: [...apis], headers, counts, ttft_s: 0.01, words_per_s: 5000 }
      const provider = await new ScriptedProvider({ ...own, ...options }).listen()
      onTestFinished(() => provider.close())
      const server = { model: 'hosted', api_key, key_variable: 'KEY', kind, api: path, native: [...native] }
      return { provider, front: await attachFront(provider.url, { context_tokens: 32_768 }, server) }
    }

    const ask = (front: AttachedFront, content: string, tokens: number) =>
      front.serve({ messages: undefined, ...bodyOf(content, tokens), ...(isNative ? {} : usage) }, { dialect })

    it('streams, says how it ended, and is counted by its own usage', async () => {
      const { provider, front } = await served()
      const { sink } = ask(front, 'Hi', 5)
      const end = await sink.over
      expect(end).toMatchObject({ outcome: 'completed', finish_reason: 'length', measurement: { output_tokens: 5 } })
      expect(sink.text).toBe('word word word word word ')
      expect(end?.measurement.prompt_tokens).toBe(provider.calls[0]?.prompt_tokens)
      expect(provider.calls[0]).toMatchObject({ api, body: { model: 'hosted', stream: true } })
      const sums = front.rows.reduce((sum, { wall_us }) => sum + wall_us, 0)
      expect(sums, 'the ledger is the record').toBe(end?.measurement.service_wall_us)
    })

    it('says what was measured in its last chunks, and nothing of it before', async () => {
      const { front } = await served()
      const { sink } = ask(front, 'Hi', 3)
      const end = await sink.over
      expect(JSON.stringify(end?.last_chunks)).toMatch(/switchyard.*"measured.*outside/)
      expect(JSON.stringify(sink.chunks)).not.toMatch(/"measured/)
    })

    it('cached tokens are told as the provider tells them', async () => {
      const { provider, front } = await served({ cache_min_tokens: 128 })
      await ask(front, 'x'.repeat(8000), 2).ended
      const end = await ask(front, 'x'.repeat(8000), 2).sink.over
      expect(end?.measurement.cached_tokens).toBeGreaterThan(1000)
      expect(end?.measurement.cached_tokens).toBe(provider.calls[1]?.cached_tokens)
    })

    it('a refusal before the answer is not seen by the client', async () => {
      const { provider, front } = await served({ faults: { refused: 0.5 } })
      const sinks = Array.from({ length: 5 }, () => ask(front, 'Hi', 2).sink)
      await Promise.all(sinks.map((sink) => sink.over))
      expect(sinks.map(({ end }) => end?.outcome)).toEqual(Array.from({ length: 5 }, () => 'completed'))
      expect(provider.calls.filter(({ whole }) => whole)).toHaveLength(5)
      expect(provider.calls.filter(({ status }) => status === 429)).not.toEqual([])
    }, 240_000)

    it('a broken stream is a failed call, and a cancelled one is over at the provider', async () => {
      const { front } = await served({ faults: { breaks: 1 } })
      expect(await ask(front, 'Hi', 8).sink.over).toMatchObject({ outcome: 'failed' })
      const stalled = await served({ faults: { stalls: 1 } })
      const { sink, lease } = ask(stalled.front, 'Hi', 8)
      await expect.poll(() => stalled.provider.calls.length).toBe(1)
      stalled.front.front.cancel(lease, null)
      expect(await sink.over).toMatchObject({ outcome: 'cancelled' })
    })

    it("a body that cannot be is the client's error", async () => {
      const { front } = await served()
      const { sink } = ask(front, 'Hi', -1)
      expect(await sink.over).toBeNull()
      expect(sink.error).toMatchObject({ status: 400, retryable: false })
    })

    const limitOf = ({ max_tokens, max_completion_tokens, max_output_tokens }: Json): unknown[] =>
      [max_tokens, max_completion_tokens, max_output_tokens].filter((limit) => limit !== undefined)

    it('what is left of a budget limits the answer upstream, and an answer within it goes as it was asked for', async () => {
      const { provider, front } = await served()
      const budget = { tokens: 300 }
      const serve = (tokens: number) =>
        front.serve({ messages: undefined, ...bodyOf('Hi', tokens), ...(isNative ? {} : usage) }, { dialect, budget })
      const capped = await serve(1000).sink.over
      const [limit, ...others] = limitOf(provider.calls[0]?.body ?? {})
      expect(others, 'no second limit says otherwise').toEqual([])
      expect(limit).toBeGreaterThan(0)
      expect(limit).toBeLessThan(300)
      expect(capped).toMatchObject({ finish_reason: 'length', measurement: { output_tokens: limit } })
      const { prompt_tokens = 0, output_tokens = 0 } = capped?.measurement ?? {}
      expect(prompt_tokens + output_tokens).toBeLessThanOrEqual(budget.tokens)
      await serve(5).ended
      expect(limitOf(provider.calls[1]?.body ?? {})).toEqual([5])
    })

    it('a call that its budget does not cover is refused, and the provider hears nothing of it', async () => {
      const { provider, front } = await served()
      const body = { messages: undefined, ...bodyOf('Hi', 5) }
      const { sink } = front.serve(body, { dialect, budget: { tokens: 20 } })
      expect(await sink.over).toBeNull()
      expect(sink.error).toMatchObject({
        ...{ status: 402, retryable: false, error: { code: 'program_budget_exceeded' } },
      })
      expect(provider.calls).toEqual([])
    })

    it('a wrong key is said, and not shown', async () => {
      await expect(served({}, 'sk-ant-wrong')).rejects.toThrow(/another API key: put its key into the variable KEY/)
      await expect(served({}, 'sk-ant-wrong')).rejects.not.toThrow(/sk-ant/)
    })
  },
)

describe("Anthropic's API", () => {
  it('gets no limit of the answer that thinking alone may use up', async () => {
    const provider = await new ScriptedProvider({ keys: [KEY], apis: ['messages'], words_per_s: 5000 }).listen()
    onTestFinished(() => provider.close())
    const server = { api_key: KEY, key_variable: 'KEY', kind: 'anthropic', api: 'messages' } as const
    const front = await attachFront(
      provider.url,
      { context_tokens: 32_768 },
      { model: 'hosted', ...server, native: ['messages'] },
    )
    const serve = (budget_tokens: number) => {
      const thinking = { type: 'enabled', budget_tokens }
      const body = { model: 'm', messages: [{ role: 'user', content: 'Hi' }], max_tokens: 4000, thinking }
      return front.serve(body, { dialect: 'messages', budget: { tokens: 2000 } }).sink
    }
    const refused = serve(1900)
    expect(await refused.over).toBeNull()
    expect(refused.error).toMatchObject({ status: 402, error: { code: 'program_budget_exceeded' } })
    expect(provider.calls).toEqual([])
    expect(await serve(1024).over).toMatchObject({ outcome: 'completed' })
    expect(provider.calls[0]?.body.max_tokens).toBeGreaterThan(1024)
  })

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
    const chat = new AnswerStream(new ChunkFrame({ dialect: 'chat', call: 'c', model: 'm', ...made }), 1)
    return new TranslatedAnswer(chat, readerOf('messages'))
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
      const reading = read.read(event, '')
      if (!reading.ok) throw new Error(reading.broken)
      return reading.chunks
    })
    expect(JSON.stringify(chunks)).toMatch(/"reasoning":"hm".*"name":"weather".*"arguments":"\{\\"a\\":1\}"/)
    expect(read.whole).toBe(false)
    read.read({ type: 'message_stop' }, '')
    expect(read.whole).toBe(true)
    expect(read.finishes[0]?.reason).toBe('tool_calls')
    expect(read.usage).toEqual({ prompt_tokens: 7, output_tokens: 6, cached_tokens: 4 })
  })

  it('an event that is not what it says is refused', () => {
    expect(answer().read({ type: 'content_block_delta', index: -1 }, '')).toMatchObject({ ok: false })
  })
})
