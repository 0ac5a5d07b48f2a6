import { expect, test } from 'vitest'
import type { UsageExtension } from '../../../../src/protocol/index.ts'
import { ChunkBuilder, type ChunkOptions } from './chunks.ts'

const options: ChunkOptions = {
  dialect: 'chat',
  call: 'c1',
  model: 'm',
  created_s: 1700000000,
  system_fingerprint: 'switchyard-emulated-tiny',
  include_usage: true,
}
const switchyard: UsageExtension = {
  service_s: 1,
  service_wall_s: 2,
  service_modelled_s: 1,
  wait_s: 0,
  preemptions: 0,
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
  expect(chunks.role()).toEqual({
    ...chat,
    choices: [{ ...choice, delta: { role: 'assistant', content: '', refusal: null } }],
    usage: null,
  })
  expect(chunks.content('Hi')).toEqual({ ...chat, choices: [{ ...choice, delta: { content: 'Hi' } }], usage: null })
  expect(chunks.finish('length')).toEqual({
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
  expect(chunks.role()).toBeNull()
  expect(chunks.content('Hi')).toEqual({
    ...completion,
    choices: [{ index: 0, text: 'Hi', logprobs: null, finish_reason: null }],
  })
  expect(chunks.finish('stop')).toEqual({
    ...completion,
    choices: [{ index: 0, text: '', logprobs: null, finish_reason: 'stop' }],
  })
  expect(chunks.usage(usage)).toBeNull()
})
