/** Environments of the clients, each made once from its lock under the user's cache. */
import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { cp, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { z } from 'zod'
import { switchyardCacheFolder } from '../../ops/model/cache-folder.ts'
import { pythonEnvironment } from '../../ops/python/environment.ts'
import { runTool } from '../../ops/python/run-tool.ts'
import { putInPlace, withPartialFolder } from '../../ops/system/partial-folder.ts'
import type { Client } from './clients.ts'

export const LOCKS_FOLDER = path.join(import.meta.dirname, 'locks')
const DRIVERS_FOLDER = path.join(import.meta.dirname, 'drivers')
const MARKER = 'switchyard-lock.sha256'
const INSTALL_TIMEOUT_MS = 20 * 60_000
/** What the lock of an environment for npm consists of. */
const NPM_LOCK = ['package.json', 'package-lock.json']

const PackageJson = z.object({ dependencies: z.record(z.string(), z.string()) })

export type Installed = { ok: true; folder: string; interpreter: string } | { ok: false; reason: string }

export function clientsCacheFolder(): string {
  return path.join(switchyardCacheFolder(), 'clients')
}

export function installClient({ language, environment }: Client): Promise<Installed> {
  return language === 'python' ? installPython(environment) : installNpm(environment)
}

/** Of the package that the environment is named after: the first that its lock asks for. */
export function clientVersion({ language, environment }: Client): string {
  if (language === 'js') {
    const text = readFileSync(path.join(LOCKS_FOLDER, environment, 'package.json'), 'utf8')
    return Object.values(PackageJson.parse(JSON.parse(text)).dependencies)[0] ?? ''
  }
  const [first = ''] = readFileSync(path.join(LOCKS_FOLDER, `${environment}.in`), 'utf8').split('\n')
  return first.split('==')[1] ?? ''
}

export function driverPath(installed: { folder: string }, client: Client & { kind: 'library' }): string {
  return client.language === 'python'
    ? path.join(DRIVERS_FOLDER, 'python', client.driver)
    : path.join(installed.folder, 'drivers', client.driver)
}

async function installPython(name: string): Promise<Installed> {
  const cache_folder = clientsCacheFolder()
  const spec = {
    name,
    lock_file: path.join(LOCKS_FOLDER, `${name}.txt`),
    download: 'a client that Switchyard is tested with',
    installer: 'uv',
  } as const
  // Most of the clients have many packages in common.
  const env = { UV_CACHE_DIR: path.join(cache_folder, 'uv-cache'), ...process.env }
  const made = await pythonEnvironment(spec, { cache_folder, env })
  return made.ok ? { ok: true, folder: path.join(cache_folder, name), interpreter: made.python } : made
}

async function installNpm(name: string): Promise<Installed> {
  const cache_folder = clientsCacheFolder()
  const folder = path.join(cache_folder, name)
  const lock = path.join(LOCKS_FOLDER, name)
  const hash = createHash('sha256')
  for (const file of NPM_LOCK) hash.update(readFileSync(path.join(lock, file)))
  const wanted = hash.digest('hex')
  const marker = path.join(folder, MARKER)
  const isCurrent = () => existsSync(marker) && readFileSync(marker, 'utf8') === wanted
  if (!isCurrent()) {
    const refusal = await withPartialFolder(cache_folder, async (partial) => {
      const made = path.join(partial, name)
      await cp(lock, made, { recursive: true })
      console.error(`Installing with npm, once, into ${folder}: exactly what its package-lock.json names.`)
      // Not `ci`: it refuses locks that lack the packages of other platforms, as npm writes them for some packages.
      const run = await npm([
        'install',
        '--ignore-scripts',
        '--no-audit',
        '--no-fund',
        '--loglevel=error',
        '--prefix',
        made,
      ])
      if (run.status !== 'done')
        return `npm could not install ${name}: ${'reason' in run ? run.reason : 'npm is not there'}`
      await writeFile(path.join(made, MARKER), wanted)
      await putInPlace(made, folder, isCurrent)
      return null
    })
    if (refusal !== null) return { ok: false, reason: refusal }
  }
  // A module's imports are looked up from where it lies.
  await cp(path.join(DRIVERS_FOLDER, 'js'), path.join(folder, 'drivers'), { recursive: true })
  return { ok: true, folder, interpreter: process.execPath }
}

/** The npm that started this script, else the one on the path. */
export function npm(args: readonly string[]): ReturnType<typeof runTool> {
  const cli = process.env.npm_execpath
  const command = cli?.endsWith('.js') ? [process.execPath, cli] : ['npm']
  return runTool([...command, ...args], { timeout_ms: INSTALL_TIMEOUT_MS })
}
