import { describe, expect, it } from 'vitest'
import type { ToolResult, ToolTime } from '../../protocol/index.ts'
import { toolUses } from './tool-uses.ts'

const asked = (...names: string[]) => ({ names, expected_us: null, handled: null })
const came = (at_ms: number, results: ToolResult[] = [], times: ToolTime[] = []) => ({ at_ms, results, times })
const lost = { returned: false, answer_tokens: null, duration_us: null }

describe('the tools of a call', () => {
  it('are those that its answer asked for, each with the first result of its name that is left', () => {
    const results = [
      { name: 'read', tokens: 7 },
      { name: 'read', tokens: 8 },
      { name: 'invented', tokens: 9 },
    ]
    const call = { tools: asked('search', 'read', 'read'), returned: came(1500, results), ended_at_ms: 1000 }
    expect(toolUses(call)).toEqual({
      tools: [
        { ...lost, name: 'search' },
        { name: 'read', returned: true, answer_tokens: 7, duration_us: null },
        { name: 'read', returned: true, answer_tokens: 8, duration_us: null },
      ],
      duration_us: 500_000,
    })
  })

  it('took the time to the next call where one ran alone, or what the client measured', () => {
    const results = [{ name: 'search', tokens: 9 }]
    const alone = toolUses({ tools: asked('search'), returned: came(1500, results), ended_at_ms: 1000 })
    expect(alone.tools).toEqual([{ name: 'search', returned: true, answer_tokens: 9, duration_us: 500_000 }])
    const times = [
      { name: 'read', duration_us: 20_000 },
      { name: 'search', duration_us: 300_000 },
    ]
    const both = toolUses({ tools: asked('search', 'read'), returned: came(1500, results, times), ended_at_ms: 1000 })
    expect(both.tools).toEqual([
      { name: 'search', returned: true, answer_tokens: 9, duration_us: 300_000 },
      { name: 'read', returned: true, answer_tokens: null, duration_us: 20_000 },
    ])
  })

  it('are no results that the answer did not ask for, and what the client measured where it asked for nothing', () => {
    const results = [{ name: 'invented', tokens: 9 }]
    expect(toolUses({ tools: asked(), returned: came(1000, results), ended_at_ms: 1000 })).toEqual({
      tools: [],
      duration_us: 0,
    })
    const times = [{ name: 'search', duration_us: 300_000 }]
    const measured = toolUses({ tools: asked(), returned: came(1000, results, times), ended_at_ms: 0 })
    expect(measured.tools).toEqual([{ name: 'search', returned: true, answer_tokens: null, duration_us: 300_000 }])
  })

  it('are what came back where no record says', () => {
    const returned = came(1000, [{ name: 'search', tokens: 9 }])
    const { tools } = toolUses({ tools: null, returned, ended_at_ms: 0 })
    expect(tools).toMatchObject([{ name: 'search', answer_tokens: 9 }])
  })

  it('have no duration before they return, and none below 0 when a clock is set back', () => {
    expect(toolUses({ tools: asked('a'), returned: null, ended_at_ms: 1000 })).toEqual({
      tools: [{ ...lost, name: 'a' }],
      duration_us: null,
    })
    expect(toolUses({ tools: asked('a'), returned: came(10), ended_at_ms: 1000 }).duration_us).toBe(0)
    expect(toolUses({ tools: asked('a'), returned: came(10), ended_at_ms: null }).duration_us).toBe(0)
  })
})
