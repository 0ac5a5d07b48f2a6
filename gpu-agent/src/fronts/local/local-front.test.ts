/** One call of an engine in the agent’s process: its chunks, its limits, and what its history repeats. */
import { beforeEach, expect, test } from 'vitest'
import { dispatched, user } from '../testing/dispatched.ts'
import { RecordingSink } from '../testing/recording-sink.ts'
import { characters, resetScript, run, script, seen, startFront } from './testing/scripted-front.ts'

beforeEach(resetScript)

test('a call: accepted, role, content, finish, usage', async () => {
  const sink = await run({ messages: user('Hi'), stream_options: { include_usage: true } })
  expect(sink.prompt_tokens).toBe(4)
  expect(sink.chunks[0]?.choices[0]?.delta).toMatchObject({ role: 'assistant', content: '' })
  expect(sink.text).toBe('Hello')
  expect(sink.chunks.every(({ choices }) => choices[0]?.finish_reason === null)).toBe(true)
  expect(sink.end).toMatchObject({ outcome: 'completed', finish_reason: 'stop', error: null })
  const [finish, usage] = sink.end?.last_chunks ?? []
  expect(finish).toMatchObject({ choices: [{ finish_reason: 'stop' }] })
  const service_wall_us = seen.ledger.reduce((sum, row) => sum + row.wall_us, 0)
  expect(sink.end?.measurement.service_wall_us).toBe(service_wall_us)
  expect(usage).toMatchObject({
    choices: [],
    usage: {
      prompt_tokens: 4,
      completion_tokens: 5,
      total_tokens: 9,
      prompt_tokens_details: { cached_tokens: 0 },
      switchyard: { service_s: service_wall_us / 1e6, engine: 'agent-e0', region: 'us-east', emulated: true },
    },
  })
})

test('max_tokens ends a call as length, without usage unless it was asked for', async () => {
  const sink = await run({ messages: user('Hi'), max_tokens: 3 })
  expect(sink.text).toBe('Hel')
  expect(sink.end).toMatchObject({ outcome: 'completed', finish_reason: 'length' })
  expect(sink.end?.last_chunks).toHaveLength(1)
})

test('an answer without a token has its role chunk all the same', async () => {
  script.answer = ''
  const sink = await run({ messages: user('Hi') })
  expect(sink.chunks).toHaveLength(1)
  expect(sink.end).toMatchObject({ finish_reason: 'stop' })
})

test('a stop string ends the call, and nothing of it is seen', async () => {
  script.answer = 'one END two'
  const sink = await run({ messages: user('Hi'), stop: [' END'] })
  expect(sink.text).toBe('one')
  expect(sink.end).toMatchObject({ outcome: 'completed', finish_reason: 'stop' })
  expect(sink.end?.measurement.output_tokens).toBeLessThanOrEqual(8)
})

test('a stop string that the limit cuts off was text', async () => {
  script.answer = 'one END'
  const sink = await run({ messages: user('Hi'), stop: [' END'], max_tokens: 5 })
  expect(sink.text).toBe('one E')
  expect(sink.end).toMatchObject({ finish_reason: 'length' })
})

test('completions have text and a default limit of 16', async () => {
  script.answer = 'x'.repeat(30)
  const sink = await run({ prompt: 'Hi' }, 'completions')
  expect(sink.text).toBe('x'.repeat(16))
  expect(sink.chunks[0]).toMatchObject({ object: 'text_completion' })
})

test('prompt and output fill the context and not one token more', async () => {
  const fits = await run({ messages: user('x'.repeat(30)), max_tokens: 32 })
  expect(fits.end).toMatchObject({ outcome: 'completed' })
  const over = await run({ messages: user('x'.repeat(30)), max_tokens: 33 })
  expect(over.error).toMatchObject({ status: 400, error: { code: 'context_length_exceeded', param: 'messages' } })
  expect(over.error?.error.message).toContain('65 tokens (32 in the messages, 33 in the completion)')
  const full = await run({ prompt: 'x'.repeat(64) }, 'completions')
  expect(full.error).toMatchObject({ error: { code: 'context_length_exceeded', param: 'prompt' } })
})

test('a default limit is what the context leaves', async () => {
  script.answer = 'x'.repeat(100)
  const sink = await run({ messages: user('x'.repeat(30)) })
  expect(sink.text).toBe('x'.repeat(32))
  expect(sink.end).toMatchObject({ finish_reason: 'length' })
})

test('prompts of no tokens or of foreign tokens are refused', async () => {
  const empty = await run({ prompt: '' }, 'completions')
  expect(empty.error).toMatchObject({ error: { code: 'invalid_value', param: 'prompt' } })
  const foreign = await run({ prompt: [65, 0x110000] }, 'completions')
  expect(foreign.error).toMatchObject({ error: { code: 'invalid_value', param: 'prompt[1]' } })
  expect((await run({ prompt: [65, 0x10ffff] }, 'completions')).end).toMatchObject({ outcome: 'completed' })
})

