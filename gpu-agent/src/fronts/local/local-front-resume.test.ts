/**
 * An answer that breaks anywhere goes on elsewhere: what the client has before and after is the unbroken answer. The client's
 * side is the Worker's own (core/call/answer-so-far.ts).
 */
import { beforeEach, describe, expect, test } from 'vitest'
import { AnswerSoFar } from '../../../../src/core/call/answer-so-far.ts'
import type { Resume } from '../../../../src/protocol/index.ts'
import { eventId } from '../../../../src/protocol/index.ts'
import { user } from '../testing/dispatched.ts'
import type { RecordingSink } from '../testing/recording-sink.ts'
import { resetScript, run, script, seen } from './testing/scripted-front.ts'

beforeEach(resetScript)

/** Tools take room. */
const CONTEXT_TOKENS = 2048
/** Ids of chunks and of tools go by the call. */
const SAME = { call: 'call' }

type Body = Record<string, unknown>
type Dialect = 'chat' | 'completions'

const tool = (name: string) => ({ type: 'function', function: { name, parameters: { type: 'object' } } })
const schema = { type: 'json_schema', json_schema: { name: 's', schema: { type: 'object' } } }

const CASES: [string, string, Body, Dialect][] = [
  ['text', 'Hello there', { messages: user('Hi') }, 'chat'],
  ['text that its limit cuts', 'Hello there', { messages: user('Hi'), max_tokens: 7 }, 'chat'],
  ['text with a stop string', 'one END two', { messages: user('Hi'), stop: [' END'] }, 'chat'],
  ['text that nearly has a stop string', 'one EN two', { messages: user('Hi'), stop: [' END'] }, 'chat'],
  ['text that ends within a stop string', 'one EN', { messages: user('Hi'), stop: [' END'] }, 'chat'],
  ['a completion', 'Hello there', { prompt: 'Hi' }, 'completions'],
  ['a completion with its prompt', 'Hello', { prompt: 'Hi', echo: true }, 'completions'],
  ['log probabilities', 'Hello', { messages: user('Hi'), logprobs: true }, 'chat'],
  ['JSON', '{"a":[1,2]}', { messages: user('Hi'), response_format: schema }, 'chat'],
  [
    'a call that a grammar enforces',
    '<tool_call>\n{"name": "look", "arguments": {"at":"x"}}\n</tool_call>',
    { messages: user('Hi'), tools: [tool('look')], tool_choice: 'required' },
    'chat',
  ],
  [
    'text and calls as the model likes',
    'So:<tool_call>{"name":"a","arguments":{"x":1}}</tool_call>',
    { messages: user('Hi'), tools: [tool('a')] },
    'chat',
  ],
  ['a call of its own wish that is text', '<tool_call>no', { messages: user('Hi'), tools: [tool('a')] }, 'chat'],
]

interface Whole {
  message: object
  roles: number
  finish_reason: string | null | undefined
  usage: unknown
}

/** What a client makes of it. */
function read(chunks: readonly object[], end: RecordingSink['end']): Whole {
  const answer = new AnswerSoFar()
  for (const chunk of chunks) answer.add(JSON.stringify(chunk))
  const choices = chunks.flatMap((chunk) => (chunk as { choices: { delta?: { role?: string } }[] }).choices)
  const last = (end?.last_chunks ?? []) as { usage?: { switchyard?: object } }[]
  const { switchyard: _, ...usage } = last.at(-1)?.usage ?? {}
  return {
    message: { content: answer.content, tools: answer.tools },
    roles: choices.filter(({ delta }) => delta?.role !== undefined).length,
    finish_reason: end?.finish_reason,
    usage,
  }
}

/** What the Worker sends after so many chunks. */
function broken({ chunks, tokens }: RecordingSink, after: number): Resume {
  const answer = new AnswerSoFar()
  for (const [at, chunk] of chunks.slice(0, after).entries()) {
    answer.add(JSON.stringify(chunk), eventId(tokens[at] ?? []))
  }
  return answer.resume() ?? expect.fail('it cannot be resumed')
}

