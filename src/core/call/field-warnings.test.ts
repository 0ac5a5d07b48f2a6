import { describe, expect, it } from 'vitest'
import { fieldWarnings, NO_FIELD_NOTES, WARNINGS_CHARS_MAX, warningsHeader } from './field-warnings.ts'

const noted = (...fields: string[]) => ({ fields: fields.map((field) => ({ field, param: field })), more: 0 })

describe('warnings', () => {
  it('are none where nothing was ignored and every hint is applied', () => {
    expect(fieldWarnings(NO_FIELD_NOTES, null)).toBeNull()
    expect(fieldWarnings({ ignored: noted(), hints: noted('verbosity') }, null)).toBeNull()
  })

  it('tell of ignored fields, and of hints that the agent names', () => {
    const notes = { ignored: { ...noted('store'), more: 2 }, hints: noted('verbosity', 'reasoning_effort') }
    expect(fieldWarnings(notes, 'reasoning_effort, thinking')).toEqual({
      ignored: ['store'],
      not_applied: ['reasoning_effort'],
      more: 2,
    })
  })

  it('name a hint as the client did, not as the engine got it', () => {
    const hint = { field: 'output_config.effort', param: 'output_config.effort', sent_as: 'reasoning_effort' }
    const notes = { ignored: noted(), hints: { fields: [hint], more: 0 } }
    expect(fieldWarnings(notes, 'reasoning_effort')?.not_applied).toEqual(['output_config.effort'])
  })
})

describe('the header', () => {
  it('lists them', () => {
    const warnings = { ignored: ['store', 'messages[].name'], not_applied: ['verbosity'], more: 2 }
    expect(warningsHeader(warnings)).toBe('ignored=store, ignored=messages[].name, not_applied=verbosity, more=2')
    expect(warningsHeader({ ...warnings, more: 0 })).not.toContain('more')
  })

  it('is bounded, and counts what it leaves out', () => {
    const ignored = Array.from({ length: 32 }, (_, index) => `${'x'.repeat(62)}${10 + index}`)
    const header = warningsHeader({ ignored, not_applied: [], more: 5 })
    expect(header.length).toBeLessThanOrEqual(WARNINGS_CHARS_MAX)
    const listed = header.split(', ').filter((entry) => entry.startsWith('ignored=')).length
    expect(header).toMatch(new RegExp(`more=${32 - listed + 5}$`))
    expect(listed).toBeGreaterThan(5)
  })
})