test('an answer comes back as the tokens that were generated, to its own tenant alone', async () => {
  const front = await startFront()
  const { epoch } = front.describe()
  const history = [...user('Hi'), { role: 'assistant', content: 'Hello' }]
  const serve = async (body: Record<string, unknown>, cache_salt: string) => {
    const sink = new RecordingSink()
    front.serve(dispatched(epoch, body, { cache_salt }), sink)
    return sink.over
  }
  await serve({ messages: user('Hi') }, 'a')
  await serve({ messages: history }, 'a')
  await serve({ messages: history }, 'b')
  expect(seen.prompts[1]).toEqual([1, ...characters('Hi'), 1, ...characters('Hello'), 2])
  expect(seen.prompts[2]).toEqual(seen.prompts[1])
  await front.stop()
})

test('a stop token ends the call, and is not part of its text', async () => {
  script.answer = 'one.two'
  const stop_token_ids = characters('.')
  const sink = await run({ messages: user('Hi'), stop_token_ids })
  expect(sink.text).toBe('one')
  expect(sink.end).toMatchObject({ outcome: 'completed', finish_reason: 'stop' })
  expect(sink.end?.measurement.output_tokens).toBe(4)
  // What was held back, since a stop string might have begun, is text.
  const held = await run({ messages: user('Hi'), stop_token_ids, stop: ['e.two'] })
  expect(held.text).toBe('one')
  const foreign = await run({ messages: user('Hi'), stop_token_ids: [0x110000] })
  expect(foreign.error).toMatchObject({ error: { code: 'invalid_value', param: 'stop_token_ids' } })
})

test('a call that the model writes is a tool call, and its history repeats the tokens that were generated', async () => {
  script.answer = '<tool_call>{"name":"f","arguments":{"a":1}}</tool_call>'
  const tools = [{ type: 'function', function: { name: 'f' } }]
  const front = await startFront(512)
  const { epoch } = front.describe()
  const first = new RecordingSink()
  front.serve(dispatched(epoch, { messages: user('Hi'), tools }), first)
  await first.over
  const deltas = first.chunks.map(({ choices }) => choices[0]?.delta)
  expect(deltas[0]).toEqual({ role: 'assistant', content: null, refusal: null })
  expect(deltas[1]).toMatchObject({ tool_calls: [{ index: 0, function: { name: 'f', arguments: '' } }] })
  expect(deltas[2]).toMatchObject({ tool_calls: [{ index: 0, function: { arguments: '{"a":1}' } }] })
  expect(first.end).toMatchObject({ finish_reason: 'tool_calls' })
  const call = { id: 'c', type: 'function', function: { name: 'f', arguments: '{"a":1}' } }
  const history = [
    ...user('Hi'),
    { role: 'assistant', content: null, tool_calls: [call] },
    { role: 'tool', content: '42', tool_call_id: 'c' },
  ]
  const second = new RecordingSink()
  front.serve(dispatched(epoch, { messages: history, tools }), second)
  await second.over
  const [before = [], after = []] = seen.prompts
  // The prompt ends where the assistant speaks; in the history its message stands there, as it was generated.
  const spoken = before.slice(0, -1)
  expect(after.slice(0, spoken.length)).toEqual(spoken)
  const generated = characters(script.answer)
  expect(after.slice(spoken.length + 1, spoken.length + 1 + generated.length)).toEqual(generated)
  await front.stop()
})

test('an enforced format that does not come to its end fails the call and not the engine', async () => {
  script.answer = '{"a": '
  const sink = await run({ messages: user('Hi'), response_format: { type: 'json_object' } })
  expect(sink.end).toMatchObject({
    outcome: 'failed',
    error: { retryable: false, error: { code: 'output_incomplete' } },
  })
  script.reads_grammar = false
  const unreadable = await run({ messages: user('Hi'), response_format: { type: 'json_object' } })
  script.reads_grammar = true
  expect(unreadable.error).toMatchObject({ status: 400, error: { param: 'response_format' } })
})

test.each([
  ['tokens', { tokens: 8 }, 4],
  // 4 tokens of prompt take 500 µs, each of output 500.
  ['service', { service_us: 2_000 }, 3],
  ['money', { cost_nanos: 6, prices: { prompt_picos: 1_000, cached_prompt_picos: 0, output_picos: 1_000 } }, 2],
])('a budget for %s cuts the output to what the prompt leaves of it', async (_, budget, output_tokens) => {
  const sink = await run({ messages: user('Hi'), max_tokens: 50 }, 'chat', { budget })
  expect(sink.end).toMatchObject({ outcome: 'completed', finish_reason: 'length', measurement: { output_tokens } })
})

test('a budget counts the prompt once and every choice', async () => {
  const sink = await run({ messages: user('Hi'), max_tokens: 50, n: 2 }, 'chat', { budget: { tokens: 9 } })
  expect(sink.end?.measurement).toMatchObject({ prompt_tokens: 4, output_tokens: 4 })
})

test('a prompt that a budget does not cover is refused before it is computed', async () => {
  const sink = await run({ messages: user('Hi') }, 'chat', { budget: { tokens: 4 } })
  expect(sink.error).toMatchObject({
    ...{ status: 402, retryable: false },
    error: { code: 'program_budget_exceeded', type: 'insufficient_quota' },
  })
  expect(seen.ledger).toEqual([])
})
