import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Id } from '../../protocol/ids.ts'
import { classSource, programClass, SYSTEM_PROMPT_CHARS_HASHED, TOOLS_HASHED_MAX } from './program-class.ts'

const tool = (name: string) => ({ type: 'function', function: { name } })
const classOf = (body: Record<string, unknown>, app: string | null = null) => programClass(classSource(body, app))
const chat = (system: unknown, tools?: unknown) => ({
  messages: [
    { role: 'system', content: system },
    { role: 'user', content: 'hi' },
  ],
  tools,
})

describe('the class of a program', () => {
  it('is its app label, regardless of the prompt', () => {
    expect(classOf(chat('You are a reviewer.'), 'review')).toBe('app:review')
  })

  it('is a fingerprint of system prompt and tool names', () => {
    expect(classOf(chat('You are a reviewer.'))).toMatch(/^fp:[0-9a-f]{16}$/)
    expect(classOf(chat('You are a reviewer.'))).toBe(classOf(chat('You are a reviewer.')))
    expect(classOf(chat('You are a reviewer.'))).not.toBe(classOf(chat('You are a writer.')))
    expect(classOf(chat('You are a reviewer.', [tool('grep')]))).not.toBe(classOf(chat('You are a reviewer.')))
    expect(classOf({ messages: [], tools: [tool('grep')] })).toMatch(/^fp:/)
  })

  it('is found without reading the text of a user, which may be long', () => {
    const user = {
      role: 'user',
      get content(): string {
        throw new Error('it was read')
      },
    }
    expect(classOf({ messages: [user] })).toBe('tenant')
    expect(classOf({ messages: [{ role: 'system', content: '' }, user] })).toBe('tenant')
  })

  it('is the tenant when there is neither', () => {
    expect(classOf({ messages: [{ role: 'user', content: 'hi' }] })).toBe('tenant')
    expect(classOf({ prompt: 'Once upon a time' })).toBe('tenant')
    expect(classOf(chat('  '), '')).toBe('tenant')
  })

  it('does not depend on the turn, the order of tools, or how content is written', () => {
    const first = classOf(chat('Same.', [tool('a'), tool('b')]))
    const later = {
      messages: [
        {
          role: 'developer',
          content: [
            { type: 'text', text: 'Sa' },
            { type: 'text', text: 'me.' },
          ],
        },
        { role: 'user', content: 'a later turn' },
        { role: 'system', content: 'injected in the middle' },
      ],
      tools: [tool('b'), tool('a'), tool('a')],
    }
    expect(classOf(later)).toBe(first)
  })

  it('looks at a bounded prefix of the prompt and a bounded number of tools', () => {
    const prefix = 'x'.repeat(SYSTEM_PROMPT_CHARS_HASHED)
    expect(classOf(chat(`${prefix}a`))).toBe(classOf(chat(`${prefix}b`)))
    expect(classOf(chat(`${prefix.slice(1)}a`))).not.toBe(classOf(chat(`${prefix.slice(1)}b`)))
    const tools = Array.from({ length: TOOLS_HASHED_MAX }, (_, index) => tool(`a${String(index).padStart(4, '0')}`))
    expect(classOf({ tools: [...tools, tool('z')] })).toBe(classOf({ tools }))
    expect(classOf({ tools: tools.slice(1) })).not.toBe(classOf({ tools }))
  })

  it('is an id, however long the label', () => {
    const long = ['x'.repeat(128), `${'x'.repeat(127)}y`]
    for (const app of long)
      expect(Id.safeParse(programClass({ app, system_prompt: null, tool_names: [] })).success).toBe(true)
    expect(classOf({}, long[0])).not.toBe(classOf({}, long[1]))
  })

  it('is found in any body without a fault', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.constantFrom('messages', 'tools', 'prompt'), fc.anything()), (body) => {
        expect(classOf(body)).toMatch(/^(tenant|fp:[0-9a-f]{16})$/)
      }),
    )
  })
})
