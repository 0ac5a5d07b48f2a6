/**
 * Nothing outlives its starter. Killing a process with -9 gives it no chance to end its children, and measured: workerd
 * then goes on serving and holds its port. So a shell waits beside us on a pipe whose other end only we hold; the system
 * closes it however we die, and the shell ends every process whose pid file lies in the folder. A clean end says so first.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdir, readdir, rm } from 'node:fs/promises'
import path from 'node:path'
import { readFileIfAny, writeFileAtomic } from './atomic-file.ts'
import { endProcess, formatProcessRecord, parseProcessRecord, processRecord } from './processes.ts'

export const PID_SUFFIX = '.pid'
/**
 * $1: folder of pid files; $2: seconds between asking and ending. A line on stdin means a clean end. The pids are read
 * once: a process that restarts a guarded one writes its new pid into the same file meanwhile.
 */
const SCRIPT = `
read -r word && exit 0
pids=
for file in "$1"/*${PID_SUFFIX}; do
  [ -f "$file" ] && read -r pid rest < "$file" && pids="$pids $pid"
done
[ -n "$pids" ] || exit 0
if [ "$2" -gt 0 ]; then kill -TERM $pids 2>/dev/null; sleep "$2"; fi
kill -KILL $pids 2>/dev/null
exit 0`

export interface Guard {
  /** Ends the guard without ending anything else. */
  release(): void
  /** Resolves when the guard is gone. */
  ended: Promise<void>
}

/** `grace_s`: what a guarded process gets between being asked to end and being ended; 0: it is ended at once. */
export function startGuard(folder: string, grace_s: number): Guard {
  const shell: ChildProcess = spawn('/bin/sh', ['-c', SCRIPT, 'switchyard-guard', folder, String(grace_s)], {
    stdio: ['pipe', 'ignore', 'ignore'],
    // Of its own process group: Ctrl-C in the terminal must not end the guard before what it guards.
    detached: true,
  })
  shell.unref()
  shell.on('error', (error) => process.stderr.write(`guard: ${error.message}\n`))
  // A guard that was killed leaves a broken pipe; the pid files still let the next start find what was left.
  shell.stdin?.on('error', () => undefined)
  const ended = new Promise<void>((resolve) => {
    shell.once('exit', () => resolve())
    shell.once('error', () => resolve())
  })
  const release = () => {
    // It ends at once, and a caller may wait for `ended` with nothing else that keeps Node running.
    shell.ref()
    shell.stdin?.end('released\n')
  }
  return { release, ended }
}

export function pidFile(folder: string, name: string): string {
  return path.join(folder, `${name}${PID_SUFFIX}`)
}

export async function writePidFile(folder: string, name: string, pid: number): Promise<void> {
  const record = await processRecord(pid)
  if (record === null) return
  await mkdir(folder, { recursive: true })
  await writeFileAtomic(pidFile(folder, name), formatProcessRecord(record))
}

export async function removePidFile(folder: string, name: string): Promise<void> {
  await rm(pidFile(folder, name), { force: true })
}

/** Ends what an earlier run left behind. Returns the names of what still ran. */
export async function endOrphans(folder: string, grace_ms: number): Promise<string[]> {
  const ended: string[] = []
  for (const name of await pidNames(folder)) {
    const record = parseProcessRecord(await readFileIfAny(pidFile(folder, name)))
    if (record !== null && (await endProcess(record, grace_ms))) ended.push(name)
    await removePidFile(folder, name)
  }
  return ended
}

async function pidNames(folder: string): Promise<string[]> {
  try {
    const names = await readdir(folder)
    return names.filter((name) => name.endsWith(PID_SUFFIX)).map((name) => name.slice(0, -PID_SUFFIX.length))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw error
  }
}
