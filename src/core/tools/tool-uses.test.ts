import { describe, expect, it } from 'vitest'
import { toolUses } from './tool-uses.ts'

const asked = (...names: string[]) => ({ names, expected_us: null })

describe('the tools of a call', () => {
  it('are those that its answer asked for, each with the first result of its name that is left', () => {
    const results = [
      { name: 'read', tokens: 7 },
      { name: 'read', tokens: 8 },
      { name: 'invented', tokens: 9 },
    ]
    const call = { tools: asked('search', 'read', 'read'), returned: { at_ms: 1500, results }, ended_at_ms: 1000 }
    expect(toolUses(call)).toEqual({
      tools: [
        { name: 'search', answer_tokens: null },
        { name: 'read', answer_tokens: 7 },
        { name: 'read', answer_tokens: 8 },
      ],
      duration_us: 500_000,
    })
  })

  it('are none where the answer asked for none, whatever the client sends', () => {
    const returned = { at_ms: 1000, results: [{ name: 'invented', tokens: 9 }] }
    expect(toolUses({ tools: asked(), returned, ended_at_ms: 1000 })).toEqual({ tools: [], duration_us: 0 })
  })

  it('are what came back where no record says', () => {
    const returned = { at_ms: 1000, results: [{ name: 'search', tokens: 9 }] }
    const { tools } = toolUses({ tools: null, returned, ended_at_ms: 0 })
    expect(tools).toEqual([{ name: 'search', answer_tokens: 9 }])
  })

  it('have no duration before they return, and none below 0 when a clock is set back', () => {
    expect(toolUses({ tools: asked('a'), returned: null, ended_at_ms: 1000 }).duration_us).toBeNull()
    const early = { at_ms: 10, results: [] }
    expect(toolUses({ tools: asked('a'), returned: early, ended_at_ms: 1000 }).duration_us).toBe(0)
    expect(toolUses({ tools: asked('a'), returned: early, ended_at_ms: null }).duration_us).toBe(0)
  })
})
