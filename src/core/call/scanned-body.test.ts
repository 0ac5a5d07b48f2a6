/** Bounds of what is read without being parsed. That it says the same as parsing is relay/read-call.property.test.ts. */
import { describe, expect, it } from 'vitest'
import { NESTING_MAX } from '../wire/nesting.ts'
import { HINT_MESSAGES_MAX, scanBody } from './scanned-body.ts'

const scan = (body: string) => scanBody(new TextEncoder().encode(body), 'messages')
const user = '{"role":"user","content":"hi"}'

describe('a body', () => {
  it('has its fields parsed, and its prompt as it stands', () => {
    const scanned = scan(`{"messages": [ ${user} ] ,"max_tokens":4, "model":"m"}`)
    expect(Object.keys(scanned?.fields ?? {})).toEqual(['messages', 'max_tokens', 'model'])
    expect(scanned?.fields).toEqual({ messages: [{ role: 'user', content: '' }], max_tokens: 4, model: 'm' })
    expect(new TextDecoder().decode(scanned?.raw.get('messages'))).toBe(`[ ${user} ]`)
    expect(scanned?.prompt_bytes).toBe(2)
    expect(scanned?.prompt.messages?.[0]).toMatchObject({ role: 'user', content: 'hi', text_bytes: 2 })
  })

  it('has the names of its tools', () => {
    const tools = [{ type: 'function', function: { name: 'ré"ad', parameters: { name: 'no' } } }, { type: 'custom' }]
    const scanned = scan(`{"messages":[${user}],"tools":${JSON.stringify(tools)}}`)
    expect(scanned?.prompt.tools).toEqual([{ function: { name: 'ré"ad' } }, {}])
    expect(scanned?.prompt_bytes).toBe(2 + new TextEncoder().encode(JSON.stringify(tools)).length)
  })

  it('has hints of its messages as far as the bound and no further', () => {
    const hinted = (before: number) => scan(`{"messages":[${`${user},`.repeat(before)}{"role":"user","name":"x"}]}`)
    const messages = hinted(HINT_MESSAGES_MAX - 1)?.fields.messages as object[]
    expect(messages).toHaveLength(HINT_MESSAGES_MAX)
    expect(messages.at(-1)).toEqual({ role: 'user', content: '', name: '' })
    expect(hinted(HINT_MESSAGES_MAX)).toBeNull()
  })

  it.each([
    ['a message', 3, (inner: string) => `{"messages":[{"role":"user","audio":${inner}}]}`],
    ['a part', 5, (inner: string) => `{"messages":[{"role":"user","content":[{"type":"file","file":${inner}}]}]}`],
    [
      'a tool call',
      6,
      (inner: string) => `{"messages":[{"role":"user","tool_calls":[{"function":{"name":${inner}}}]}]}`,
    ],
    ['a tool', 4, (inner: string) => `{"messages":[${user}],"tools":[{"function":{"parameters":${inner}}}]}`],
    ['another field', 1, (inner: string) => `{"messages":[${user}],"response_format":${inner}}`],
  ])('is nested in %s as deep as any body and no deeper', (_, levels, body) => {
    const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth)
    expect(scan(body(nested(NESTING_MAX - levels)))).not.toBeNull()
    expect(scan(body(nested(NESTING_MAX - levels + 1)))).toBeNull()
  })

  it.each(['', '{}', '{"model":"m"}', '{"messages":[]}', '{"messages":[{}]}', '[]', 'null'])('is none: %s', (body) => {
    expect(scan(body)).toBeNull()
  })
})
