/** Runs this process again in a mount namespace of its own, where it may mount file systems without being root. */
import { spawn, spawnSync } from 'node:child_process'
import { constants } from 'node:os'

/** Set for the process inside. */
const INSIDE = 'SWITCHYARD_PRIVATE_MOUNTS'
const COMMAND = 'unshare'
const FLAGS = ['--mount', '--map-root-user']
const MOUNTS = 'mount -t tmpfs switchyard-chaos /mnt'

/** Whether this process may mount. */
export function mayMount(): boolean {
  return process.env[INSIDE] !== undefined
}

/**
 * Null: go on here. This is the process inside, or the host allows no such namespace. Otherwise the exit code of the process
 * inside, which has the same arguments.
 */
export async function runInside(): Promise<number | null> {
  if (mayMount()) return null
  if (spawnSync(COMMAND, [...FLAGS, 'sh', '-c', MOUNTS], { stdio: 'ignore' }).status !== 0) return null
  const args = [...FLAGS, process.execPath, ...process.execArgv, ...process.argv.slice(1)]
  const child = spawn(COMMAND, args, { stdio: 'inherit', env: { ...process.env, [INSIDE]: '1' } })
  // A terminal sends Ctrl-C to the whole process group. What is sent to this process alone is passed on.
  process.on('SIGTERM', () => child.kill('SIGTERM'))
  process.on('SIGINT', () => undefined)
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code, signal) => resolve(code ?? 128 + constants.signals[signal ?? 'SIGKILL']))
  })
}
