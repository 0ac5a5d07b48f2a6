/**
 * Which migrations the databases of a data directory have: D1's, and those of each kind of actor. `state/format.json` names
 * them. A later version's state is refused, since this version would not find what was moved. Before an earlier version's
 * state is migrated it is copied to `backups/`, because no migration can be undone.
 */
import { constants, existsSync } from 'node:fs'
import { cp, mkdir, readdir, rename, rm, statfs } from 'node:fs/promises'
import path from 'node:path'
import { z } from 'zod'
import { readFileIfAny, writeFileAtomic } from './atomic-file.ts'
import type { DataDir } from './data-dir.ts'
import { UpRefused } from './explain-error.ts'
import { folderBytes } from './folder-size.ts'
import { withPartialFolder } from './partial-folder.ts'

const FORMAT_FILE = 'format.json'
/** Older copies are removed: each is as large as the state was. */
export const BACKUPS_KEPT_MAX = 3
/** What a start leaves free beside the copy. */
const FREE_BYTES_MIN = 64 * 1024 * 1024
/** Set to `off` by an operator who has made a copy. */
export const BACKUP_VARIABLE = 'SWITCHYARD_UPGRADE_BACKUP'
const ACTOR_MIGRATIONS = 'src/actors/storage/migrations'
/** Beside the databases: objects lie in a folder for each process. A version that knows one process refuses such a state. */
const SEVERAL = { processes: ['several'] }

/** Names of migrations, by database. */
const StateFormat = z.record(z.string(), z.array(z.string()))
export type StateFormat = z.infer<typeof StateFormat>

export type Prepared =
  | { status: 'fresh' | 'current' }
  /** `backup` null: the operator wanted none. */
  | { status: 'upgraded'; backup: string | null; bytes: number }

/** What this version's migrations make of a state. `root`: the repository. */
export async function knownFormat(root: string): Promise<StateFormat> {
  const actors = path.join(root, ACTOR_MIGRATIONS)
  const kinds = (await readdir(actors, { withFileTypes: true })).filter((entry) => entry.isDirectory())
  const formats = await Promise.all(
    kinds.map(async ({ name }) => [name, await migrationsIn(path.join(actors, name))] as const),
  )
  return { d1: await migrationsIn(path.join(root, 'migrations')), ...Object.fromEntries(formats) }
}

async function migrationsIn(folder: string): Promise<string[]> {
  return (await readdir(folder)).filter((name) => name.endsWith('.sql')).sort()
}

/** To be called before anything opens the state. Throws UpRefused for a later version's state, and where no copy can be made. */
export async function prepareState(
  place: DataDir,
  known: StateFormat,
  env: Readonly<Record<string, string | undefined>> = process.env,
): Promise<Prepared> {
  const hasState = existsSync(path.join(place.state, 'd1'))
  const stored = hasState ? await migrationsOf(place.state) : null
  if (stored !== null) {
    const unknown = beyond(stored, known)
    if (unknown.length > 0) throw new UpRefused(await ofLaterVersion(place, unknown, known))
    if (beyond(known, stored).length === 0) return { status: 'current' }
  }
  const copied = hasState ? await backUp(place, env) : null
  await mkdir(place.state, { recursive: true })
  const several = hasState && (await formatOf(place.state))?.processes !== undefined ? SEVERAL : {}
  await writeFileAtomic(path.join(place.state, FORMAT_FILE), `${JSON.stringify({ ...known, ...several }, null, 2)}\n`)
  return copied === null ? { status: 'fresh' } : { status: 'upgraded', ...copied }
}

/** Before objects are spread over several processes, and after all are back in one. */
export async function markProcesses({ state }: DataDir, processes: number): Promise<void> {
  const stored = (await formatOf(state)) ?? {}
  const { processes: _, ...rest } = stored
  if ((stored.processes !== undefined) === processes > 1) return
  const marked = processes > 1 ? { ...rest, ...SEVERAL } : rest
  await writeFileAtomic(path.join(state, FORMAT_FILE), `${JSON.stringify(marked, null, 2)}\n`)
}

