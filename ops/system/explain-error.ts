/**
 * Errors that a user can fix, as what happened and what to do. An error that is not known here is a bug: it keeps its stack.
 */
import type { DataDir } from './data-dir.ts'

/** sysexits.h EX_CONFIG: a restart changes nothing. The documented systemd unit does not restart after it. */
export const EXIT_CONFIG = 78

/** Something that the user can fix; its message is shown alone. */
export class UpRefused extends Error {
  readonly exit_code: number

  constructor(message: string, { exit_code = 1, ...options }: ErrorOptions & { exit_code?: number } = {}) {
    super(message, options)
    this.exit_code = exit_code
  }
}

/** SQLite's words in D1's errors for a file that is no database any more. */
const DAMAGED_DATABASE = /SQLITE_(CORRUPT|NOTADB)|database disk image is malformed|file is not a database/

/** Null: not an error that a user can fix. */
export function explained(error: unknown, place: DataDir): string | null {
  if (error instanceof UpRefused) return error.message
  if (!(error instanceof Error)) return null
  if (DAMAGED_DATABASE.test(error.message)) {
    return (
      `The database in ${place.state} is damaged (${error.message}). Nothing was changed.\n` +
      `Copy a backup of ${place.state} back, or wipe everything in ${place.root}: npm run reset -- --data-dir ${place.root}`
    )
  }
  const { code, path: file, syscall } = error as NodeJS.ErrnoException
  const at = file ?? place.root
  switch (code) {
    case 'EACCES':
    case 'EPERM':
      if (syscall === 'listen') return null
      return `This user may not use ${at} (${code}): it belongs to another. Choose a folder of your own with --data-dir`
    case 'EROFS':
      return `${at} is on a file system that is read-only for this process. Choose another folder with --data-dir`
    case 'ENOSPC':
    case 'EDQUOT':
      return `The disk that holds ${at} is full (${code}). Free some space, then repeat the command`
    case 'ENOTDIR':
    case 'EEXIST':
      return `${at} cannot be a folder, because there is a file of that name. Choose another with --data-dir`
    case 'EMFILE':
    case 'ENFILE':
      return `No more files can be opened (${code}): raise the limit, for example with \`ulimit -n 65536\``
    default:
      return null
  }
}

/** What to print for any error: the explanation, else the stack. */
export function errorText(error: unknown, place: DataDir): string {
  return explained(error, place) ?? (error instanceof Error ? (error.stack ?? error.message) : String(error))
}

/** For commands: an error that a user can fix ends them with its explanation. */
export function exitExplained(place: DataDir): void {
  process.once('uncaughtException', (error) => {
    process.stderr.write(`${errorText(error, place)}\n`)
    process.exit(1)
  })
}
