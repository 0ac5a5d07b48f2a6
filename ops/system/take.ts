/**
 * Takes a data directory for one supervisor: its lock, nothing of an earlier start left running, its port free. A directory
 * is a development system's or a production one's for good: the former keeps its secrets on disk.
 */
import { existsSync } from 'node:fs'
import { mkdir, rm } from 'node:fs/promises'
import path from 'node:path'
import type { DataDir } from './data-dir.ts'
import { EXIT_CONFIG, UpRefused } from './explain-error.ts'
import { endOrphans, type Guard, startGuard } from './guard.ts'
import { judgeOpenFiles, openFilesLimit } from './host-limits.ts'
import { acquireLock } from './lock.ts'
import { checkPort, waitForPort } from './port.ts'

export const CONTROL_PLANE = 'control-plane'
const ORPHAN_GRACE_MS = 3000
export const GUARD_GRACE_S = 3
const PORT_TIMEOUT_MS = 2000

export function alreadyRunning(place: DataDir, pid: number): string {
  return `Switchyard is running already on ${place.root} (pid ${pid}). \`npm run status\` describes it, \`npm run down\` stops it; --data-dir starts another beside it`
}

export interface TakeOptions {
  mode: 'development' | 'production'
  host: string
  port: number
  /** What children get to end by themselves when the supervisor was killed. */
  guard_grace_s?: number
}

/** `onLock` is told how to give the directory back as soon as it is held. Throws UpRefused for what the user can fix. */
export async function takeDataDir(
  place: DataDir,
  { mode, host, port, guard_grace_s = GUARD_GRACE_S }: TakeOptions,
  note: (line: string) => void,
  onLock: (release: () => Promise<void>) => void,
): Promise<Guard> {
  await mkdir(place.root, { recursive: true, mode: 0o700 })
  const files = judgeOpenFiles(await openFilesLimit())
  if (files.status === 'too_few') throw new UpRefused(files.message, { exit_code: EXIT_CONFIG })
  if (files.status === 'few') note(files.message)
  const lock = await acquireLock(place.lock)
  if (!lock.ok) throw new UpRefused(alreadyRunning(place, lock.holder.pid))
  onLock(lock.release)
  const foreign = mode === 'production' ? place.secrets : place.production
  if (existsSync(foreign)) throw new UpRefused(ofOtherMode(place, mode))
  await rm(place.devJson, { force: true })
  const left = [
    ...(await endOrphans(place.run, ORPHAN_GRACE_MS)),
    ...(await endOrphans(path.join(place.run, CONTROL_PLANE), 0)),
  ]
  if (left.length > 0) note(`Ended what an earlier start had left running: ${left.join(', ')}`)
  const free = left.length > 0 ? await waitForPort(port, PORT_TIMEOUT_MS, host) : await checkPort(port, host)
  if (!free.ok) throw new UpRefused(free.reason)
  await mkdir(place.run, { recursive: true })
  return startGuard(place.run, guard_grace_s)
}

function ofOtherMode({ root }: DataDir, mode: 'development' | 'production'): string {
  const holds = mode === 'production' ? 'a development system, whose secrets are on disk' : 'a production system'
  return `${root} holds ${holds}. Give this one a directory of its own with --data-dir`
}
