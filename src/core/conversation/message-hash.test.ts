import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { HashKey } from '../wire/keyed-hash.ts'
import { AGREES, agreement } from './answer-match.ts'
import { beginningAt } from './beginnings.ts'
import { conversationCall } from './conversation-call.ts'
import { MessageHash } from './message-hash.ts'

const KEY = [17, -4] as const
const hashOf = (message: unknown, key: HashKey = KEY) => {
  const conversation = conversationCall({ messages: [message] }, key)
  return conversation === null ? expect.unreachable() : beginningAt(conversation.beginnings, 0).hash
}
const marksOf = (message: object) => new MessageHash(KEY).answer(message as Record<string, unknown>)
const call = (name: string, args: unknown, id = 'call_abcd1') => ({
  id,
  type: 'function',
  function: { name, arguments: typeof args === 'string' ? args : JSON.stringify(args) },
})
const assistant = (content: unknown, ...tool_calls: object[]) => ({
  role: 'assistant',
  content,
  ...(tool_calls.length === 0 ? {} : { tool_calls }),
})

describe('messages that clients write differently', () => {
  it.each([
    ['null, missing and empty content', assistant(null, call('f', {})), assistant('', call('f', {}))],
    [
      'a text and a list of text parts',
      { role: 'user', content: 'a b' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'a' },
          { type: 'text', text: ' b' },
        ],
      },
    ],
    ['white space around', { role: 'user', content: '\n hi ' }, { role: 'user', content: 'hi' }],
    [
      'cache marks',
      { role: 'user', content: [{ type: 'text', text: 'hi', cache_control: { type: 'ephemeral' } }] },
      { role: 'user', content: 'hi' },
    ],
    [
      'names and unknown fields',
      { role: 'user', content: 'hi', name: 'user' },
      { role: 'user', content: 'hi', refusal: null },
    ],
    ['ids of tool calls', assistant(null, call('f', {}, 'call_1')), assistant(null, call('f', {}, 'call_2'))],
    [
      'ids of tool results',
      { role: 'tool', content: '5', tool_call_id: 'a' },
      { role: 'tool', content: '5', tool_call_id: 'b' },
    ],
    [
      'the order of keys and white space in arguments',
      assistant(null, call('f', '{"a": 1, "b": {"d": [1], "c": 2}}')),
      assistant(null, call('f', '{"b":{"c":2,"d":[1]},"a":1}')),
    ],
    [
      'arguments as an object',
      assistant(null, { function: { name: 'f', arguments: { a: 1 } } }),
      assistant(null, call('f', '{"a":1}')),
    ],
    ['reasoning fields', { ...assistant('hi'), reasoning_content: 'because' }, assistant('hi')],
    [
      'reasoning parts',
      assistant([
        { type: 'thinking', thinking: 'because', text: 'x' },
        { type: 'text', text: 'hi' },
      ]),
      assistant('hi'),
    ],
    ['reasoning in the text', assistant('<think>because</think>\n\nhi'), assistant('hi')],
    ['developer and system', { role: 'developer', content: 'x' }, { role: 'system', content: 'x' }],
  ])('are equal: %s', (_, one, other) => {
    expect(hashOf(one)).toBe(hashOf(other))
  })

  it.each([
    ['role', { role: 'user', content: 'hi' }, { role: 'assistant', content: 'hi' }],
    ['text', { role: 'user', content: 'hi' }, { role: 'user', content: 'ho' }],
    ['name of a tool', assistant(null, call('f', {})), assistant(null, call('g', {}))],
    ['arguments', assistant(null, call('f', { a: 1 })), assistant(null, call('f', { a: 2 }))],
    ['type of an argument', assistant(null, call('f', { a: 1 })), assistant(null, call('f', { a: '1' }))],
    ['where a list ends', assistant(null, call('f', { a: [1, [2]] })), assistant(null, call('f', { a: [1, 2] }))],
    [
      'image',
      { role: 'user', content: [{ type: 'image_url', image_url: { url: 'a' } }] },
      { role: 'user', content: [{ type: 'image_url', image_url: { url: 'b' } }] },
    ],
  ])('differ by %s', (_, one, other) => {
    expect(hashOf(one)).not.toBe(hashOf(other))
  })

  it('have other hashes under another key', () => {
    const message = { role: 'user', content: 'hi' }
    expect(hashOf(message, [17, -5])).not.toBe(hashOf(message))
  })

  it('hash in any form of JSON', () => {
    fc.assert(fc.property(fc.jsonValue(), (value) => Number.isSafeInteger(hashOf(value)) && hashOf(value) > 0))
    fc.assert(
      fc.property(fc.jsonValue(), (value) =>
        Number.isSafeInteger(hashOf({ role: 'assistant', content: value, tool_calls: [value] })),
      ),
    )
  })

  it('may nest arguments as deep as they like', () => {
    const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`
    expect(hashOf(assistant(null, call('f', deep)))).toBeGreaterThan(0)
  })
})

describe('an answer that is sent again', () => {
  const long = 'The weather in Paris is 18 degrees and sunny today.'
  const sent = (content: unknown, ...calls: object[]) => marksOf(assistant(content, ...calls))

  it.each([
    ['unchanged', sent(long), assistant(long)],
    [
      'without the text beside its tool calls',
      sent('I look it up.', call('f', { a: 1 })),
      assistant(null, call('f', { a: 1 })),
    ],
    [
      'with parallel calls in another order',
      sent(null, call('f', { a: 1 }), call('g', {})),
      assistant(null, call('g', {}), call('f', { a: 1 })),
    ],
    [
      'with the first of its parallel calls',
      sent(null, call('f', { a: 1 }), call('g', {})),
      assistant(null, call('f', { a: 1 })),
    ],
    ['with its end cut off', sent(`${long}\nObservation: none`), assistant(long)],
  ])('agrees: %s', (_, marks, echo) => {
    expect(agreement(marks, marksOf(echo))).toBeGreaterThanOrEqual(AGREES)
  })

  it.each([
    ['another text', sent(long), assistant('It is raining.')],
    [
      'other arguments',
      sent('I look it up.', call('f', { a: 1 }, 'x1')),
      assistant('I look it up.', call('f', { a: 2 }, 'x2')),
    ],
  ])('does not agree: %s', (_, marks, echo) => {
    expect(agreement(marks, marksOf(echo))).toBe(0)
  })

  it('agrees more where the id of its tool call is the same', () => {
    const marks = sent(null, call('f', {}, 'call_one11'))
    const same = agreement(marks, marksOf(assistant(null, call('f', {}, 'call_one11'))))
    expect(same).toBeGreaterThan(agreement(marks, marksOf(assistant(null, call('f', {}, 'call_two22')))))
  })

  it('is recognised by that id in a text that a client made of its tool calls', () => {
    const marks = sent(null, call('f', {}, 'call_one11'))
    expect(agreement(marks, marksOf(assistant(`Calling tools:\n[{'id': 'call_one11', 'name': 'f'}]`)))).toBeGreaterThan(
      0,
    )
    expect(agreement(marks, marksOf(assistant(`Calling tools:\n[{'id': 'call_two22', 'name': 'f'}]`)))).toBe(0)
  })
})
