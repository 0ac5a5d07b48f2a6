import { describe, expect, test } from 'vitest'
import {
  METADATA_KEY_CHARS_MAX,
  METADATA_KEYS_MAX,
  METADATA_VALUE_CHARS_MAX,
  STOPS_MAX,
} from '../../../src/protocol/openai.ts'
import type { TextDialect } from '../fronts/engine-front.ts'
import { type Capability, TEXT_ONLY } from './capabilities.ts'
import { PLAIN_TEXT } from './output-format.ts'
import { CHOICES_MAX, CONTENT_PARTS_MAX, MESSAGES_MAX, STOP_CHARS_MAX } from './schemas.ts'
import { type Translation, translate } from './translate.ts'

const messages = [{ role: 'user', content: 'Hi' }]

function ok(dialect: TextDialect, body: unknown): Translation {
  const result = translate(dialect, body, TEXT_ONLY)
  if (!result.ok) throw new Error(JSON.stringify(result.error))
  return result.translation
}

function refused(dialect: TextDialect, body: unknown, capabilities = TEXT_ONLY): [string | null, string | null] {
  const result = translate(dialect, body, capabilities)
  if (result.ok) throw new Error('expected a refusal')
  expect(result.error).toMatchObject({ status: 400, retryable: false, error: { type: 'invalid_request_error' } })
  if (result.error.error.param !== null) expect(result.error.error.message).toContain(result.error.error.param)
  return [result.error.error.code, result.error.error.param]
}

const chat = (fields: Record<string, unknown>) => ({ model: 'm', messages, ...fields })

