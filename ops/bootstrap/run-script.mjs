/** Runs the script as a child that shares this terminal, and ends as it ends. */
import { spawn } from 'node:child_process'
import { constants } from 'node:os'
import path from 'node:path'
import { modulesFolder } from './installed.mjs'

/** Resolves with the exit code; SIGTERM reaches the child too, and its death by a signal is reported as 128 + n. */
export function runScript(root, node, argv) {
  const bin = path.join(modulesFolder(root), '.bin')
  const env = { ...process.env, PATH: `${bin}${path.delimiter}${process.env.PATH ?? ''}` }
  const child = spawn(node, argv, { cwd: root, env, stdio: 'inherit' })
  // A terminal sends Ctrl-C to the whole process group; only what is sent to this process alone is passed on.
  process.on('SIGTERM', () => child.kill('SIGTERM'))
  process.on('SIGINT', () => undefined)
  return new Promise((resolve) => {
    child.on('error', (error) => {
      process.stderr.write(`${error.message}\n`)
      resolve(127)
    })
    child.on('close', (code, signal) => resolve(code ?? 128 + constants.signals[signal]))
  })
}
