import { describe, expect, it } from 'vitest'
import { TOOLS_PER_CALL_MAX } from '../../protocol/index.ts'
import { TOOL_TIMES_CHARS_MAX, toolTimes } from './tool-times.ts'

describe('what a client measured of its tools', () => {
  it('is read by name, in milliseconds', () => {
    expect(toolTimes('web-search;dur=120, read;dur=8')).toEqual([
      { name: 'web-search', duration_us: 120_000 },
      { name: 'read', duration_us: 8_000 },
    ])
    expect([toolTimes(null), toolTimes('')]).toEqual([[], []])
  })

  it('is passed over where it does not fit', () => {
    const odd = 'a;dur=-1, b, ;dur=5, c;dur=1e9, d;dur=1.5, e;dur=99999999999, f;dur=90000000, g;dur=7;dur=8, h h;dur=2'
    expect(toolTimes(odd)).toEqual([
      { name: 'g', duration_us: 7_000 },
      { name: 'h_h', duration_us: 2_000 },
    ])
  })

  it('is bounded', () => {
    const many = Array.from({ length: 2 * TOOLS_PER_CALL_MAX }, (_, at) => `t${at};dur=1`).join(',')
    expect(toolTimes(many)).toHaveLength(TOOLS_PER_CALL_MAX)
    expect(toolTimes(`${'x'.repeat(TOOL_TIMES_CHARS_MAX)};dur=1`)).toEqual([])
  })
})
