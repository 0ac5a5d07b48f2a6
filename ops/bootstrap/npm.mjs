/** npm as a child: run by a Node that npm ci does not remove, and ended with all its own children when it is asked to. */
import { spawn } from 'node:child_process'
import { constants as access, accessSync, realpathSync } from 'node:fs'
import { constants } from 'node:os'
import path from 'node:path'
import { modulesFolder } from './installed.mjs'

const OUTPUT_CHUNKS_MAX = 200
/** npm rolls back when it is asked to end, which took over a minute; what it leaves is removed by the next npm ci. */
const END_GRACE_MS = 1000

/** Resolves with npm's exit code (128 + n after a signal) and the end of what it wrote. */
export function npm(root, argv, signal) {
  const outside = outsidePath(root)
  const env = { ...process.env, PATH: outside }
  // The npm that started this command, else the one on the path.
  const cli = process.env.npm_execpath
  const node = outsideNode(root, outside)
  const [command, args] = cli?.endsWith('.js') && node !== null ? [node, [cli, ...argv]] : ['npm', argv]
  const grouped = process.platform !== 'win32'
  // Of its own process group: Ctrl-C reaches this process alone, which ends npm and all that npm runs.
  const child = spawn(command, args, { cwd: root, env, stdio: ['ignore', 'pipe', 'pipe'], detached: grouped })
  const tail = []
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk) => {
      tail.push(chunk)
      if (tail.length > OUTPUT_CHUNKS_MAX) tail.shift()
    })
  }
  let killer
  const kill = (name) => {
    try {
      process.kill(grouped ? -child.pid : child.pid, name)
    } catch (error) {
      if (error.code !== 'ESRCH') throw error
    }
  }
  const end = () => {
    if (child.pid === undefined) return
    kill('SIGTERM')
    killer = setTimeout(kill, END_GRACE_MS, 'SIGKILL')
  }
  // Without a signal of this process an unexpected exit would leave npm behind.
  process.once('exit', end)
  signal.addEventListener('abort', end, { once: true })
  if (signal.aborted) end()
  return new Promise((resolve) => {
    const settle = (code, note = '') => {
      clearTimeout(killer)
      process.off('exit', end)
      signal.removeEventListener('abort', end)
      resolve({ code, output: Buffer.concat(tail).toString() + note })
    }
    child.on('error', (error) => settle(127, `${error.message}\n`))
    child.on('close', (code, name) => settle(code ?? 128 + constants.signals[name]))
  })
}

/** The path without node_modules/.bin, which `npm run` puts first: npm ci removes the Node there while it runs. */
function outsidePath(root) {
  const folders = (process.env.PATH ?? '').split(path.delimiter)
  return folders.filter((folder) => !isInside(folder, modulesFolder(root))).join(path.delimiter)
}

/** Null: no Node but the project's own was found. */
function outsideNode(root, outside) {
  if (!isInside(process.execPath, realFolder(modulesFolder(root)))) return process.execPath
  const name = process.platform === 'win32' ? 'node.exe' : 'node'
  const files = outside.split(path.delimiter).map((folder) => path.join(folder, name))
  return files.find(isExecutable) ?? null
}

function isInside(file, folder) {
  const relative = path.relative(folder, path.resolve(file))
  return relative === '' || !(relative.startsWith('..') || path.isAbsolute(relative))
}

function realFolder(folder) {
  try {
    return realpathSync(folder)
  } catch (error) {
    if (error.code === 'ENOENT') return folder
    throw error
  }
}

function isExecutable(file) {
  try {
    accessSync(file, access.X_OK)
    return true
  } catch {
    // Not there, or not for this user: the next folder of the path may have one.
    return false
  }
}
