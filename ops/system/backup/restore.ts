/**
 * Puts a backup where a system starts from it. Nothing is overwritten: what lies there is moved aside. All copying comes
 * before that, so a restore that is cut off has changed nothing, or the same command again finishes it.
 */
import { existsSync } from 'node:fs'
import { chmod, cp, mkdir, readdir, rename, rm } from 'node:fs/promises'
import path from 'node:path'
import type { DataDir } from '../data-dir.ts'
import { UpRefused } from '../explain-error.ts'
import { acquireLock } from '../lock.ts'
import { withPartialFolder } from '../partial-folder.ts'
import { checkBackup, type Manifest } from './manifest.ts'

/** What a backup has. */
const PARTS = ['state', 'agents', 'secrets.json'] as const

export interface Restored extends Manifest {
  /** Where what lay there before is. Null: nothing did. */
  replaced: string | null
}

/** Throws UpRefused for what the user can fix. */
export async function restore(place: DataDir, from: string): Promise<Restored> {
  const backup = path.resolve(from)
  const checked = await checkBackup(backup)
  if (checked.status === 'damaged') throw new UpRefused(`${checked.reason}. Nothing was changed`)
  await mkdir(place.root, { recursive: true, mode: 0o700 })
  const lock = await acquireLock(place.lock)
  if (!lock.ok) {
    const { pid } = lock.holder
    throw new UpRefused(
      `Switchyard runs on ${place.root} (pid ${pid}). Stop it first: npm run down -- --data-dir ${place.root}`,
    )
  }
  try {
    if (existsSync(place.production) && existsSync(path.join(backup, 'secrets.json'))) {
      throw new UpRefused(`${place.root} holds a production system, and the backup is of a development one`)
    }
    return await withPartialFolder(place.root, async (partial) => {
      for (const part of await partsOf(backup)) {
        await cp(path.join(backup, part), path.join(partial, part), { recursive: true, preserveTimestamps: true })
      }
      if (existsSync(path.join(partial, 'secrets.json'))) await chmod(path.join(partial, 'secrets.json'), 0o600)
      const replaced = await moveAside(place)
      for (const part of await partsOf(partial)) await rename(path.join(partial, part), path.join(place.root, part))
      return { ...checked.manifest, replaced }
    })
  } finally {
    await lock.release()
  }
}

async function partsOf(folder: string): Promise<string[]> {
  const names = await readdir(folder)
  return PARTS.filter((part) => names.includes(part))
}

async function moveAside(place: DataDir): Promise<string | null> {
  const present = await partsOf(place.root)
  if (present.length === 0) return null
  const name = new Date().toISOString().replaceAll(/[:.]/g, '-')
  const aside = path.join(place.root, `replaced-${name}`)
  await rm(aside, { recursive: true, force: true })
  await mkdir(aside, { mode: 0o700 })
  for (const part of present) await rename(path.join(place.root, part), path.join(aside, part))
  return aside
}
