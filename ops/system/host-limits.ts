/**
 * What the host must have for the control plane: room on the disk of its data directory, and files that it may open.
 *
 * Files, measured in workerd: an open stream takes 7, a program in memory 1 to 2. A limit of 4,096 was reached within 12 s by
 * 500 streams of one tenant, and workerd then ended.
 */
import { readFile, statfs } from 'node:fs/promises'

/** SQLite needs room for its write-ahead logs; below it writes begin to fail. */
export const DISK_FREE_BYTES_MIN = 32 * 1024 * 1024
/** Enough for 2,000 streams. The documented unit sets more. */
export const OPEN_FILES_WANTED = 16_384
/** With less the system does not get through its start under load. */
export const OPEN_FILES_MIN = 1024

/** Null where the file system does not tell. */
export async function freeBytes(folder: string): Promise<number | null> {
  try {
    const { bavail, bsize } = await statfs(folder)
    return bavail * bsize
  } catch (error) {
    if (['ENOENT', 'ENOSYS', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '')) return null
    throw error
  }
}

/** Null: there is room. */
export function diskFullText(folder: string, free_bytes: number | null): string | null {
  if (free_bytes === null || free_bytes >= DISK_FREE_BYTES_MIN) return null
  const free_mb = Math.floor(free_bytes / 1024 / 1024)
  return `The disk that holds ${folder} is full (${free_mb} MB are free): calls are refused until there is room. Free at least ${DISK_FREE_BYTES_MIN / 1024 / 1024} MB; nothing has to be restarted.`
}

/** Null where /proc is not there. Node raises its soft limit to the hard one, and its children inherit that. */
export async function openFilesLimit(limits: string = '/proc/self/limits'): Promise<number | null> {
  try {
    const line = /^Max open files\s+\S+\s+(\S+)/m.exec(await readFile(limits, 'utf8'))?.[1]
    return line === undefined || line === 'unlimited' ? null : Number(line)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}

export type FilesVerdict = { status: 'enough' } | { status: 'few' | 'too_few'; message: string }

export function judgeOpenFiles(limit: number | null): FilesVerdict {
  if (limit === null || limit >= OPEN_FILES_WANTED) return { status: 'enough' }
  const raise = 'Raise the limit: `ulimit -n 65536` before the start, or LimitNOFILE=65536 in the systemd unit'
  if (limit < OPEN_FILES_MIN) {
    return {
      status: 'too_few',
      message: `This process may open ${limit} files, and ${OPEN_FILES_MIN} are the least. ${raise}`,
    }
  }
  const streams = Math.floor(limit / 8)
  return {
    status: 'few',
    message: `This process may open ${limit} files, enough for about ${streams} open streams. ${raise}.`,
  }
}