describe.each(CASES)('%s', (_, answer, asked, dialect) => {
  const body = { ...asked, stream_options: { include_usage: true } }

  test('is the unbroken answer after a break at any chunk', async () => {
    script.answer = answer
    const whole = await run(body, dialect, SAME, null, CONTEXT_TOKENS)
    const expected = read(whole.chunks, whole.end)
    expect(expected.finish_reason).toBeTypeOf('string')
    for (let after = 1; after <= whole.chunks.length; after++) {
      const resume = broken(whole, after)
      const rest = await run(body, dialect, SAME, resume, CONTEXT_TOKENS)
      expect(rest.error, `after ${after} chunks`).toBeNull()
      const joined = read([...whole.chunks.slice(0, after), ...rest.chunks], rest.end)
      expect(joined, `after ${after} chunks`).toEqual(expected)
      const { prompt_tokens, output_tokens, resumed_tokens } = rest.end?.measurement ?? expect.fail()
      expect(prompt_tokens).toBe(whole.end?.measurement.prompt_tokens)
      expect(output_tokens + resumed_tokens).toBe(whole.end?.measurement.output_tokens)
      expect(resumed_tokens).toBeLessThanOrEqual(resume.tokens.length)
    }
  })
})

// 4 tokens of prompt and 6 of output take 3,500 µs of service. Each token costs a billionth.
test.each([
  ['tokens', { tokens: 10 }],
  ['service', { service_us: 3_500 }],
  ['money', { cost_nanos: 10, prices: { prompt_picos: 1_000, cached_prompt_picos: 0, output_picos: 1_000 } }],
])('keeps to what was reserved of %s, with the prompt and the tokens that it computes again', async (_, budget) => {
  script.answer = 'Hello there'
  const body = { messages: user('Hi'), max_tokens: 50 }
  const whole = await run(body, 'chat', { ...SAME, budget }, null, CONTEXT_TOKENS)
  expect(whole.end).toMatchObject({ finish_reason: 'length', measurement: { output_tokens: 6 } })
  for (let after = 1; after <= whole.chunks.length; after++) {
    const rest = await run(body, 'chat', { ...SAME, budget }, broken(whole, after), CONTEXT_TOKENS)
    const { prompt_tokens, output_tokens, resumed_tokens, service_modelled_us } = rest.end?.measurement ?? expect.fail()
    expect(prompt_tokens + resumed_tokens + output_tokens).toBe(10)
    expect(service_modelled_us, `after ${after} chunks`).toBeLessThanOrEqual(3_500)
    expect(read([...whole.chunks.slice(0, after), ...rest.chunks], rest.end).message).toEqual(
      read(whole.chunks, whole.end).message,
    )
  }
})

test('its chunks have the id and the time of those that the client has', async () => {
  const whole = await run({ messages: user('Hi') })
  const resume = { ...broken(whole, 3), created_s: 42, system_fingerprint: 'other' }
  const rest = await run({ messages: user('Hi') }, 'chat', {}, resume)
  expect(rest.chunks.length).toBeGreaterThan(0)
  for (const chunk of rest.chunks) expect(chunk).toMatchObject({ created: 42, system_fingerprint: 'other' })
})

test('what was generated elsewhere is computed with the prompt', async () => {
  const whole = await run({ messages: user('Hi') })
  await run({ messages: user('Hi') }, 'chat', {}, broken(whole, 3))
  const [first = [], second] = seen.prompts
  expect(second).toEqual([...first, ...whole.tokens.slice(0, 3).flat()])
})

test('another engine is asked where this one cannot go on', async () => {
  const whole = await run({ messages: user('Hi') })
  const resume = broken(whole, 3)
  const cannot = { status: 502, retryable: true, error: { code: 'cannot_resume' } }
  const several = await run({ messages: user('Hi'), n: 2 }, 'chat', {}, resume)
  expect(several.error).toMatchObject(cannot)
  const untold = await run({ messages: user('Hi') }, 'chat', {}, { ...resume, tokens: [] })
  expect(untold.error).toMatchObject(cannot)
  const foreign = await run({ messages: user('Hi') }, 'chat', {}, { ...resume, tokens: [0x110000] })
  expect(foreign.error).toMatchObject(cannot)
})
