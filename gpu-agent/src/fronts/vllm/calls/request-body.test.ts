import { describe, expect, test } from 'vitest'
import { CHOICE_CHARS_MAX } from '../../../openai/output-format.ts'
import {
  LOGIT_BIASES_MAX,
  MIN_TOKENS_MAX,
  REPETITION_PENALTY_MAX,
  STOP_TOKENS_MAX,
  TOP_K_MAX,
} from '../../../openai/sampling-fields.ts'
import { BAD_WORD_CHARS_MAX, BAD_WORDS_MAX, CHOICES_MAX } from '../../../openai/schemas.ts'
import { TEMPLATE_KWARG_CHARS_MAX, TEMPLATE_KWARGS_MAX } from '../../../openai/template-kwargs.ts'
import type { TextDialect } from '../../engine-front.ts'
import { user } from '../../testing/dispatched.ts'
import { NAME_CHARS_MAX } from './body-schemas.ts'
import { vllmRequest } from './request-body.ts'

const chat = (fields: object = {}) => ({ messages: user('Hi'), ...fields })

function fieldsOf(body: unknown, dialect: TextDialect = 'chat') {
  const result = vllmRequest(dialect, body, 'served')
  return result.ok ? result.request.fields : expect.fail(JSON.stringify(result.error))
}

function refusedParam(body: unknown, dialect: TextDialect = 'chat'): string | null {
  const result = vllmRequest(dialect, body, 'served')
  return result.ok ? expect.fail('it was taken') : result.error.error.param
}

const SCHEDULING: Record<string, unknown> = {
  priority: -9,
  vllm_xargs: { switchyard_service_us: 0 },
  cache_salt: 'theirs',
  session_id: 'theirs',
  request_id: 'theirs',
  kv_transfer_params: { do_remote_decode: true },
  ec_transfer_params: {},
  data_parallel_rank: 1,
  chat_template: '{{ "x" * 10 ** 9 }}',
  documents: [],
  mm_processor_kwargs: {},
  media_io_kwargs: { video: { num_frames: 10_000 } },
  logits_processors: ['os.system'],
  use_beam_search: true,
  best_of: 20,
  prompt_embeds: 'AAAA',
  prompt_logprobs: 5,
  guided_json: {},
  repetition_detection: {},
  stream_interval: 100,
  truncate_prompt_tokens: 1,
  continue_final_message: true,
  add_generation_prompt: false,
  return_token_ids: true,
  allowed_token_ids: [1],
  logprob_token_ids: [1],
  include_metrics: true,
}

describe('what could reach the scheduler or the host', () => {
  test.each(Object.entries(SCHEDULING))('%s is refused by its name in both dialects', (field, value) => {
    expect(refusedParam(chat({ [field]: value }))).toBe(field)
    expect(refusedParam({ prompt: 'Hi', [field]: value }, 'completions')).toBe(field)
  })

  test.each([
    ['image_url', { type: 'image_url', image_url: { url: 'http://169.254.169.254/' } }],
    ['video_url', { type: 'video_url', video_url: { url: 'file:///etc/passwd' } }],
    ['input_audio', { type: 'input_audio', input_audio: { data: '', format: 'wav' } }],
  ])('a part of kind %s never goes along', (_, part) => {
    expect(refusedParam({ messages: [{ role: 'user', content: [part] }] })).toContain('messages[0].content')
  })

  test('fields of a message that clients invent are refused', () => {
    expect(refusedParam({ messages: [{ role: 'user', content: 'a', colour: 'b' }] })).toBe('messages[0].colour')
  })

  test('nothing goes along but what stands here', () => {
    const known = { user: 'u', metadata: { a: 'b' }, safety_identifier: 's', prompt_cache_key: 'k' }
    expect(fieldsOf(chat({ ...known, temperature: null, stream: false, model: 'theirs' }))).toEqual({
      model: 'served',
      messages: [{ role: 'user', content: 'Hi' }],
      max_tokens: 1024,
      stream: true,
      stream_options: { include_usage: true },
    })
    expect(fieldsOf({ prompt: [1, 2], model: 'theirs' }, 'completions')).toEqual({
      model: 'served',
      prompt: [1, 2],
      max_tokens: 16,
      stream: true,
      stream_options: { include_usage: true },
    })
  })
})

