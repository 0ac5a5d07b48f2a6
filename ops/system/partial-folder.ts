/**
 * Folders of work under way, beside what they will become. Each belongs to one process and is removed when the work ends. If
 * the process was killed, the next one removes it. Finished files are renamed out of them, so nothing unfinished has a final name.
 */
import { mkdir, mkdtemp, readdir, rename, rm } from 'node:fs/promises'
import path from 'node:path'
import { isAlive } from './processes.ts'

/** The number is the process that made it. */
const PARTIAL = /^\.partial-(\d+)-/

export async function withPartialFolder<T>(parent: string, work: (partial: string) => Promise<T>): Promise<T> {
  await mkdir(parent, { recursive: true })
  await removeAbandoned(parent)
  const partial = await mkdtemp(path.join(parent, `.partial-${process.pid}-`))
  try {
    return await work(partial)
  } finally {
    await rm(partial, { recursive: true, force: true })
  }
}

/**
 * Moves what was made in a partial folder to where it will lie. Processes that make the same side by side are safe: the first one's
 * stays, since others use it already. `isCurrent`: whether what lies there is equal to what was made. Else it is replaced.
 */
export async function putInPlace(made: string, folder: string, isCurrent: () => boolean): Promise<void> {
  if (isCurrent()) return
  await unless(['ENOENT'], rename(folder, `${made}.before`))
  await unless(['ENOTEMPTY', 'EEXIST'], rename(made, folder))
}

async function unless(codes: readonly string[], renamed: Promise<void>): Promise<void> {
  await renamed.catch((error: NodeJS.ErrnoException) => {
    if (!codes.includes(error.code ?? '')) throw error
  })
}

async function removeAbandoned(parent: string): Promise<void> {
  for (const name of await readdir(parent)) {
    const pid = Number(PARTIAL.exec(name)?.[1])
    if (Number.isInteger(pid) && !isAlive(pid)) await rm(path.join(parent, name), { recursive: true, force: true })
  }
}
