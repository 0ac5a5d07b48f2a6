/**
 * Virtual environments of exactly what a lock file names, each package by hash, under the user's cache. One is made anew when
 * its lock file has changed. It appears under its final name by a rename, so starts side by side are safe.
 *
 * Scripts of an environment that was moved name the wrong interpreter, so everything is run as `python -m …`.
 */
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { findPython, lastLine } from './find-python.ts'

const INSTALL_TIMEOUT_MS = 30 * 60_000
const MARKER = 'switchyard-lock.sha256'

export interface EnvironmentSpec {
  /** Its folder under the user's cache. */
  name: string
  lock_file: string
  /** Said before it is downloaded. */
  download: string
}

export type EnvironmentResult = { ok: true; python: string } | { ok: false; reason: string }

export function pythonEnvironment(
  spec: EnvironmentSpec,
  cache_folder: string,
  env: Readonly<Record<string, string | undefined>> = process.env,
): EnvironmentResult {
  const folder = path.join(cache_folder, spec.name)
  const lock = createHash('sha256').update(readFileSync(spec.lock_file)).digest('hex')
  const marker = path.join(folder, MARKER)
  if (existsSync(marker) && readFileSync(marker, 'utf8') === lock && existsSync(pythonIn(folder))) {
    return { ok: true, python: pythonIn(folder) }
  }
  const found = findPython(env)
  if (!found.ok) return found
  mkdirSync(cache_folder, { recursive: true })
  const partial = mkdtempSync(path.join(cache_folder, `.partial-${spec.name}-`))
  try {
    const refusal = fill(partial, found.python, spec, env)
    if (refusal !== null) return { ok: false, reason: refusal }
    writeFileSync(path.join(partial, MARKER), lock)
    rmSync(folder, { recursive: true, force: true })
    renameSync(partial, folder)
    return { ok: true, python: pythonIn(folder) }
  } finally {
    rmSync(partial, { recursive: true, force: true })
  }
}

/** Null: everything is installed. */
function fill(
  folder: string,
  python: string,
  spec: EnvironmentSpec,
  env: Readonly<Record<string, string | undefined>>,
): string | null {
  console.error(`Installing ${spec.name} (${spec.download}, once) with ${python} from ${path.basename(spec.lock_file)}`)
  const run = (command: string, args: string[]) =>
    spawnSync(command, args, { encoding: 'utf8', timeout: INSTALL_TIMEOUT_MS, env: { ...env } })
  const made = run(python, ['-m', 'venv', folder])
  if (made.status !== 0)
    return `${python} -m venv failed: ${lastLine(made.stderr || made.stdout) || made.error?.message}`
  const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--no-input']
  const exact = ['--no-deps', '--require-hashes', '-r', spec.lock_file]
  const installed = run(pythonIn(folder), [...pip, ...exact])
  if (installed.status === 0) return null
  const why = lastLine(installed.stderr || installed.stdout) || installed.error?.message || `exit ${installed.status}`
  return (
    `pip could not install ${path.basename(spec.lock_file)}: ${why}. It needs a Python package index (PIP_INDEX_URL) or a ` +
    'folder of wheels (PIP_FIND_LINKS with PIP_NO_INDEX=1).'
  )
}

function pythonIn(folder: string): string {
  return process.platform === 'win32' ? path.join(folder, 'Scripts', 'python.exe') : path.join(folder, 'bin', 'python')
}