const many = <T>(count: number, of: (index: number) => T): T[] => Array.from({ length: count }, (_, index) => of(index))
const biases = (count: number) => Object.fromEntries(many(count, (token) => [String(token), 1]))

test.each([
  ['top_k', TOP_K_MAX, TOP_K_MAX + 1],
  ['top_k', -1, -2],
  ['min_p', 1, 1.01],
  ['repetition_penalty', REPETITION_PENALTY_MAX, REPETITION_PENALTY_MAX + 0.1],
  ['repetition_penalty', 0.01, 0],
  ['min_tokens', MIN_TOKENS_MAX, MIN_TOKENS_MAX + 1],
  ['stop_token_ids', many(STOP_TOKENS_MAX, (i) => i), many(STOP_TOKENS_MAX + 1, (i) => i)],
  ['stop_token_ids', [2 ** 31 - 1], [2 ** 31]],
  ['bad_words', many(BAD_WORDS_MAX, () => 'a'), many(BAD_WORDS_MAX + 1, () => 'a')],
  ['bad_words', ['a'.repeat(BAD_WORD_CHARS_MAX)], ['a'.repeat(BAD_WORD_CHARS_MAX + 1)]],
  ['logit_bias', biases(LOGIT_BIASES_MAX), biases(LOGIT_BIASES_MAX + 1)],
  ['logit_bias', { 5: -100 }, { 5: -101 }],
  ['logit_bias', { 5: 1 }, { x: 1 }],
  ['frequency_penalty', 2, 2.1],
  ['ignore_eos', true, 1],
  ['n', 8, 9],
])('%s passes at its bound and is refused past it', (field, at, past) => {
  expect(fieldsOf(chat({ [field]: at }))[field]).toEqual(at)
  expect(refusedParam(chat({ [field]: past }))).toMatch(new RegExp(`^${field}`))
})

test('a name of a message passes at its bound and is refused past it, and with control characters', () => {
  const named = (name: unknown) => ({ messages: [{ role: 'user', content: 'a', name }] })
  const name = 'a'.repeat(NAME_CHARS_MAX)
  expect(fieldsOf(named(name)).messages).toEqual([{ role: 'user', content: 'a', name }])
  for (const bad of [`${name}a`, 'a\nb', '', 5]) expect(refusedParam(named(bad))).toBe('messages[0].name')
})

test('messages go along as text, with their calls of tools', () => {
  const tool_calls = [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }]
  const messages = [
    {
      role: 'developer',
      content: [
        { type: 'text', text: 'a' },
        { type: 'text', text: 'b' },
      ],
    },
    { role: 'assistant', content: null, tool_calls },
    { role: 'tool', content: 'ok', tool_call_id: 'c' },
  ]
  expect(fieldsOf({ messages }).messages).toEqual([
    { role: 'system', content: 'ab' },
    { role: 'assistant', content: null, tool_calls },
    { role: 'tool', content: 'ok', tool_call_id: 'c' },
  ])
})

