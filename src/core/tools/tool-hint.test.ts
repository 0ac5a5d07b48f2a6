import { expect, it } from 'vitest'
import { TOOL_HINT_S_MAX, toolHint } from './tool-hint.ts'

it('a hint is a number of seconds', () => {
  expect(toolHint(null)).toEqual({ ok: true, expect_tool_us: null })
  expect(toolHint({ other: 'x' })).toEqual({ ok: true, expect_tool_us: null })
  expect(toolHint({ expect_tool_s: '0' })).toEqual({ ok: true, expect_tool_us: 0 })
  expect(toolHint({ expect_tool_s: '2.5' })).toEqual({ ok: true, expect_tool_us: 2_500_000 })
  expect(toolHint({ expect_tool_s: `${TOOL_HINT_S_MAX}` })).toMatchObject({ ok: true })
})

it.each(['', ' 1', '-1', '1e3', 'NaN', 'Infinity', '1.', '.5', '0x10', '1.1234567', `${TOOL_HINT_S_MAX}.000001`])(
  'a hint of %j is refused by its name and its bounds',
  (expect_tool_s) => {
    const refused = toolHint({ expect_tool_s })
    expect(refused).toMatchObject({ ok: false, param: 'metadata.expect_tool_s' })
    expect(!refused.ok && refused.message).toContain(`0 to ${TOOL_HINT_S_MAX}`)
  },
)
