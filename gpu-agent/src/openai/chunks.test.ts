import { expect, test } from 'vitest'
import type { UsageExtension } from '../../../src/protocol/index.ts'
import { ChunkBuilder, type ChunkOptions } from './chunks.ts'

const options: ChunkOptions = {
  dialect: 'chat',
  call: 'c1',
  model: 'm',
  created_s: 1700000000,
  system_fingerprint: 'switchyard-emulated-tiny',
  include_usage: true,
  text: { tokenBytes: (token) => [token] },
}
const switchyard: UsageExtension = {
  service_s: 1,
  service_wall_s: 2,
  service_modelled_s: 1,
  wait_s: 0,
  ttft_s: 0.5,
  tpot_s: 0.25,
  resumed_tokens: 0,
  preemptions: 0,
  swapped_out_tokens: 0,
  swapped_in_tokens: 0,
  recomputed_tokens: 0,
  swap_s: 0,
  engine: 'e',
  region: 'r',
  emulated: true,
}
const usage = { prompt_tokens: 5, completion_tokens: 3, cached_tokens: 2, switchyard }
const frame = { created: 1700000000, model: 'm', system_fingerprint: 'switchyard-emulated-tiny' }

test("a chat stream is OpenAI's", () => {
  const chunks = new ChunkBuilder(options)
  const chat = { id: 'chatcmpl-c1', object: 'chat.completion.chunk', ...frame }
  const choice = { index: 0, logprobs: null, finish_reason: null }
  expect(chunks.role(0, '')).toEqual({
    ...chat,
    choices: [{ ...choice, delta: { role: 'assistant', content: '', refusal: null } }],
    usage: null,
  })
  expect(chunks.content(0, 'Hi')).toEqual({ ...chat, choices: [{ ...choice, delta: { content: 'Hi' } }], usage: null })
  expect(chunks.finish(0, { reason: 'length', stop: null })).toEqual({
    ...chat,
    choices: [{ ...choice, delta: {}, finish_reason: 'length' }],
    usage: null,
  })
  expect(chunks.usage(usage)).toEqual({
    ...chat,
    choices: [],
    usage: {
      prompt_tokens: 5,
      completion_tokens: 3,
      total_tokens: 8,
      prompt_tokens_details: { cached_tokens: 2 },
      switchyard,
    },
  })
})

test("a completion stream is OpenAI's, and without include_usage nothing speaks of usage", () => {
  const chunks = new ChunkBuilder({ ...options, dialect: 'completions', include_usage: false })
  const completion = { id: 'cmpl-c1', object: 'text_completion', ...frame }
  expect(chunks.role(0, '')).toBeNull()
  expect(chunks.content(0, 'Hi')).toEqual({
    ...completion,
    choices: [{ index: 0, text: 'Hi', logprobs: null, finish_reason: null }],
  })
  expect(chunks.finish(0, { reason: 'stop', stop: null })).toEqual({
    ...completion,
    choices: [{ index: 0, text: '', logprobs: null, finish_reason: 'stop' }],
  })
  expect(chunks.usage(usage)).toBeNull()
})

test("a tool call's chunks: id and name, then arguments, of the choice that calls", () => {
  const chunks = new ChunkBuilder({ ...options, include_usage: false })
  const delta = (chunk: object) => (chunk as { choices: { index: number; delta: unknown }[] }).choices[0]
  expect(delta(chunks.role(1, null) ?? {})?.delta).toEqual({ role: 'assistant', content: null, refusal: null })
  const begin = delta(chunks.toolCall(1, 0, 'weather'))
  expect(begin).toMatchObject({
    index: 1,
    delta: { tool_calls: [{ index: 0, type: 'function', function: { name: 'weather', arguments: '' } }] },
  })
  expect(JSON.stringify(begin)).toMatch(/"id":"call_[0-9a-f]{24}"/)
  expect(chunks.toolCall(1, 0, 'weather')).toEqual(chunks.toolCall(1, 0, 'weather'))
  expect(chunks.toolCall(1, 1, 'weather')).not.toMatchObject(begin?.delta as object)
  expect(delta(chunks.arguments(1, 0, '{"a"'))?.delta).toEqual({
    tool_calls: [{ index: 0, function: { arguments: '{"a"' } }],
  })
})

test('a stop string that was met is named as vLLM names it', () => {
  const finished = new ChunkBuilder(options).finish(0, { reason: 'stop', stop: 'END' })
  expect(finished).toMatchObject({ choices: [{ finish_reason: 'stop', stop_reason: 'END' }] })
})
