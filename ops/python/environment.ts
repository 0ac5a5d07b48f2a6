/**
 * Virtual environments of exactly what a lock file names, each package by hash, under the user's cache. One is made anew when
 * its lock file has changed. It appears under its final name by a rename, so starts side by side are safe.
 *
 * Scripts of an environment that was moved name the wrong interpreter, so everything is run as `python -m …`.
 */
import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import { putInPlace, withPartialFolder } from '../system/partial-folder.ts'
import type { EnvironmentSpec, PythonResult } from './environment-spec.ts'
import { findPython } from './find-python.ts'
import { installWithPip, installWithUv, pythonIn } from './install.ts'
import { UV_ENVIRONMENT } from './uv.ts'

const MARKER = 'switchyard-lock.sha256'

export interface EnvironmentPlace {
  cache_folder: string
  env?: Readonly<Record<string, string | undefined>>
  /** Ends an installation under way; nothing of it stays. */
  signal?: AbortSignal | undefined
}

/** The interpreter of a whole and current environment, if there is one. */
export function installedPython({ name, lock_file }: EnvironmentSpec, cache_folder: string): string | null {
  const folder = path.join(cache_folder, name)
  const marker = path.join(folder, MARKER)
  const whole = existsSync(marker) && readFileSync(marker, 'utf8') === hashOf(lock_file)
  return whole && existsSync(pythonIn(folder)) ? pythonIn(folder) : null
}

export async function pythonEnvironment(spec: EnvironmentSpec, place: EnvironmentPlace): Promise<PythonResult> {
  const { cache_folder, env = process.env, signal } = place
  const there = installedPython(spec, cache_folder)
  if (there !== null) return { ok: true, python: there }
  const found = findPython(env)
  if (!found.ok) return found
  const folder = path.join(cache_folder, spec.name)
  return await withPartialFolder(cache_folder, async (partial) => {
    const made = path.join(partial, 'env')
    const target = { folder: made, final: folder, python: found.python, env, signal }
    const refusal =
      spec.installer === 'pip'
        ? await installWithPip(spec, target)
        : await installWithUv(spec, target, () => pythonEnvironment(UV_ENVIRONMENT, place))
    if (refusal !== null) return { ok: false, reason: refusal }
    await writeFile(path.join(made, MARKER), hashOf(spec.lock_file))
    await putInPlace(made, folder, () => installedPython(spec, cache_folder) !== null)
    return { ok: true, python: pythonIn(folder) }
  })
}

function hashOf(lock_file: string): string {
  return createHash('sha256').update(readFileSync(lock_file)).digest('hex')
}
