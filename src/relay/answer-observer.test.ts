import { describe, expect, it } from 'vitest'
import { MessageHash } from '../core/conversation/message-hash.ts'
import { AnswerObserver, OBSERVED_CHARS_MAX } from './answer-observer.ts'

const KEY = [1, 2] as const
const marksOf = (message: Record<string, unknown>) => new MessageHash(KEY).answer(message)
const chunk = (delta: object, index = 0) => JSON.stringify({ choices: [{ index, delta }] })

function observing(...chunks: string[]) {
  const observer = new AnswerObserver()
  for (const data of chunks) observer.chunk(data)
  return observer.marks(KEY)
}

describe('what is observed of an answer', () => {
  it('is its text, piece by piece', () => {
    expect(
      observing(chunk({ role: 'assistant', content: '' }), chunk({ content: 'Par' }), chunk({ content: 'is.' })),
    ).toEqual(marksOf({ content: 'Paris.' }))
  })

  it('is its tool calls, whose arguments come in pieces and may be interleaved', () => {
    const piece = (index: number, text: string) => chunk({ tool_calls: [{ index, function: { arguments: text } }] })
    const marks = observing(
      chunk({ tool_calls: [{ index: 0, id: 'a', function: { name: 'f', arguments: '{"x"' } }] }),
      chunk({ tool_calls: [{ index: 1, id: 'b', function: { name: 'g', arguments: '' } }] }),
      piece(1, '{}'),
      piece(0, ':1}'),
    )
    const tool_calls = [
      { id: 'a', function: { name: 'f', arguments: '{"x":1}' } },
      { id: 'b', function: { name: 'g', arguments: '{}' } },
    ]
    expect(marks).toEqual(marksOf({ content: null, tool_calls }))
  })

  it('is its first choice, and nothing of reasoning, usage or what is no chunk', () => {
    const marks = observing(
      chunk({ content: 'One' }),
      chunk({ content: 'Two' }, 1),
      chunk({ reasoning_content: 'because' }),
      JSON.stringify({ choices: [], usage: {} }),
      '[DONE]',
      '{"broken',
      '[1]',
      'null',
    )
    expect(marks).toEqual(marksOf({ content: 'One' }))
  })

  it('comes from bytes cut anywhere', () => {
    const text = `: waiting\n\ndata: ${chunk({ content: 'Grüße' })}\n\ndata: [DONE]\n\n`
    const bytes = new TextEncoder().encode(text)
    for (let cut = 0; cut < bytes.length; cut += 1) {
      const observer = new AnswerObserver()
      observer.bytes(bytes.subarray(0, cut))
      observer.bytes(bytes.subarray(cut))
      expect(observer.marks(KEY)).toEqual(marksOf({ content: 'Grüße' }))
    }
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
    const expected = marksOf({ content: texts.join('') })
    expect(observing(...chunks.map((one) => JSON.stringify(one)))).toEqual(expected)
    expect(observing(...chunks.map((one) => JSON.stringify(one, null, 1)))).toEqual(expected)
  })

  it('has the tool call that comes in one piece with text', () => {
    const called = { index: 0, id: 'a', function: { name: 'f', arguments: '{}' } }
    expect(observing(chunk({ content: 'I look.', tool_calls: [called] }))).toEqual(
      marksOf({ content: 'I look.', tool_calls: [called] }),
    )
  })

  it('ends at a bound, past which the rest is not kept', () => {
    const long = 'x'.repeat(OBSERVED_CHARS_MAX)
    expect(observing(chunk({ content: long }), chunk({ content: 'y' }))).toEqual(marksOf({ content: `${long}y` }))
    const past = observing(chunk({ content: `${long}y` }), chunk({ content: 'z' }))
    expect(past).toEqual(marksOf({ content: `${long}y` }))
  })

  it('takes no tool call whose index is out of range', () => {
    const wild = chunk({
      tool_calls: [{ index: 1e9, function: { name: 'f', arguments: '{}' } }, { index: -1 }, { index: 0.5 }],
    })
    expect(observing(wild)).toEqual(marksOf({ content: '' }))
  })
})
