/**
 * Puts the files of every Durable Object where the process is that has it, before any process runs: after a start with
 * another number of processes, of which one counts too. An object is a database file, and its alarm a row in its class's
 * `metadata.sqlite`. What was moved is where it belongs, so a start that was ended on the way is simply repeated.
 */
import { existsSync } from 'node:fs'
import { mkdir, readdir, rename, rm } from 'node:fs/promises'
import path from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { ownerOf } from '../../src/processes/owner.ts'
import { objectsFolder, processFolder, processIndexes } from './process-folder.ts'

const OBJECT_FILE = /^([0-9a-f]{64})\.sqlite(-wal|-shm)?$/
const ALARMS = 'metadata.sqlite'
/** As workerd makes it. */
const ALARM_TABLE = `CREATE TABLE IF NOT EXISTS _cf_ALARM (
      actor_id TEXT PRIMARY KEY,
      scheduled_time INTEGER,
      actor_name TEXT
    ) WITHOUT ROWID`

interface Alarm {
  actor_id: string
  /** In nanoseconds: more than a number holds. */
  scheduled_time: bigint
  actor_name: string | null
}

/** How many objects were moved. Nothing may have the state open. */
export async function spreadObjects(stateFolder: string, processes: number): Promise<number> {
  const used = [0, ...processIndexes(await namesIn(stateFolder))]
  let moved = 0
  for (const index of used) {
    for (const name of await namesIn(objectsFolder(stateFolder, index)))
      moved += await spreadClass(stateFolder, name, index, processes)
  }
  // Those that are of no use any more are empty but for what workerd made for itself.
  for (const index of used.filter((one) => one >= processes))
    await rm(processFolder(stateFolder, index), { recursive: true, force: true })
  return moved
}

async function spreadClass(stateFolder: string, name: string, index: number, processes: number): Promise<number> {
  const from = path.join(objectsFolder(stateFolder, index), name)
  const folderOf = (owner: number) => path.join(objectsFolder(stateFolder, owner), name)
  const strangers = (await namesIn(from)).filter((file) => {
    const id = OBJECT_FILE.exec(file)?.[1]
    return id !== undefined && ownerOf(id, processes) !== index
  })
  await moveAlarms(from, folderOf, index, processes)
  let moved = 0
  // A log before its database: with one that lies apart from its log the last writes would be gone.
  for (const file of strangers.sort().reverse()) {
    const to = folderOf(ownerOf(file, processes))
    await mkdir(to, { recursive: true, mode: 0o700 })
    await rename(path.join(from, file), path.join(to, file))
    if (file.endsWith('.sqlite')) moved += 1
  }
  return moved
}

/** Those first: an object without its alarm could sleep for ever, and an alarm without its object is asked for and finds nothing. */
async function moveAlarms(
  from: string,
  folderOf: (owner: number) => string,
  index: number,
  processes: number,
): Promise<void> {
  if (!existsSync(path.join(from, ALARMS))) return
  const here = new DatabaseSync(path.join(from, ALARMS))
  try {
    here.exec(ALARM_TABLE)
    const select = here.prepare('SELECT actor_id, scheduled_time, actor_name FROM _cf_ALARM')
    select.setReadBigInts(true)
    const alarms = select.all() as unknown as Alarm[]
    const strangers = Map.groupBy(alarms, ({ actor_id }) => ownerOf(actor_id, processes))
    strangers.delete(index)
    for (const [owner, theirs] of strangers) {
      const to = folderOf(owner)
      await mkdir(to, { recursive: true, mode: 0o700 })
      writeAlarms(path.join(to, ALARMS), theirs)
      const remove = here.prepare('DELETE FROM _cf_ALARM WHERE actor_id = ?')
      for (const { actor_id } of theirs) remove.run(actor_id)
    }
  } finally {
    here.close()
  }
}

function writeAlarms(file: string, alarms: readonly Alarm[]): void {
  const there = new DatabaseSync(file)
  try {
    there.exec('PRAGMA journal_mode = WAL')
    there.exec(ALARM_TABLE)
    const insert = there.prepare('INSERT OR REPLACE INTO _cf_ALARM VALUES (?, ?, ?)')
    for (const { actor_id, scheduled_time, actor_name } of alarms) insert.run(actor_id, scheduled_time, actor_name)
  } finally {
    there.close()
  }
}

async function namesIn(folder: string): Promise<string[]> {
  try {
    return await readdir(folder)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw error
  }
}