describe('chat bodies', () => {
  test('the smallest one, with defaults', () => {
    expect(ok('chat', { messages })).toEqual({
      prompts: [{ kind: 'chat', messages }],
      max_output_tokens: null,
      sampling: {},
      stops: [],
      include_usage: false,
      choices: 1,
      bad_words: [],
      logprobs: null,
      echo: false,
      output: PLAIN_TEXT,
    })
  })

  test('options of a chat template, of which none spells a control token', () => {
    const asked = (chat_template_kwargs: object) => chat({ chat_template_kwargs })
    expect(ok('chat', asked({ enable_thinking: false, effort: 'low' })).prompts[0]).toMatchObject({
      options: { enable_thinking: false, effort: 'low' },
    })
    for (const wrong of [{ effort: '<|im_end|>' }, { messages: [] }, { 'a b': 1 }, { deep: {} }]) {
      expect(refused('chat', asked(wrong))[1]).toContain('chat_template_kwargs')
    }
  })

  test('everything that is honoured', () => {
    const body = chat({
      messages: [
        { role: 'developer', content: 'Be brief.' },
        {
          role: 'user',
          content: [
            { type: 'text', text: 'a' },
            { type: 'text', text: 'b' },
          ],
        },
        { role: 'assistant', content: 'x', tool_calls: [] },
        { role: 'tool', content: '42', tool_call_id: 't1' },
      ],
      max_completion_tokens: 7,
      temperature: 0,
      top_p: 0.5,
      seed: -3,
      stop: ['a', 'b'],
      stream: true,
      stream_options: { include_usage: true },
      user: 'u',
      metadata: { program_id: 'p' },
    })
    expect(ok('chat', body)).toEqual({
      prompts: [
        {
          kind: 'chat',
          messages: [
            { role: 'system', content: 'Be brief.' },
            { role: 'user', content: 'ab' },
            { role: 'assistant', content: 'x' },
            { role: 'tool', content: '42' },
          ],
        },
      ],
      max_output_tokens: 7,
      sampling: { temperature: 0, top_p: 0.5, seed: -3 },
      stops: ['a', 'b'],
      include_usage: true,
      choices: 1,
      bad_words: [],
      logprobs: null,
      echo: false,
      output: PLAIN_TEXT,
    })
  })

  test.each([
    ['tools', [{ type: 'function', function: { name: 'f' } }]],
    ['tool_choice', 'required'],
    ['functions', [{ name: 'f' }]],
    ['response_format', { type: 'json_object' }],
    ['response_format', { type: 'json_schema', json_schema: {} }],
    ['logprobs', true],
    ['top_logprobs', 2],
    ['n', 2],
    ['logit_bias', { 5: 1 }],
    ['frequency_penalty', 0.5],
    ['presence_penalty', -1],
    ['audio', { voice: 'alloy', format: 'mp3' }],
    ['modalities', ['text', 'audio']],
    ['web_search_options', {}],
    ['repetition_penalty', 1.1],
    ['top_k', 5],
    ['min_p', 0.1],
    ['min_tokens', 1],
    ['ignore_eos', true],
    ['stop_token_ids', [1]],
    ['bad_words', ['x']],
    ['skip_special_tokens', false],
    ['include_stop_str_in_output', true],
    ['structured_outputs', { regex: 'a' }],
    ['use_beam_search', true],
    ['prompt_logprobs', 1],
    ['truncate_prompt_tokens', 1],
    ['return_token_ids', true],
    ['continue_final_message', true],
    ['add_generation_prompt', false],
  ])('%s = %j cannot be honoured and is named', (field, value) => {
    expect(refused('chat', chat({ [field]: value }))).toEqual(['unsupported_parameter', field])
  })

  test.each([
    ['tools', []],
    ['tool_choice', 'none'],
    ['response_format', { type: 'text' }],
    ['logprobs', false],
    ['top_logprobs', 0],
    ['n', 1],
    ['logit_bias', {}],
    ['frequency_penalty', 0],
    ['presence_penalty', 0],
    ['modalities', ['text']],
    ['parallel_tool_calls', true],
    ['repetition_penalty', 1],
    ['top_k', -1],
    ['min_p', 0],
    ['ignore_eos', false],
    ['skip_special_tokens', true],
    ['use_beam_search', false],
    ['return_token_ids', false],
    ['stop', null],
    ['stop', []],
    ['tools', null],
    ['max_tokens', null],
  ])('%s = %j asks for nothing and passes', (field, value) => {
    ok('chat', chat({ [field]: value }))
  })

  test('an engine that states a capability is asked for it', () => {
    const body = chat({ tools: [{ type: 'function', function: { name: 'f' } }], logprobs: true })
    expect(refused('chat', body, new Set<Capability>(['tools']))).toEqual(['unsupported_parameter', 'logprobs'])
    expect(translate('chat', body, new Set<Capability>(['tools', 'logprobs'])).ok).toBe(true)
  })

  test('parts that are not text are named by their message', () => {
    const image = { type: 'image_url', image_url: { url: 'data:' } }
    const body = { messages: [...messages, { role: 'user', content: [{ type: 'text', text: 'x' }, image] }] }
    expect(refused('chat', body)).toEqual(['unsupported_parameter', 'messages[1].content'])
    const tool = { messages: [...messages, { role: 'assistant', content: null, tool_calls: [{ id: 'x' }] }] }
    expect(refused('chat', tool)).toEqual(['unsupported_parameter', 'messages[1].tool_calls'])
  })

  test('a tool or an assistant may say nothing, and a refusal is what was said', () => {
    const refusal = { type: 'refusal', refusal: 'No.' }
    const said = [
      { role: 'tool', content: null, tool_call_id: 'c' },
      { role: 'assistant', content: null },
      { role: 'assistant' },
      { role: 'assistant', content: [{ type: 'text', text: 'Oh. ' }, refusal] },
    ]
    expect(ok('chat', { messages: said }).prompts[0]).toEqual({
      kind: 'chat',
      messages: [
        { role: 'tool', content: '' },
        { role: 'assistant', content: '' },
        { role: 'assistant', content: '' },
        { role: 'assistant', content: 'Oh. No.' },
      ],
    })
    expect(refused('chat', { messages: [{ role: 'user', content: null }] })[1]).toBe('messages[0].content')
  })

  test.each([
    [{ messages, max_token: 5 }, 'max_token'],
    [{ messages: [{ role: 'user', content: 'x', colour: 'red' }] }, 'messages[0].colour'],
    [{ messages, stream_options: { usage: true } }, 'stream_options.usage'],
  ])('a field without a schema is refused, if it comes this far: %j', (body, param) => {
    expect(refused('chat', body)).toEqual(['unsupported_parameter', param])
  })

  test.each([
    [{}, 'messages'],
    [{ messages: 'Hi' }, 'messages'],
    [{ messages: [] }, 'messages'],
    [{ messages: [{ role: 'robot', content: 'x' }] }, 'messages[0].role'],
    [{ messages: [{ role: 'user' }] }, 'messages[0].content'],
    [{ messages: [{ role: 'user', content: 5 }] }, 'messages[0].content'],
    [{ messages: [{ role: 'user', content: [{ text: 'x' }] }] }, 'messages[0].content[0].type'],
    [{ messages: [{ role: 'user', content: [{ type: 'text' }] }] }, 'messages[0].content[0].text'],
    [{ messages: [{ role: 'user', content: [{ type: 'poem', text: 'x' }] }] }, 'messages[0].content[0].type'],
    [chat({ temperature: 2.1 }), 'temperature'],
    [chat({ temperature: '1' }), 'temperature'],
    [chat({ top_p: -0.1 }), 'top_p'],
    [chat({ seed: 1.5 }), 'seed'],
    [chat({ seed: 2 ** 60 }), 'seed'],
    [chat({ max_tokens: 0 }), 'max_tokens'],
    [chat({ max_tokens: 5, max_completion_tokens: 6 }), 'max_tokens'],
    [chat({ stop: '' }), 'stop'],
    [chat({ stop: ['a', 5] }), 'stop[1]'],
    [chat({ stop: ['\ud83d'] }), 'stop[0]'],
    [chat({ stream: 'yes' }), 'stream'],
    [chat({ logprobs: 'yes' }), 'logprobs'],
    [chat({ metadata: { a: 5 } }), 'metadata.a'],
  ])('a wrong value is invalid: %j', (body, param) => {
    expect(refused('chat', body)).toEqual(['invalid_value', param])
  })

  test('what is no object has no param', () => {
    for (const body of [null, 5, 'x', []]) expect(refused('chat', body)).toEqual(['invalid_value', null])
  })

  test('bounds: at each one and one past it', () => {
    const many = (count: number) => Array.from({ length: count }, () => messages[0])
    ok('chat', { messages: many(MESSAGES_MAX) })
    expect(refused('chat', { messages: many(MESSAGES_MAX + 1) })).toEqual(['invalid_value', 'messages'])
    const stops = (count: number) => Array.from({ length: count }, (_, index) => `${index}`)
    ok('chat', chat({ stop: stops(STOPS_MAX) }))
    expect(refused('chat', chat({ stop: stops(STOPS_MAX + 1) }))).toEqual(['invalid_value', 'stop'])
    ok('chat', chat({ stop: 'x'.repeat(STOP_CHARS_MAX) }))
    expect(refused('chat', chat({ stop: 'x'.repeat(STOP_CHARS_MAX + 1) }))).toEqual(['invalid_value', 'stop'])
    ok('chat', chat({ temperature: 2, top_p: 1 }))
    const parts = (count: number) => [
      { role: 'user', content: Array.from({ length: count }, () => ({ type: 'text', text: 'x' })) },
    ]
    ok('chat', { messages: parts(CONTENT_PARTS_MAX) })
    expect(refused('chat', { messages: parts(CONTENT_PARTS_MAX + 1) })).toEqual([
      'invalid_value',
      'messages[0].content',
    ])
  })

  test('metadata: at its bounds and one past each', () => {
    const keys = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, index) => [`${index}`, 'x']))
    ok('chat', chat({ metadata: keys(METADATA_KEYS_MAX) }))
    expect(refused('chat', chat({ metadata: keys(METADATA_KEYS_MAX + 1) }))).toEqual(['invalid_value', 'metadata'])
    const pair = (key: number, value: number) => chat({ metadata: { ['k'.repeat(key)]: 'v'.repeat(value) } })
    ok('chat', pair(METADATA_KEY_CHARS_MAX, METADATA_VALUE_CHARS_MAX))
    expect(refused('chat', pair(METADATA_KEY_CHARS_MAX + 1, 1))[0]).toBe('invalid_value')
    expect(refused('chat', pair(1, METADATA_VALUE_CHARS_MAX + 1))).toEqual(['invalid_value', 'metadata.k'])
  })
})

