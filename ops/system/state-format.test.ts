import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { dataDir } from './data-dir.ts'
import {
  BACKUP_VARIABLE,
  BACKUPS_KEPT_MAX,
  knownFormat,
  markProcesses,
  prepareState,
  type StateFormat,
} from './state-format.ts'
import { testFolder } from './test-folder.ts'

const EARLIER: StateFormat = { d1: ['0000_a.sql'], program: ['0000_p.sql'] }
const LATER: StateFormat = { d1: ['0000_a.sql'], program: ['0000_p.sql', '0001_q.sql'] }

function placeWith(rows: string | null) {
  const place = dataDir(testFolder())
  if (rows !== null) write(place.state, rows)
  return place
}

function write(state: string, rows: string): void {
  mkdirSync(path.join(state, 'd1'), { recursive: true })
  writeFileSync(path.join(state, 'd1', 'rows.sqlite'), rows)
}

const rowsOf = (state: string): string => readFileSync(path.join(state, 'd1', 'rows.sqlite'), 'utf8')

test('this version knows migrations of D1 and of every kind of actor', async () => {
  const known = await knownFormat(path.join(import.meta.dirname, '..', '..'))
  expect(known.d1?.[0]).toBe('0000_init.sql')
  expect(known.program?.[0]).toBe('0000_init.sql')
  expect(Object.values(known).every((names) => names.length > 0)).toBe(true)
})

test('a new data directory has nothing to copy, and the next start of the same version neither', async () => {
  const place = placeWith(null)
  expect(await prepareState(place, EARLIER)).toEqual({ status: 'fresh' })
  write(place.state, 'one')
  expect(await prepareState(place, EARLIER)).toEqual({ status: 'current' })
  expect(existsSync(place.backups)).toBe(false)
})

test('a state of several processes says so until it is one again, through upgrades too', async () => {
  const place = placeWith('one')
  const format = () => JSON.parse(readFileSync(path.join(place.state, 'format.json'), 'utf8')) as StateFormat
  await prepareState(place, EARLIER)
  await markProcesses(place, 3)
  // A version from before there were several compares all that is there, and does not know this.
  expect(format()).toEqual({ ...EARLIER, processes: ['several'] })
  expect(await prepareState(place, EARLIER)).toEqual({ status: 'current' })
  expect(await prepareState(place, LATER)).toMatchObject({ status: 'upgraded' })
  expect(format()).toEqual({ ...LATER, processes: ['several'] })
  await markProcesses(place, 1)
  expect(format()).toEqual(LATER)
})

test('a state without a format, and one of an earlier version, is copied whole before it is changed', async () => {
  const place = placeWith('one')
  const first = await prepareState(place, EARLIER)
  expect(first).toMatchObject({ status: 'upgraded', bytes: 3 })
  write(place.state, 'two')
  const second = await prepareState(place, LATER)
  expect(second).toMatchObject({ status: 'upgraded' })
  write(place.state, 'three')
  expect(await prepareState(place, LATER)).toEqual({ status: 'current' })
  const kept = [first, second].map((one) => ('backup' in one ? rowsOf(one.backup ?? '') : null))
  expect(kept).toEqual(['one', 'two'])
})

test('the state of a later version is refused, unchanged, and the copy that can be used is named', async () => {
  const place = placeWith('one')
  await prepareState(place, EARLIER)
  write(place.state, 'two')
  const upgraded = await prepareState(place, LATER)
  write(place.state, 'three')
  const format = readFileSync(path.join(place.state, 'format.json'), 'utf8')
  const refusal = await prepareState(place, EARLIER).then(
    () => '',
    (error: Error) => error.message,
  )
  expect(refusal).toContain('later version of Switchyard (program/0001_q.sql)')
  expect(refusal).toContain(`cp -a ${'backup' in upgraded ? upgraded.backup : '?'} ${place.state}`)
  expect([rowsOf(place.state), readFileSync(path.join(place.state, 'format.json'), 'utf8')]).toEqual(['three', format])
})

test('without a copy the refusal says so', async () => {
  const place = placeWith(null)
  await prepareState(place, LATER)
  write(place.state, 'one')
  await expect(prepareState(place, EARLIER)).rejects.toThrow(/There is no copy from before the upgrade/)
})

test('no copy is made where the operator has made one', async () => {
  const place = placeWith('one')
  expect(await prepareState(place, EARLIER, { [BACKUP_VARIABLE]: 'off' })).toMatchObject({ backup: null })
  expect(existsSync(place.backups)).toBe(false)
})

test(`keeps the ${BACKUPS_KEPT_MAX} newest copies`, async () => {
  const place = placeWith('0')
  const names: string[] = []
  for (let at = 1; at <= BACKUPS_KEPT_MAX + 1; at++) {
    names.push(`000${at}.sql`)
    await prepareState(place, { d1: names })
    write(place.state, `${at}`)
    // Their names have milliseconds.
    await new Promise((resolve) => setTimeout(resolve, 2))
  }
  const kept = readdirSync(place.backups).sort()
  expect(kept.map((name) => rowsOf(path.join(place.backups, name)))).toEqual(['1', '2', '3'])
})

test('a damaged format is refused', async () => {
  const place = placeWith('one')
  await prepareState(place, EARLIER)
  writeFileSync(path.join(place.state, 'format.json'), '{')
  await expect(prepareState(place, EARLIER)).rejects.toThrow(/format\.json is damaged/)
})
