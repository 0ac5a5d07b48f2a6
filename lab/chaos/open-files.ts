/** Takes a running process its right to open files, as a host does that has too low a limit, and gives it back. */
import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { promisify } from 'node:util'

const run = promisify(execFile)
const LIMIT = /^Max open files\s+(\d+)\s+(\d+)/m

/** The process may open `spare` files more than it has open. Gives back how the limit is set as it was. */
export async function leaveFewFiles(pid: number, spare: number): Promise<() => Promise<void>> {
  const [, soft, hard] = LIMIT.exec(readFileSync(`/proc/${pid}/limits`, 'utf8')) ?? []
  if (soft === undefined || hard === undefined) throw new Error(`process ${pid} has no limit of open files`)
  const open = readdirSync(`/proc/${pid}/fd`).length
  await setLimit(pid, String(open + spare), hard)
  return () => setLimit(pid, soft, hard)
}

function setLimit(pid: number, soft: string, hard: string): Promise<void> {
  return run('prlimit', ['--pid', String(pid), `--nofile=${soft}:${hard}`]).then(() => undefined)
}