describe('completion bodies', () => {
  test.each([
    ['Hi', [{ kind: 'text', text: 'Hi' }]],
    [['Hi'], [{ kind: 'text', text: 'Hi' }]],
    [[1, 2], [{ kind: 'tokens', tokens: [1, 2] }]],
    [[[1, 2]], [{ kind: 'tokens', tokens: [1, 2] }]],
    [
      ['a', 'b'],
      [
        { kind: 'text', text: 'a' },
        { kind: 'text', text: 'b' },
      ],
    ],
    [
      [[1], [2]],
      [
        { kind: 'tokens', tokens: [1] },
        { kind: 'tokens', tokens: [2] },
      ],
    ],
  ])('prompt %j', (prompt, expected) => {
    expect(ok('completions', { prompt }).prompts).toEqual(expected)
  })

  test('as many prompts as a call may have choices, and not one more', () => {
    const prompts = (count: number) => Array.from({ length: count }, (_, index) => `${index}`)
    expect(ok('completions', { prompt: prompts(CHOICES_MAX) }).prompts).toHaveLength(CHOICES_MAX)
    expect(refused('completions', { prompt: prompts(CHOICES_MAX + 1) })).toEqual(['invalid_value', 'prompt'])
  })

  test.each([
    [{ prompt: 'x', echo: true }, 'unsupported_parameter', 'echo'],
    [{ prompt: 'x', best_of: 3 }, 'unsupported_parameter', 'best_of'],
    [{ prompt: 'x', logprobs: 0 }, 'unsupported_parameter', 'logprobs'],
    [{ prompt: 'x', suffix: 'y' }, 'unsupported_parameter', 'suffix'],
    [{ prompt: 'x', messages }, 'unsupported_parameter', 'messages'],
    [{ prompt: 'x', max_tokens: 0 }, 'invalid_value', 'max_tokens'],
    [{ prompt: ['x', 'y'], n: 2 }, 'unsupported_parameter', 'n'],
    [{}, 'invalid_value', 'prompt'],
    [{ prompt: [] }, 'invalid_value', 'prompt'],
    [{ prompt: [-1] }, 'invalid_value', 'prompt[0]'],
    [{ prompt: { text: 'x' } }, 'invalid_value', 'prompt'],
  ])('%j is refused', (body, code, param) => {
    expect(refused('completions', body)).toEqual([code, param])
  })
})