/** Without what `markProcesses` wrote: this version knows both. */
async function migrationsOf(state: string): Promise<StateFormat | null> {
  const stored = await formatOf(state)
  if (stored === null) return null
  const { processes: _, ...migrations } = stored
  return migrations
}

/** Null: written by a version that named no format, so earlier than this one. */
async function formatOf(state: string): Promise<StateFormat | null> {
  const file = path.join(state, FORMAT_FILE)
  const text = await readFileIfAny(file)
  if (text === null) return null
  try {
    return StateFormat.parse(JSON.parse(text))
  } catch (error) {
    throw new UpRefused(`${file} is damaged. Copy it, or all of ${state}, back from a backup.`, { cause: error })
  }
}

/** Migrations of `one` that `other` does not have. */
function beyond(one: StateFormat, other: StateFormat): string[] {
  return Object.entries(one).flatMap(([database, names]) => {
    const had = new Set(other[database])
    return names.filter((name) => !had.has(name)).map((name) => `${database}/${name}`)
  })
}

async function backUp(
  place: DataDir,
  env: Readonly<Record<string, string | undefined>>,
): Promise<{ backup: string | null; bytes: number }> {
  if (env[BACKUP_VARIABLE] === 'off') return { backup: null, bytes: 0 }
  const bytes = await folderBytes(place.state)
  const { bavail, bsize } = await statfs(place.root)
  const free_bytes = bavail * bsize
  if (free_bytes < bytes + FREE_BYTES_MIN) throw new UpRefused(noRoom(place, bytes, free_bytes))
  const name = new Date().toISOString().replaceAll(/[:.]/g, '-')
  const backup = path.join(place.backups, name)
  await withPartialFolder(place.backups, async (partial) => {
    const copy = path.join(partial, name)
    // A file system that can share blocks makes the copy at once and for nothing.
    await cp(place.state, copy, { recursive: true, preserveTimestamps: true, mode: constants.COPYFILE_FICLONE })
    await rename(copy, backup)
  })
  for (const old of (await backups(place)).slice(BACKUPS_KEPT_MAX)) await rm(old, { recursive: true })
  return { backup, bytes }
}

/** For people, of the event with which the control plane reports an upgrade. */
export function upgradeNote({ backup, bytes }: Readonly<Record<string, unknown>>): string {
  const copied = typeof backup === 'string' ? `copied to ${backup} first (${megabytes(Number(bytes))})` : 'not copied'
  return `The state of an earlier version is upgraded. It was ${copied}.`
}

/** The newest first. */
async function backups({ backups }: DataDir): Promise<string[]> {
  if (!existsSync(backups)) return []
  const names = (await readdir(backups)).filter((name) => !name.startsWith('.'))
  return names
    .sort()
    .reverse()
    .map((name) => path.join(backups, name))
}

const megabytes = (bytes: number): string => `${Math.ceil(bytes / 1e6)} MB`

function noRoom(place: DataDir, bytes: number, free_bytes: number): string {
  return (
    `This version changes the databases in ${place.state} and copies them first: ${megabytes(bytes)}, and the disk has ` +
    `${megabytes(free_bytes)} free. Nothing was changed. Free some space, or copy ${place.state} elsewhere and start with ` +
    `${BACKUP_VARIABLE}=off.`
  )
}

async function ofLaterVersion(place: DataDir, unknown: readonly string[], known: StateFormat): Promise<string> {
  const { state } = place
  const written = `${state} was written by a later version of Switchyard (${unknown.join(', ')}). Nothing was changed.`
  for (const backup of await backups(place)) {
    const stored = await migrationsOf(backup)
    if (stored !== null && beyond(stored, known).length > 0) continue
    const commands = `mv ${state} ${state}-later && cp -a ${backup} ${state}`
    return `${written}\nStart that version, or go back to the copy made before the upgrade. It knows nothing of what was served since:\n  ${commands}`
  }
  return `${written}\nStart that version. There is no copy from before the upgrade in ${place.backups}.`
}
