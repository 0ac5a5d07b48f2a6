/** Installs the exact dependencies with npm: shows how far it is, and ends at once when it is asked to. */
import { constants as access, accessSync, existsSync } from 'node:fs'
import { withInstallLock } from './install-lock.mjs'
import { foldersToUnpack, hasPackages, isInstalled, modulesFolder } from './installed.mjs'
import { npm } from './npm.mjs'

/** sysexits.h EX_CONFIG: a restart changes nothing. The documented systemd unit does not restart after it. */
const EXIT_CONFIG = 78
const TERMINAL_INTERVAL_MS = 1000
const LOG_INTERVAL_MS = 15_000
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP']
const SIGNAL_EXIT_CODES = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 }

/** Null once everything is installed, else `{ message, exit_code }`. */
export async function installOnce(root) {
  const refused = notWritable(root)
  if (refused !== null) return refused
  return await withInstallLock(root, async () => (isInstalled(root) ? null : await install(root)))
}

/** Under another user, or with a file system that is read-only for a service, npm would fail half way. */
function notWritable(root) {
  const modules = modulesFolder(root)
  for (const folder of existsSync(modules) ? [root, modules] : [root]) {
    try {
      accessSync(folder, access.W_OK)
    } catch (error) {
      const message =
        `The dependencies in ${modules} are not those of package-lock.json, and this user may not write there (${error.code}).\n` +
        `As the user who owns ${root}, run\n  cd ${root} && npm ci\nand then repeat the command.`
      return { message, exit_code: EXIT_CONFIG }
    }
  }
  return null
}

async function install(root) {
  const stopped = new AbortController()
  const stop = (signal) => stopped.abort(signal)
  for (const signal of SIGNALS) process.on(signal, stop)
  const progress = showProgress(root)
  try {
    // Scripts stay off: better-sqlite3 ships its binaries, yet npm 10 would start a compiler for it. Only `node` needs its own.
    const steps = [
      ...(hasPackages(root) ? [] : [['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error']]),
      ['rebuild', 'node', '--ignore-scripts=false', '--loglevel=error'],
    ]
    for (const step of steps) {
      const ended = await npm(root, step, stopped.signal)
      if (stopped.signal.aborted) return progress.failed(stoppedBy(stopped.signal.reason))
      if (ended.code !== 0) return progress.failed(failed(step, ended))
    }
  } finally {
    for (const signal of SIGNALS) process.off(signal, stop)
    progress.end()
  }
  progress.done()
  return null
}

function stoppedBy(signal) {
  return {
    message: 'Stopped: the dependencies are not installed yet. The next command starts over.',
    exit_code: SIGNAL_EXIT_CODES[signal],
  }
}

function failed([verb], { code, output }) {
  return {
    message: `${output}npm ${verb} failed (exit ${code}), so nothing was started. Fix what its output above names, then repeat the command.`,
    exit_code: 1,
  }
}

function showProgress(root) {
  const started_ms = Date.now()
  const elapsed_s = () => Math.round((Date.now() - started_ms) / 1000)
  const folders = foldersToUnpack(root)
  const label = `Installing about ${folders.length} packages with npm ci (900 MB on disk, once)`
  const terminal = process.stderr.isTTY
  const draw = (line) => process.stderr.write(terminal ? `\r\x1b[2K${line}` : `${line}\n`)
  const tick = setInterval(
    () => {
      const unpacked = folders.filter((folder) => existsSync(folder)).length
      draw(`${label} … ${Math.round((100 * unpacked) / folders.length)} % unpacked, ${elapsed_s()} s`)
    },
    terminal ? TERMINAL_INTERVAL_MS : LOG_INTERVAL_MS,
  )
  draw(`${label} …`)
  return {
    end: () => clearInterval(tick),
    failed: (refused) => {
      if (terminal) process.stderr.write('\n')
      return refused
    },
    done: () => process.stderr.write(`${terminal ? '\r\x1b[2K' : ''}${label}: done in ${elapsed_s()} s.\n`),
  }
}
