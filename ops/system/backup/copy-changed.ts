/**
 * Copies a folder of databases that are in use in two steps: all of it while it is written to, then, while nothing writes,
 * the files that have changed since. So the second step is short however much there is.
 */
import { constants } from 'node:fs'
import { copyFile, mkdir, readdir, rm, stat } from 'node:fs/promises'
import path from 'node:path'

/** Files that are copied at a time. */
const AT_ONCE = 16
/** A file that was written to this shortly before it was looked at may be written to again with the same time. */
const RECENT_MS = 2000
/** SQLite makes its index of the log anew, and a cache of answers is none of the state. */
const LEFT_OUT = /(-shm|\.lock\.sqlite(-journal)?)$|^cache\//

interface Seen {
  bytes: number
  written_ms: number
  inode: number
  /** Whether a later write is sure to show. */
  is_settled: boolean
}

export class FolderCopy {
  readonly #from: string
  readonly #to: string
  readonly #seen = new Map<string, Seen>()

  constructor(from: string, to: string) {
    this.#from = from
    this.#to = to
  }

  /** Copies what has changed since the last time, and removes what is gone. Returns how many files were copied. */
  async copy(): Promise<number> {
    const present = await filesIn(this.#from)
    for (const file of [...this.#seen.keys()].filter((known) => !present.includes(known))) {
      this.#seen.delete(file)
      await rm(path.join(this.#to, file), { force: true })
    }
    let copied = 0
    for (let at = 0; at < present.length; at += AT_ONCE) {
      const done = await Promise.all(present.slice(at, at + AT_ONCE).map((file) => this.#copyFile(file)))
      copied += done.filter((one) => one).length
    }
    return copied
  }

  /** False: it is as it was. A file that vanishes meanwhile is looked at the next time. */
  async #copyFile(file: string): Promise<boolean> {
    const [from, to] = [path.join(this.#from, file), path.join(this.#to, file)]
    try {
      const { size, mtimeMs, ino } = await stat(from)
      const seen: Seen = { bytes: size, written_ms: mtimeMs, inode: ino, is_settled: Date.now() - mtimeMs > RECENT_MS }
      const before = this.#seen.get(file)
      const is_same = before?.bytes === size && before.written_ms === mtimeMs && before.inode === ino
      if (is_same && before.is_settled) return false
      await mkdir(path.dirname(to), { recursive: true, mode: 0o700 })
      await copyFile(from, to, constants.COPYFILE_FICLONE)
      this.#seen.set(file, seen)
      return true
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
      this.#seen.delete(file)
      return false
    }
  }
}

/** Relative to the folder, sorted. */
export async function filesIn(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => [])
  return entries
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => path.relative(folder, path.join(parentPath, name)).split(path.sep).join('/'))
    .filter((file) => !LEFT_OUT.test(file))
    .sort()
}
