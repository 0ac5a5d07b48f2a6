import { describe, expect, it } from 'vitest'
import { Aggregate, AggregateFault, ANSWER_BYTES_MAX, INDEX_MAX, StatedFault } from './aggregate.ts'

function aggregate(dialect: 'chat' | 'completions', chunks: readonly object[]) {
  const whole = new Aggregate(dialect)
  for (const chunk of chunks) whole.add(JSON.stringify(chunk))
  return whole.finish()
}

const top = { id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 7, model: 'm' }

describe('a chat completion', () => {
  it('is the text of its deltas, with the last finish reason and usage', () => {
    const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 }
    const answer = aggregate('chat', [
      { ...top, choices: [{ index: 0, delta: { role: 'assistant', content: '' }, finish_reason: null }], usage: null },
      { ...top, choices: [{ index: 0, delta: { content: 'Hel' }, finish_reason: null }], usage: null },
      { ...top, choices: [{ index: 0, delta: { content: 'lo' }, finish_reason: null }] },
      { ...top, choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] },
      { ...top, choices: [], usage },
    ])
    expect(answer).toEqual({
      id: 'chatcmpl-1',
      object: 'chat.completion',
      created: 7,
      model: 'm',
      choices: [{ index: 0, message: { role: 'assistant', content: 'Hello' }, logprobs: null, finish_reason: 'stop' }],
      usage,
    })
  })

  it('keeps choices apart and in order', () => {
    const answer = aggregate('chat', [
      { ...top, choices: [{ index: 1, delta: { content: 'b' } }] },
      { ...top, choices: [{ index: 0, delta: { content: 'a' } }] },
      { ...top, choices: [{ index: 1, delta: { content: 'B' } }] },
    ])
    expect((answer.choices as { message: { content: string } }[]).map((choice) => choice.message.content)).toEqual([
      'a',
      'bB',
    ])
  })

  it('puts tool calls together by their index and drops it', () => {
    const call = (index: number, fields: object) => ({
      ...top,
      choices: [{ index: 0, delta: { tool_calls: [{ index, ...fields }] } }],
    })
    const answer = aggregate('chat', [
      call(0, { id: 'call_a', type: 'function', function: { name: 'add', arguments: '' } }),
      call(1, { id: 'call_b', type: 'function', function: { name: 'mul', arguments: '{"x"' } }),
      call(0, { function: { arguments: '{"y":1}' } }),
      call(1, { function: { arguments: ':2}' } }),
    ])
    expect((answer.choices as { message: object }[])[0]?.message).toEqual({
      role: 'assistant',
      content: null,
      tool_calls: [
        { id: 'call_a', type: 'function', function: { name: 'add', arguments: '{"y":1}' } },
        { id: 'call_b', type: 'function', function: { name: 'mul', arguments: '{"x":2}' } },
      ],
    })
  })

  it('keeps fields that it does not know, and joins log probabilities', () => {
    const answer = aggregate('chat', [
      {
        ...top,
        system_fingerprint: 'f',
        choices: [{ index: 0, delta: { reasoning: 'hm' }, logprobs: { content: [1] } }],
      },
      { ...top, choices: [{ index: 0, delta: { reasoning: 'm' }, logprobs: { content: [2] }, stop_reason: 9 }] },
    ])
    expect(answer.system_fingerprint).toBe('f')
    expect((answer.choices as object[])[0]).toMatchObject({
      message: { reasoning: 'hmm' },
      logprobs: { content: [1, 2] },
      stop_reason: 9,
    })
  })
})

it('a completion is the text of its chunks', () => {
  const chunk = (text: string, finish_reason: string | null) => ({
    id: 'cmpl-1',
    object: 'text_completion',
    choices: [{ index: 0, text, finish_reason }],
  })
  expect(aggregate('completions', [chunk('on', null), chunk('ce', null), chunk('', 'length')])).toEqual({
    id: 'cmpl-1',
    object: 'text_completion',
    choices: [{ index: 0, text: 'once', finish_reason: 'length', logprobs: null }],
  })
})

describe('what is no answer', () => {
  it.each([
    ['no JSON', '{"id":'],
    ['no object', '7'],
    ['an index past the bound', `{"choices":[{"index":${INDEX_MAX + 1},"text":"x"}]}`],
    ['a negative index', '{"choices":[{"index":-1,"text":"x"}]}'],
  ])('%s is refused', (_, data) => {
    expect(() => new Aggregate('completions').add(data)).toThrow(AggregateFault)
  })

  it('an error is told apart, with what the engine said', () => {
    const data = '{"error":{"message":"boom"}}'
    const fault = (() => {
      try {
        new Aggregate('chat').add(data)
      } catch (error) {
        return error
      }
    })()
    expect(fault).toBeInstanceOf(StatedFault)
    expect((fault as StatedFault).data).toBe(data)
  })

  it('an index at the bound is kept', () => {
    const whole = new Aggregate('completions')
    whole.add(`{"choices":[{"index":${INDEX_MAX},"text":"x"}]}`)
    expect(whole.finish().choices).toHaveLength(1)
  })

  it('may reach the bound and not pass it', () => {
    const frame = '{"choices":[{"index":0,"text":""}]}'
    const big = (bytes: number) => `{"choices":[{"index":0,"text":"${'x'.repeat(bytes - frame.length)}"}]}`
    const whole = new Aggregate('completions')
    whole.add(big(ANSWER_BYTES_MAX))
    expect(() => whole.add(' ')).toThrow(/larger/)
  })
})