describe('tools and formats', () => {
  const tool = (name: string, parameters: object = { type: 'object' }) => ({
    type: 'function',
    function: { name, parameters },
  })

  test('go along as vLLM takes them', () => {
    const schema = { type: 'object', properties: { a: { type: 'string', pattern: '^[a-z]{3}$' } } }
    const response_format = { type: 'json_schema', json_schema: { name: 'n', schema, strict: true } }
    expect(fieldsOf(chat({ response_format }))).toMatchObject({ response_format })
    expect(fieldsOf(chat({ tools: [tool('a')] }))).toMatchObject({ tools: [tool('a')], tool_choice: 'auto' })
    const strict = (name: string) => ({ type: 'function', function: { ...tool(name).function, strict: true } })
    expect(fieldsOf(chat({ tools: [tool('a')], tool_choice: 'required' })).tools).toEqual([strict('a')])
    expect(fieldsOf(chat({ tools: [tool('a')] })).tools).toEqual([tool('a')])
    const two = { tools: [tool('a'), tool('b')] }
    const named = { type: 'function', function: { name: 'b' } }
    expect(fieldsOf(chat({ ...two, tool_choice: 'required' }))).toMatchObject({ tool_choice: 'required' })
    expect(fieldsOf(chat({ ...two, tool_choice: named }))).toMatchObject({ tool_choice: named })
    expect(fieldsOf(chat({ ...two, tool_choice: 'none' }))).toMatchObject({ tool_choice: 'none' })
    expect(fieldsOf(chat({ tools: [], tool_choice: 'none' }))).not.toHaveProperty('tools')
  })

  test('of a schema beyond the bounds are refused by the path to it', () => {
    const schema = { type: 'array', maxItems: 1025 }
    const response_format = { type: 'json_schema', json_schema: { name: 'n', schema } }
    expect(refusedParam(chat({ response_format }))).toBe('response_format.json_schema.schema.maxItems')
    expect(refusedParam(chat({ tools: [tool('a', schema)] }))).toBe('tools[0].function.parameters.maxItems')
  })
})

test('a prompt’s size is told in bytes of text, or in tokens', () => {
  const size = (body: unknown, dialect: TextDialect) => {
    const result = vllmRequest(dialect, body, 'served')
    return result.ok ? [result.request.prompt_bytes, result.request.prompt_tokens] : null
  }
  expect(size(chat({ messages: user('äb') }), 'chat')).toEqual([3, null])
  expect(size({ prompt: 'äb' }, 'completions')).toEqual([3, null])
  expect(size({ prompt: [5, 6] }, 'completions')).toEqual([null, 2])
})

describe('hints', () => {
  test.each([
    ['reasoning_effort', 'xhigh'],
    ['thinking_token_budget', 5],
    ['include_reasoning', false],
    ['chat_template_kwargs', { enable_thinking: false, mode: 'x', budget: 5 }],
  ])('%s goes along', (field, value) => {
    expect(fieldsOf(chat({ [field]: value }))[field]).toEqual(value)
  })

  test('thinking becomes the switch that templates have, unless the client sets it itself', () => {
    const off = { enable_thinking: false, thinking: false }
    expect(fieldsOf(chat({ thinking: { type: 'disabled' } })).chat_template_kwargs).toEqual(off)
    const on = chat({ thinking: { type: 'enabled', budget_tokens: 5 }, chat_template_kwargs: { thinking: false } })
    expect(fieldsOf(on).chat_template_kwargs).toEqual({ enable_thinking: true, thinking: false })
  })

  test('options of a template are bounded, and none of its inputs', () => {
    const many_options = (count: number) => Object.fromEntries(many(count, (index) => [`o${index}`, true]))
    fieldsOf(chat({ chat_template_kwargs: many_options(TEMPLATE_KWARGS_MAX) }))
    expect(refusedParam(chat({ chat_template_kwargs: many_options(TEMPLATE_KWARGS_MAX + 1) }))).toBe(
      'chat_template_kwargs',
    )
    fieldsOf(chat({ chat_template_kwargs: { a: 'x'.repeat(TEMPLATE_KWARG_CHARS_MAX) } }))
    for (const bad of [
      { a: 'x'.repeat(TEMPLATE_KWARG_CHARS_MAX + 1) },
      { chat_template: '{{ 1 }}' },
      { tools: true },
      { 'a b': true },
      { a: {} },
    ]) {
      expect(refusedParam(chat({ chat_template_kwargs: bad }))).toMatch(/^chat_template_kwargs/)
    }
  })

  test('an answer’s reasoning goes along under the name that vLLM reads', () => {
    const said = (fields: object) => ({ messages: [{ role: 'assistant', content: 'a', ...fields }] })
    const expected = [{ role: 'assistant', content: 'a', reasoning: 'hm' }]
    expect(fieldsOf(said({ reasoning_content: 'hm' })).messages).toEqual(expected)
    expect(fieldsOf(said({ reasoning: 'hm' })).messages).toEqual(expected)
    expect(fieldsOf({ messages: [{ role: 'user', content: 'a', reasoning: 'hm' }] }).messages).toEqual(user('a'))
  })
})

