/** One installation at a time: two would install into one folder, and each would remove what the other has written. */
import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'

const LOOK_MS = 250
/** A lock without an id is of a process that died between two system calls. */
const EMPTY_MS_MAX = 5000
const NO_PROCESS = 2 ** 31 - 1

/** Holds the process id of the command that installs. Outside node_modules, which npm ci removes. */
export function lockFile(root) {
  return path.join(root, '.switchyard', 'install.lock')
}

/** Runs `work` while no other process does. */
export async function withInstallLock(root, work) {
  const file = lockFile(root)
  mkdirSync(path.dirname(file), { recursive: true })
  let told = false
  while (!takeLock(file)) {
    if (!told) process.stderr.write('Another command installs the dependencies. Waiting for it …\n')
    told = true
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
  }
  const drop = () => rmSync(file, { force: true })
  process.once('exit', drop)
  try {
    return await work()
  } finally {
    process.off('exit', drop)
    drop()
  }
}

/** False: another living process has the lock. A dead one's is taken over. */
function takeLock(file) {
  try {
    writeFileSync(file, `${process.pid}`, { flag: 'wx' })
    return true
  } catch (error) {
    if (error.code !== 'EEXIST') throw error
  }
  if (!isAlive(lockOwner(file))) rmSync(file, { force: true })
  return false
}

/** Null: the lock is gone, or its owner is about to write its id. */
function lockOwner(file) {
  try {
    const owner = Number(readFileSync(file, 'utf8'))
    if (owner > 0) return owner
    return Date.now() - statSync(file).mtimeMs > EMPTY_MS_MAX ? NO_PROCESS : null
  } catch {
    // The owner has removed it between two looks.
    return null
  }
}

function isAlive(pid) {
  if (pid === null) return true
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error.code === 'EPERM'
  }
}
