/**
 * How a file gets into the cache: fetched into a folder of this process alone, checked, and renamed to its final name.
 * So a file under its final name is whole and right, and fetches side by side are safe: the later rename replaces a file
 * by its equal.
 */
import { mkdir, mkdtemp, readdir, rename, rm } from 'node:fs/promises'
import path from 'node:path'
import { isAlive } from '../ops/processes.ts'
import type { Pin } from './default-model.ts'
import { verifyFile } from './verify.ts'

/** Folders of fetches under way; the number is the process that made it. */
const PARTIAL = /^\.partial-(\d+)-/

/** Puts a file into the folder that it is given. */
export type Fetch = (partial: string) => Promise<{ ok: true; file: string } | { ok: false; reason: string }>

/** Null if the file is there and right, else why not. */
export async function checkExisting(file: string, pin: Pin): Promise<string | null> {
  try {
    const verdict = await verifyFile(file, pin)
    return verdict.ok ? null : verdict.reason
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ENOTDIR') return `${file}: no such file`
    if (code === 'EACCES') return `${file}: no permission to read it`
    throw new Error(`${file}: ${message}`, { cause: error })
  }
}

/** Null if the file is in place, else why not. */
export async function intoCache(folder: string, target: string, pin: Pin, fetch: Fetch): Promise<string | null> {
  await mkdir(folder, { recursive: true })
  await removeAbandoned(folder)
  const partial = await mkdtemp(path.join(folder, `.partial-${process.pid}-`))
  try {
    const fetched = await fetch(partial)
    if (!fetched.ok) return fetched.reason
    const verdict = await verifyFile(fetched.file, pin)
    if (!verdict.ok) return `what was fetched is refused: ${verdict.reason}`
    await rename(fetched.file, target)
    // Leaves the marker that spares the next start the hashing.
    await checkExisting(target, pin)
    return null
  } finally {
    await rm(partial, { recursive: true, force: true })
  }
}

/** A killed process leaves its folder behind. */
async function removeAbandoned(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    const pid = Number(PARTIAL.exec(name)?.[1])
    if (Number.isInteger(pid) && !isAlive(pid)) await rm(path.join(folder, name), { recursive: true, force: true })
  }
}