describe('structured outputs', () => {
  const both: [string, (fields: object) => unknown, TextDialect][] = [
    ['chat', chat, 'chat'],
    ['completions', (fields) => ({ prompt: 'Hi', ...fields }), 'completions'],
  ]

  test.each(both)('of %s go along', (_, body, dialect) => {
    for (const structured_outputs of [
      { json: { type: 'object' } },
      { json_object: true },
      { regex: '[a-z]{3}' },
      { choice: ['a', 'x'.repeat(CHOICE_CHARS_MAX)] },
    ]) {
      expect(fieldsOf(body({ structured_outputs }), dialect)).toMatchObject({ structured_outputs })
    }
  })

  test.each(both)('of %s are refused beyond their bounds, and in other forms', (_, body, dialect) => {
    for (const [structured_outputs, param] of [
      [{ json: { type: 'array', maxItems: 1025 } }, 'structured_outputs.json.maxItems'],
      [{ regex: '(a{999}){999}' }, 'structured_outputs.regex'],
      [{ choice: [] }, 'structured_outputs.choice'],
      [{ choice: ['x'.repeat(CHOICE_CHARS_MAX + 1)] }, 'structured_outputs.choice[0]'],
      [{ regex: 'a', choice: ['a'] }, 'structured_outputs'],
      [{}, 'structured_outputs'],
      [{ grammar: 'root ::= "a"' }, 'structured_outputs.grammar'],
      [{ regex: 'a', disable_any_whitespace: true }, 'structured_outputs.disable_any_whitespace'],
    ] as const) {
      expect(refusedParam(body({ structured_outputs }), dialect)).toBe(param)
    }
  })
})

describe('several prompts', () => {
  const request = (body: object) => {
    const result = vllmRequest('completions', body, 'served')
    return result.ok ? result.request : expect.fail(JSON.stringify(result.error))
  }

  test('are answered as choices', () => {
    expect(request({ prompt: ['a', 'äb'] })).toMatchObject({
      fields: { prompt: ['a', 'äb'] },
      ...{ choices: 2, prompts: 2, prompt_bytes: 4, prompt_tokens: null },
    })
    expect(request({ prompt: [[1], [2, 3]] })).toMatchObject({ fields: { prompt: [[1], [2, 3]] }, prompt_tokens: 3 })
    expect(request({ prompt: ['a'], n: 2 })).toMatchObject({ fields: { prompt: 'a' }, choices: 2, prompts: 1 })
  })

  test('are bounded, and have one answer each', () => {
    expect(request({ prompt: many(CHOICES_MAX, () => 'a') }).choices).toBe(CHOICES_MAX)
    expect(refusedParam({ prompt: many(CHOICES_MAX + 1, () => 'a') }, 'completions')).toBe('prompt')
    expect(refusedParam({ prompt: ['a', 'b'], n: 2 }, 'completions')).toBe('n')
  })
})

test('echo goes along; without it at least one token is asked for', () => {
  expect(fieldsOf({ prompt: 'a', echo: true, max_tokens: 0, logprobs: 1 }, 'completions')).toMatchObject({
    echo: true,
    max_tokens: 0,
    logprobs: 1,
  })
  expect(refusedParam({ prompt: 'a', max_tokens: 0 }, 'completions')).toBe('max_tokens')
})
