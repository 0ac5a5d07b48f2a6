import { describe, expect, it } from 'vitest'
import { TOOLS_PER_CALL_MAX } from '../../protocol/index.ts'
import { RESULT_MESSAGES_MAX, toolResults } from './tool-results.ts'

const user = { role: 'user', content: 'Find it.' }

function answer(...calls: [id: string, name: string][]) {
  const tool_calls = calls.map(([id, name]) => ({ id, type: 'function', function: { name, arguments: '{}' } }))
  return { role: 'assistant', content: null, tool_calls }
}

function result(tool_call_id: string, content: unknown) {
  return { role: 'tool', tool_call_id, content }
}

describe('what tools returned', () => {
  it('is named by the tool calls of the answer before it, in their order', () => {
    const messages = [user, answer(['a', 'search'], ['b', 'read']), result('b', 'four'), result('a', '€')]
    expect(toolResults({ messages })).toEqual([
      { name: 'search', bytes: 3 },
      { name: 'read', bytes: 4 },
    ])
  })

  it('is found before a text that came with it, in parts, and behind tool calls in messages of their own', () => {
    const parts = [{ type: 'text', text: 'ab' }, { type: 'image' }, { type: 'text', text: 'c' }]
    const messages = [user, answer(['a', 'one']), answer(['b', 'two']), result('a', parts), result('b', 'x'), user]
    expect(toolResults({ messages })).toEqual([
      { name: 'one', bytes: 3 },
      { name: 'two', bytes: 1 },
    ])
  })

  it('is only what is new: results behind an earlier answer count no more', () => {
    const messages = [user, answer(['a', 'search']), result('a', 'x'), { role: 'assistant', content: 'Done.' }, user]
    expect(toolResults({ messages })).toEqual([])
  })

  it('is nothing where a result answers no tool call, or one that was answered already', () => {
    const asked = answer(['a', 'search'], ['a', 'search'])
    expect(toolResults({ messages: [user, asked, result('b', 'x')] })).toEqual([])
    expect(toolResults({ messages: [user, result('a', 'x')] })).toEqual([])
    expect(toolResults({ messages: [user, asked, result('a', 'x')] })).toEqual([{ name: 'search', bytes: 1 }])
  })

  it('is nothing in a body that is no conversation', () => {
    for (const messages of [undefined, null, 'text', [], [null, 7, 'x'], [{ role: 'assistant', tool_calls: [null] }]]) {
      expect(toolResults({ messages, prompt: 'text' })).toEqual([])
    }
  })

  it('is bounded in number and in the messages that are looked at', () => {
    const many = Array.from({ length: TOOLS_PER_CALL_MAX + 1 }, (_, at): [string, string] => [`id${at}`, 'search'])
    const results = many.map(([id]) => result(id, 'x'))
    expect(toolResults({ messages: [answer(...many), ...results] })).toHaveLength(TOOLS_PER_CALL_MAX)
    const said = (others: number) => [answer(['a', 'search']), result('a', 'x'), ...Array(others).fill(user)]
    expect(toolResults({ messages: said(RESULT_MESSAGES_MAX - 2) })).toHaveLength(1)
    expect(toolResults({ messages: said(RESULT_MESSAGES_MAX - 1) })).toEqual([])
  })
})
