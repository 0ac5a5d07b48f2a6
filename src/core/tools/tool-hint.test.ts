import { describe, expect, it } from 'vitest'
import { HINTS_CHARS_MAX, TOOL_HINT_S_MAX, toolHint } from './tool-hint.ts'

const none = () => null
const header = (value: string) => (name: string) => (name === 'x-program-hints' ? value : null)
const us = (expect_tool_us: number | null) => ({ ok: true, expect_tool_us })

describe('a client’s hint', () => {
  it('is a number of seconds in metadata', () => {
    expect(toolHint(null, none)).toEqual(us(null))
    expect(toolHint({ other: 'x' }, none)).toEqual(us(null))
    expect(toolHint({ expect_tool_s: '0' }, none)).toEqual(us(0))
    expect(toolHint({ expect_tool_s: '2.5' }, none)).toEqual(us(2_500_000))
    expect(toolHint({ expect_tool_s: '1e-05' }, none)).toEqual(us(10))
    expect(toolHint({ expect_tool_s: `${TOOL_HINT_S_MAX}` }, none)).toMatchObject({ ok: true })
  })

  it('is one of the hints in the header of the client libraries, and metadata counts first', () => {
    expect(toolHint(null, header('expect_tool_s=2.5'))).toEqual(us(2_500_000))
    expect(toolHint({ a: 'b' }, header('other=1,  expect_tool_s=3 , more=2'))).toEqual(us(3_000_000))
    expect(toolHint({ expect_tool_s: '1' }, header('expect_tool_s=2'))).toEqual(us(1_000_000))
    expect(toolHint(null, header('not_expect_tool_s=soon'))).toEqual(us(null))
  })

  it.each(['', ' 1', '-1', 'NaN', 'Infinity', '1.', '.5', '0x10', '1e999', `${TOOL_HINT_S_MAX}.000001`])(
    'of %j is refused by its name and its bounds',
    (expect_tool_s) => {
      const refused = toolHint({ expect_tool_s }, none)
      expect(refused).toMatchObject({ ok: false, param: 'metadata.expect_tool_s' })
      expect(!refused.ok && refused.message).toContain(`0 to ${TOOL_HINT_S_MAX}`)
    },
  )

  it('is refused in a header that is malformed or too long', () => {
    const refused = { ok: false, param: 'X-Program-Hints' }
    expect(toolHint(null, header('expect_tool_s=soon'))).toMatchObject(refused)
    expect(toolHint(null, header('x'.repeat(HINTS_CHARS_MAX)))).toEqual(us(null))
    expect(toolHint(null, header('x'.repeat(HINTS_CHARS_MAX + 1)))).toMatchObject(refused)
  })
})
