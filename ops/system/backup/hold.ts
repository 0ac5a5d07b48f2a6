/**
 * Holds a process for a moment, so that files that it writes can be copied as they are at one instant. A held workerd
 * acknowledges nothing, so what it has acknowledged is in its files, and what it has not is still at the agents.
 *
 * A shell lets the process go again at the latest after the bound, and at once when its starter ends, however that ends:
 * it waits on a pipe that the starter alone holds open, as the guard does (guard.ts).
 */
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir, readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { isSameProcess, type ProcessRecord } from '../processes.ts'

/** Calls and acknowledgements wait for no longer than this. */
export const HOLD_MS_MAX = 5000
const STOP_TIMEOUT_MS = 1000
const LOOK_MS = 2

/** $1: the process; $2: the bound in seconds. The timer ends with -9, since it must not let a later hold go. */
const SCRIPT = `
trap '' INT TERM HUP
( sleep "$2"; kill -CONT "$1" ) & timer=$!
echo armed
read -r word
kill -KILL "$timer" 2>/dev/null
kill -CONT "$1" 2>/dev/null
exit 0`

export type Held<T> =
  | { status: 'held'; value: T; held_ms: number }
  /** The work took longer than the bound: what it read is not of one instant. */
  | { status: 'too_long' }
  /** The process ended, or did not stop. */
  | { status: 'lost' }

/** Runs `work` while the process stands still. `hold_ms_max` above 1 s counts in whole seconds. */
export async function whileHeld<T>(
  held: ProcessRecord,
  work: () => Promise<T>,
  hold_ms_max: number = HOLD_MS_MAX,
): Promise<Held<T>> {
  if (!(await isSameProcess(held))) return { status: 'lost' }
  const shell = spawn('/bin/sh', ['-c', SCRIPT, 'switchyard-hold', String(held.pid), String(hold_ms_max / 1000)], {
    stdio: ['pipe', 'pipe', 'ignore'],
    detached: true,
  })
  const ended = once(shell, 'exit')
  await once(shell.stdout, 'data')
  const began_ms = performance.now()
  try {
    process.kill(held.pid, 'SIGSTOP')
    if (!(await untilStopped(held.pid))) return { status: 'lost' }
    const value = await work()
    const held_ms = performance.now() - began_ms
    // Stopped to the end, and by the clock: the shell has not let it go meanwhile.
    const stood_still = held_ms < hold_ms_max && (await isStopped(held.pid))
    return stood_still ? { status: 'held', value, held_ms } : { status: 'too_long' }
  } finally {
    shell.stdin.end('done\n')
    await ended
  }
}

async function untilStopped(pid: number): Promise<boolean> {
  const deadline_ms = performance.now() + STOP_TIMEOUT_MS
  while (performance.now() < deadline_ms) {
    if (await isStopped(pid)) return true
    await sleep(LOOK_MS)
  }
  return false
}

/** Every thread of it: one that is in the middle of a write stops after it. */
async function isStopped(pid: number): Promise<boolean> {
  try {
    if (process.platform !== 'linux') {
      const { stdout } = await promisify(execFile)('ps', ['-o', 'state=', '-p', String(pid)])
      return stdout.trim().startsWith('T')
    }
    const threads = await readdir(`/proc/${pid}/task`)
    const states = await Promise.all(threads.map((thread) => stateOf(`/proc/${pid}/task/${thread}/stat`)))
    return states.length > 0 && states.every((state) => state === 'T' || state === 'gone')
  } catch {
    // The process has ended.
    return false
  }
}

async function stateOf(file: string): Promise<string> {
  const stat = await readFile(file, 'latin1').catch(() => null)
  return stat === null ? 'gone' : stat.slice(stat.lastIndexOf(')') + 2).charAt(0)
}
