import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, test } from 'vitest'
import { ownerOf } from '../../src/processes/owner.ts'
import { testFolder } from '../system/test-folder.ts'
import { objectsFolder } from './process-folder.ts'
import { spreadObjects } from './spread-objects.ts'

const CLASS = 'switchyard-ProgramActor'
const OBJECTS = 24
/** Ids as workerd makes them: 64 hexadecimal digits. */
const ids = Array.from({ length: OBJECTS }, (_, n) =>
  (n * 0x9e3779b1).toString(16).padStart(8, '0').slice(-8).padEnd(64, '0'),
)
/** In nanoseconds. */
const ALARM_AT = 1_790_000_000_123_456_789n

/** A state as one process leaves it: databases, some with a log, and an alarm for every third. */
function stateOfOne(): string {
  const state = testFolder()
  const folder = path.join(objectsFolder(state, 0), CLASS)
  mkdirSync(folder, { recursive: true })
  for (const [n, id] of ids.entries()) {
    writeFileSync(path.join(folder, `${id}.sqlite`), `database ${n}`)
    if (n % 2 === 0) writeFileSync(path.join(folder, `${id}.sqlite-wal`), `log ${n}`)
  }
  const alarms = new DatabaseSync(path.join(folder, 'metadata.sqlite'))
  alarms.exec(
    'CREATE TABLE _cf_ALARM (actor_id TEXT PRIMARY KEY, scheduled_time INTEGER, actor_name TEXT) WITHOUT ROWID',
  )
  const insert = alarms.prepare('INSERT INTO _cf_ALARM VALUES (?, ?, ?)')
  for (const [n, id] of ids.entries()) if (n % 3 === 0) insert.run(id, ALARM_AT + BigInt(n), `program ${n}`)
  alarms.close()
  return state
}

function alarmsIn(folder: string): unknown[] {
  const file = path.join(folder, 'metadata.sqlite')
  if (!existsSync(file)) return []
  const database = new DatabaseSync(file)
  const select = database.prepare('SELECT * FROM _cf_ALARM ORDER BY actor_id')
  select.setReadBigInts(true)
  const rows = select.all()
  database.close()
  return rows
}

/** Every object, its log and its alarm are with the process that owns it, and nowhere else. */
function isSpread(state: string, processes: number): void {
  for (const [n, id] of ids.entries()) {
    for (let index = 0; index < 4; index += 1) {
      const folder = path.join(objectsFolder(state, index), CLASS)
      const isOwner = ownerOf(id, processes) === index
      const names = existsSync(folder) ? readdirSync(folder).filter((name) => name.startsWith(id)) : []
      expect(names.sort()).toEqual(
        !isOwner ? [] : n % 2 === 0 ? [`${id}.sqlite`, `${id}.sqlite-wal`] : [`${id}.sqlite`],
      )
      if (isOwner) expect(readFileSync(path.join(folder, `${id}.sqlite`), 'utf8')).toBe(`database ${n}`)
      const own = alarmsIn(folder).filter((row) => (row as { actor_id: string }).actor_id === id)
      const alarm = { actor_id: id, scheduled_time: ALARM_AT + BigInt(n), actor_name: `program ${n}` }
      expect(own).toEqual(isOwner && n % 3 === 0 ? [alarm] : [])
    }
  }
}

test('objects, their logs and their alarms go to their owners, and back to one process', async () => {
  const state = stateOfOne()
  expect(await spreadObjects(state, 1)).toBe(0)
  isSpread(state, 1)
  const strangers = ids.filter((id) => ownerOf(id, 3) !== 0).length
  expect(strangers).toBeGreaterThan(OBJECTS / 3)
  expect(await spreadObjects(state, 3)).toBe(strangers)
  isSpread(state, 3)
  expect(await spreadObjects(state, 3)).toBe(0)
  await spreadObjects(state, 2)
  isSpread(state, 2)
  expect(existsSync(path.join(state, 'process-2'))).toBe(false)
  await spreadObjects(state, 1)
  isSpread(state, 1)
  expect(readdirSync(state)).toEqual(['do'])
})

test('a start that was ended between a log and its database is completed by the next one', async () => {
  const state = stateOfOne()
  const id = ids.find((one, n) => n % 2 === 0 && ownerOf(one, 3) === 1) ?? expect.unreachable()
  const [from, to] = [0, 1].map((index) => path.join(objectsFolder(state, index), CLASS)) as [string, string]
  mkdirSync(to, { recursive: true })
  renameSync(path.join(from, `${id}.sqlite-wal`), path.join(to, `${id}.sqlite-wal`))
  await spreadObjects(state, 3)
  isSpread(state, 3)
})
