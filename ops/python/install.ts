/** Fills the folder of a virtual environment with what a lock file names: with pip, or with uv, which is some ten times faster. */
import path from 'node:path'
import { withProgress } from '../../cli/progress.ts'
import type { EnvironmentSpec, PythonResult } from './environment-spec.ts'
import { runTool, type ToolRun } from './run-tool.ts'
import { findUv } from './uv.ts'

const INSTALL_TIMEOUT_MS = 30 * 60_000
/** What uv prints of large packages and of its stages. */
const UV_STAGE = /^(Downloading|Downloaded|Prepared|Installed|Building|Built)\b/

export interface InstallTarget {
  /** Where it is made; must not be there yet. Its parent is a folder for scratch, which the caller removes. */
  folder: string
  /** Where it will lie, for the announcement. */
  final: string
  python: string
  env: Readonly<Record<string, string | undefined>>
  signal: AbortSignal | undefined
}

/** Null: everything is installed. */
export async function installWithPip(spec: EnvironmentSpec, target: InstallTarget): Promise<string | null> {
  const { folder, python, env, signal } = target
  announce(spec, target, 'pip')
  const run = (command: string[]) => runTool(command, { timeout_ms: INSTALL_TIMEOUT_MS, env, signal })
  const made = await run([python, '-m', 'venv', folder])
  if (made.status !== 'done') return `${python} -m venv failed: ${reasonOf(made)}`
  const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--no-input']
  const installed = await run([pythonIn(folder), ...pip, ...exactly(spec)])
  if (installed.status === 'done') return null
  return (
    `pip could not install ${path.basename(spec.lock_file)}: ${reasonOf(installed)}. It needs a Python package index ` +
    '(PIP_INDEX_URL) or a folder of wheels (PIP_FIND_LINKS with PIP_NO_INDEX=1).'
  )
}

/** `fetchUv` gets uv where none is on the path. Null: everything is installed. */
export async function installWithUv(
  spec: EnvironmentSpec,
  target: InstallTarget,
  fetchUv: () => Promise<PythonResult>,
): Promise<string | null> {
  const { folder, python, env, signal } = target
  announce(spec, target, 'uv')
  const uv = await findUv({ python, scratch: path.dirname(folder), env, signal }, fetchUv)
  if (!uv.ok) return uv.reason
  const options = { timeout_ms: INSTALL_TIMEOUT_MS, env: { ...env, ...uv.env }, signal }
  const made = await runTool([python, '-m', 'venv', '--without-pip', folder], options)
  if (made.status !== 'done') return `${python} -m venv failed: ${reasonOf(made)}`
  let stage: string | null = null
  const onLine = (line: string) => {
    if (UV_STAGE.test(line.trim())) stage = line.trim()
  }
  // As pip does: else every start compiles all that it imports where it may not write, and the first start everywhere.
  const command = [...uv.command, 'pip', 'install', '--compile-bytecode', '--color', 'never']
  const installed = await withProgress(
    `Installing ${spec.name}`,
    () => runTool([...command, '--python', pythonIn(folder), ...exactly(spec)], { ...options, onLine }),
    () => stage,
  )
  if (installed.status === 'done') return null
  return (
    `uv could not install ${path.basename(spec.lock_file)}: ${reasonOf(installed)}. It needs a Python package index ` +
    '(UV_DEFAULT_INDEX or PIP_INDEX_URL) or a folder of wheels (UV_FIND_LINKS with UV_NO_INDEX=1).'
  )
}

function exactly({ lock_file }: EnvironmentSpec): string[] {
  return ['--no-deps', '--require-hashes', '-r', lock_file]
}

function announce({ download, lock_file }: EnvironmentSpec, { final }: InstallTarget, installer: string): void {
  console.error(
    `Installing with ${installer}, once, into ${final}: ${download}, exactly what ${path.basename(lock_file)} names. ` +
      'Ctrl-C stops it and leaves nothing behind.',
  )
}

function reasonOf(run: Exclude<ToolRun, { status: 'done' }>): string {
  return run.status === 'absent' ? 'it is not there' : run.reason
}

export function pythonIn(folder: string): string {
  return process.platform === 'win32' ? path.join(folder, 'Scripts', 'python.exe') : path.join(folder, 'bin', 'python')
}
