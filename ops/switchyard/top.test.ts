import { expect, it } from 'vitest'
import { type ListedProgram, nextSort, SORT_NAMES, topLines, typedFilter, type View } from './top.ts'

const NOW_MS = Date.parse('2026-11-23T12:00:00.000Z')
const VIEW: View = { sort: 'service', filter: '', columns: 200, rows: 20 }

function program(id: string, changes: Partial<ListedProgram> = {}): ListedProgram {
  const times = { started_at: '2026-11-23T11:00:00.000Z', last_call_arrival: '2026-11-23T11:59:55.000Z' }
  return { id, app: null, ...times, calls: 1, open_calls: 0, service_s: 1, position: null, ...changes }
}

const PROGRAMS = [
  program('slow', { service_s: 9, calls: 2 }),
  program('busy', {
    ...{ open_calls: 3, calls: 7, app: 'research' },
    position: { waits: true, waited_s: 2, before: 4, order: 'Q2 of 22' },
  }),
  program('new', { calls: 0, service_s: 0, last_call_arrival: null, started_at: '2026-11-23T11:59:59.000Z' }),
]

it('sums up and lists programs, the one with the most service first', () => {
  const lines = topLines(PROGRAMS, false, VIEW, NOW_MS)
  expect(lines[0]).toBe('3 programs: 1 reasoning, 1 acting; 3 open calls. By service.')
  expect(lines.slice(3).map((line) => line.split(/ +/)[0])).toEqual(['slow', 'busy', 'new'])
  expect(lines[4]).toMatch(/^busy +research +reasoning +3 +7 +1\.00 +1 h 0 min +5 s +waits 2\.00 s, 4 first; Q2 of 22$/)
})

it('sorts in every way, filters by id and app, and fits the terminal', () => {
  const ids = (view: Partial<View>) =>
    topLines(PROGRAMS, false, { ...VIEW, ...view }, NOW_MS)
      .slice(3)
      .map((line) => line.split(/ +/)[0])
  expect(ids({ sort: 'calls' })).toEqual(['busy', 'slow', 'new'])
  expect(ids({ sort: 'started' })[0]).toBe('new')
  expect(ids({ filter: 'research' })).toEqual(['busy'])
  expect(ids({ rows: 6 })).toEqual(['slow', 'busy', '…'])
  expect(topLines(PROGRAMS, true, { ...VIEW, columns: 10 }, NOW_MS).every((line) => line.length <= 10)).toBe(true)
  let sort = SORT_NAMES[0] as View['sort']
  for (const name of [...SORT_NAMES.slice(1), SORT_NAMES[0]]) {
    sort = nextSort(sort)
    expect(sort).toBe(name)
  }
})

it('says what to do where there is nothing', () => {
  expect(topLines([], false, VIEW, NOW_MS).at(-1)).toContain('The first call with an X-Program-Id starts one')
})

it('takes a filter as it is typed', () => {
  const keys: [string, string?][] = [['r'], ['e'], ['x'], ['\x7f', 'backspace'], ['s'], ['\x1b[A', 'up']]
  const typed = keys.reduce((filter, [text, key]) => typedFilter(filter, text, key).filter, '')
  expect(typed).toBe('res')
  expect(typedFilter('res', '\r', 'return')).toEqual({ filter: 'res', over: true })
  expect(typedFilter('res', '\x1b', 'escape')).toEqual({ filter: '', over: true })
})
