import { describe, expect, it } from 'vitest'
import { TOOLS_PER_CALL_MAX } from '../../../src/protocol/index.ts'
import { AnswerTools } from './answer-tools.ts'

function called(names: readonly (string | undefined)[], index = 0): object {
  const tool_calls = names.map((name, at) => ({ index: at, function: { ...(name && { name }), arguments: '{}' } }))
  return { choices: [{ index, delta: { tool_calls } }] }
}

describe('the tools of an answer', () => {
  it('are those that its first choice names, in order', () => {
    const tools = new AnswerTools()
    tools.chunk({ choices: [{ index: 0, delta: { role: 'assistant', content: null } }] })
    tools.chunk(called(['search']))
    tools.chunk(called([undefined]))
    tools.chunk(called(['other'], 1))
    tools.chunk(called(['read', 'search']))
    tools.chunk({ choices: [], usage: {} })
    tools.chunk({ choices: [{ index: 0, text: 'of a completion' }] })
    expect(tools.names).toEqual(['search', 'read', 'search'])
  })

  it('are bounded, and what a name may not contain is replaced', () => {
    const tools = new AnswerTools()
    tools.chunk(called(['\u001b[31mred', 'x'.repeat(1000)]))
    expect(tools.names).toEqual(['_[31mred', 'x'.repeat(128)])
    for (let more = 0; more < TOOLS_PER_CALL_MAX; more += 1) tools.chunk(called(['again']))
    expect(tools.names).toHaveLength(TOOLS_PER_CALL_MAX)
  })
})
