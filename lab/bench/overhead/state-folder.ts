/** Where the state of a measured system lies: on a disk, where a commit waits for an fsync, or in memory, where it does not. */
import { statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'

export const STATES = ['disk', 'memory'] as const
export type StateHome = (typeof STATES)[number]

const MEMORY_FOLDER = '/dev/shm'
/** What Linux's statfs calls them: tmpfs, ramfs. */
const MEMORY_TYPES: readonly number[] = [0x01021994, 0x858458f6]
/** Containers are often given 64 MB of /dev/shm. */
const FREE_BYTES_MIN = 1e9

export type StateFolder = { ok: true; folder: string } | { ok: false; reason: string }

export function stateFolder(state: StateHome): StateFolder {
  const folder = state === 'disk' ? tmpdir() : MEMORY_FOLDER
  try {
    const { type, bavail, bsize } = statfsSync(folder)
    const isMemory = MEMORY_TYPES.includes(type)
    if (state === 'disk' && isMemory)
      return { ok: false, reason: `--state disk: ${folder} is in memory. Set TMPDIR to a folder on a disk` }
    if (state === 'memory' && !isMemory) return { ok: false, reason: `--state memory: ${folder} is not in memory` }
    if (bavail * bsize < FREE_BYTES_MIN)
      return { ok: false, reason: `--state ${state}: ${folder} has less than ${FREE_BYTES_MIN / 1e9} GB free` }
    return { ok: true, folder }
  } catch (error) {
    return { ok: false, reason: `--state ${state}: ${(error as Error).message}` }
  }
}
