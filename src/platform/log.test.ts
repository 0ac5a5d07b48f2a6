import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { isLogged, log, logFailure, MESSAGE_CHARS_MAX, setLogLevel } from './log.ts'

const lines: Record<string, unknown>[] = []

beforeEach(() => {
  lines.length = 0
  for (const method of ['log', 'warn', 'error'] as const) {
    vi.spyOn(console, method).mockImplementation((line: string) => {
      lines.push(JSON.parse(line))
    })
  }
})
afterEach(() => {
  setLogLevel(undefined)
  vi.restoreAllMocks()
})

it.each([
  [undefined, ['warn', 'error']],
  ['nonsense', ['warn', 'error']],
  ['debug', ['debug', 'info', 'warn', 'error']],
  ['info', ['info', 'warn', 'error']],
  ['error', ['error']],
  ['off', []],
])('level %s writes %j', (level, written) => {
  setLogLevel(level)
  for (const one of ['debug', 'info', 'warn', 'error'] as const) {
    log(one, 'happened', { call: 'c' })
    expect(isLogged(one)).toBe(written.includes(one))
  }
  const at = expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/)
  expect(lines).toEqual(written.map((one) => ({ at, level: one, event: 'happened', call: 'c' })))
})

it('a failed statement’s values are not told', () => {
  logFailure('flush_failed', new Error('Failed query: insert into "keys" values (?, ?)\nparams: k,{"answer":"secret"}'))
  expect(lines).toEqual([
    {
      at: expect.any(String),
      ...{ level: 'error', event: 'flush_failed', error: 'Failed query: insert into "keys" values (?, ?)' },
    },
  ])
})

it(`a message is cut at ${MESSAGE_CHARS_MAX} characters`, () => {
  for (const chars of [MESSAGE_CHARS_MAX, MESSAGE_CHARS_MAX + 1]) logFailure('e', 'x'.repeat(chars))
  expect(lines.map(({ error }) => (error as string).length)).toEqual([MESSAGE_CHARS_MAX, MESSAGE_CHARS_MAX])
})
