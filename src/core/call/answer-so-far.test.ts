import { describe, expect, it } from 'vitest'
import { RESUME_CHARS_MAX, RESUME_TOKENS_MAX } from '../../protocol/index.ts'
import { ANSWER_CHARS_MAX, AnswerSoFar } from './answer-so-far.ts'

const chunk = (delta: object, index = 0) => JSON.stringify({ choices: [{ index, delta }] })

/** Text and calls of tools. */
function kept(...chunks: string[]) {
  const answer = new AnswerSoFar()
  for (const data of chunks) answer.add(data)
  return { content: answer.content, tools: answer.tools }
}

describe('what is kept of an answer', () => {
  it('is its text, piece by piece', () => {
    expect(
      kept(chunk({ role: 'assistant', content: '' }), chunk({ content: 'Par' }), chunk({ content: 'is.' })),
    ).toEqual({ content: 'Paris.', tools: [] })
  })

  it('is its tool calls, whose arguments come in pieces and may be interleaved', () => {
    const piece = (index: number, text: string) => chunk({ tool_calls: [{ index, function: { arguments: text } }] })
    const answer = kept(
      chunk({ tool_calls: [{ index: 0, id: 'a', function: { name: 'f', arguments: '{"x"' } }] }),
      chunk({ tool_calls: [{ index: 1, id: 'b', function: { name: 'g', arguments: '' } }] }),
      piece(1, '{}'),
      piece(0, ':1}'),
    )
    const tools = [
      { id: 'a', name: 'f', arguments: '{"x":1}' },
      { id: 'b', name: 'g', arguments: '{}' },
    ]
    expect(answer).toEqual({ content: '', tools })
  })

  it('is its first choice, and nothing of reasoning, usage or what is no chunk', () => {
    const answer = kept(
      chunk({ content: 'One' }),
      chunk({ content: 'Two' }, 1),
      chunk({ reasoning_content: 'because' }),
      JSON.stringify({ choices: [], usage: {} }),
      '[DONE]',
      '{"broken',
      '[1]',
      'null',
    )
    expect(answer).toEqual({ content: 'One', tools: [] })
  })

  it('is the same whether its engine writes it without spaces, as most do, or with them', () => {
    const texts = [
      'Par',
      'is "the" \\city\n',
      'Grüße 😀',
      '"',
      '\\',
      '"}',
      '"choices":[{"index":0,"delta":{"content":"x"}',
    ]
    const chunks = texts.map((content) => ({ choices: [{ index: 0, delta: { content }, finish_reason: null }] }))
    const expected = { content: texts.join(''), tools: [] }
    expect(kept(...chunks.map((one) => JSON.stringify(one)))).toEqual(expected)
    expect(kept(...chunks.map((one) => JSON.stringify(one, null, 1)))).toEqual(expected)
  })

  it('has the tool call that comes in one piece with text', () => {
    const called = { index: 0, id: 'a', function: { name: 'f', arguments: '{}' } }
    expect(kept(chunk({ content: 'I look.', tool_calls: [called] }))).toEqual({
      content: 'I look.',
      tools: [{ id: 'a', name: 'f', arguments: '{}' }],
    })
  })

  it('ends at a bound, past which the rest is not kept', () => {
    const long = 'x'.repeat(ANSWER_CHARS_MAX)
    expect(kept(chunk({ content: long }), chunk({ content: 'y' }))).toEqual({ content: `${long}y`, tools: [] })
    const past = kept(chunk({ content: `${long}y` }), chunk({ content: 'z' }))
    expect(past).toEqual({ content: `${long}y`, tools: [] })
  })

  it('takes no tool call whose index is out of range', () => {
    const wild = chunk({
      tool_calls: [{ index: 1e9, function: { name: 'f', arguments: '{}' } }, { index: -1 }, { index: 0.5 }],
    })
    expect(kept(wild)).toEqual({ content: '', tools: [] })
  })
})

describe('what another engine goes on from', () => {
  const FRAME = { created: 17, system_fingerprint: 'f' }
  const framed = (choices: object[]) => JSON.stringify({ ...FRAME, choices })
  const role = framed([{ index: 0, delta: { role: 'assistant', content: '', refusal: null } }])
  const text = (content: string) => framed([{ index: 0, delta: { content }, logprobs: null, finish_reason: null }])

  function resumeOf(...events: [data: string, id?: string][]) {
    const answer = new AnswerSoFar()
    for (const [data, id = null] of events) answer.add(data, id)
    return answer.resume()
  }

  it('is the text and all tokens that were named, under the id and the time that the client has', () => {
    expect(resumeOf([role], [text('Hel'), '4,5'], [text('lo'), '6'])).toEqual({
      ...{ content: 'Hello', reasoning: '', tool_calls: [], tokens: [4, 5, 6], output_tokens: 3 },
      ...{ created_s: 17, system_fingerprint: 'f' },
    })
  })

  it('is how many tokens there were, and none of them, where one engine did not name its own', () => {
    expect(resumeOf([role], [text('Hel'), '+2'], [text('lo'), '+1'])).toMatchObject({ tokens: [], output_tokens: 3 })
    const mixed = resumeOf([role], [text('Hel'), '4,5'], [text('lo'), '+2'], [text('!'), '6'])
    expect(mixed).toMatchObject({ content: 'Hello!', tokens: [], output_tokens: 5 })
  })

  it('is the text of a completion', () => {
    const piece = (one: string) => framed([{ index: 0, text: one, logprobs: null, finish_reason: null }])
    expect(resumeOf([piece('a'), '1'], [piece('b "c"'), '2'], [piece('d'), '3'])).toMatchObject({
      content: 'ab "c"d',
      tokens: [1, 2, 3],
    })
  })

  it('has reasoning, under either name, and calls of tools', () => {
    const events: [string][] = [
      [framed([{ index: 0, delta: { reasoning: 'so ' } }])],
      [framed([{ index: 0, delta: { reasoning_content: 'it is' } }])],
      [framed([{ index: 0, delta: { tool_calls: [{ index: 0, id: 'x', function: { name: 'f', arguments: '{' } }] } }])],
      [framed([{ index: 0, delta: { tool_calls: [{ index: 0, function: { arguments: '}' } }] } }])],
    ]
    expect(resumeOf(...events)).toMatchObject({
      reasoning: 'so it is',
      tool_calls: [{ name: 'f', arguments: '{}' }],
      tokens: [],
    })
  })

  it.each([
    ['nothing has come', []],
    ['there is a second choice', [[role], [framed([{ index: 1, delta: { content: 'x' } }])]]],
    ['a part of it is unknown', [[role], [framed([{ index: 0, delta: { audio: { data: 'x' } } }])]]],
    ['an event cannot be read', [[role], ['{"half']]],
    ["it is in a server's own API", [['{"type":"message_start","message":{}}']]],
    ['an id is no list of tokens', [[role], [text('a'), '1;2']]],
    ['an id is no count of tokens', [[role], [text('a'), '+1'], [text('b'), '+-2']]],
    ['more tokens are counted than may be sent', [[role], [text('a'), `+${RESUME_TOKENS_MAX + 1}`]]],
    ['it is longer than may be sent', [[role], [text('x'.repeat(RESUME_CHARS_MAX)), '1']]],
  ] as [string, [string, string?][]][])('is nothing where %s', (_, events) => {
    expect(resumeOf(...events)).toBeNull()
  })
})
