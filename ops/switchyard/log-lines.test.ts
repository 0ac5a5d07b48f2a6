import { expect, it } from 'vitest'
import { fits, type LogFilter, readLogLine, shownLine } from './log-lines.ts'

const AT = '2026-11-23T12:00:00.000Z'
const BEFORE = '2026-11-23T11:00:00.000Z'
const ALL: LogFilter = { level: 'debug', source: null, tenant: null, program: null }

function line(text: string, source = 'control-plane') {
  const read = readLogLine(source, text, BEFORE)
  if (read === null) throw new Error('the line is empty')
  return read
}

it('reads every kind of line that the logs of a system have', () => {
  expect(line(`{"at":"${AT}","level":"error","event":"flush_failed","error":"disk full"}`)).toEqual({
    ...{ at: AT, source: 'control-plane', level: 'error', text: 'flush_failed', fields: { error: 'disk full' } },
  })
  // An agent's events have no level.
  expect(line(`{"event":"linked","model":"m","at":"${AT}"}`, 'us-1')).toMatchObject({
    level: 'info',
    fields: { model: 'm' },
  })
  expect(line(`{"event":"engine_failed","at":"${AT}"}`)).toMatchObject({ level: 'warn' })
  expect(line(`--- ${AT} us-1 (pid 7) starts`)).toMatchObject({ at: AT, level: 'info', text: 'us-1 (pid 7) starts' })
  expect(line(`--- ${AT} us-1 was ended by SIGKILL`)).toMatchObject({ level: 'warn' })
  expect(line(`--- ${AT} us-1 exited with 0`)).toMatchObject({ level: 'info' })
  expect(line(`${AT} ready after 5.9 s`, 'up')).toMatchObject({ at: AT, text: 'ready after 5.9 s' })
  expect(line('    at file.ts:3:1')).toEqual({
    ...{ at: BEFORE, source: 'control-plane', level: 'warn', text: '    at file.ts:3:1', fields: {} },
  })
  expect(line('{"not":"an event"}')).toMatchObject({ level: 'warn', text: '{"not":"an event"}' })
  expect(readLogLine('up', '', BEFORE)).toBeNull()
})

it('filters by level, process, tenant and program', () => {
  const call = line(`{"at":"${AT}","level":"info","event":"call","tenant":"acme","program":"p","ms":12}`)
  expect(fits(call, ALL)).toBe(true)
  expect(fits(call, { ...ALL, level: 'info', source: 'control-plane', tenant: 'acme', program: 'p' })).toBe(true)
  for (const other of [{ level: 'warn' as const }, { source: 'up' }, { tenant: 'b' }, { program: 'q' }]) {
    expect(fits(call, { ...ALL, ...other }), JSON.stringify(other)).toBe(false)
  }
})

it('shows a line as text that is easy to search', () => {
  const call = line(`{"at":"${AT}","level":"info","event":"call","program":"a b","ms":12,"engine":null}`)
  expect(shownLine(call)).toBe(`${AT} info  control-plane call program="a b" ms=12 engine=null`)
})
