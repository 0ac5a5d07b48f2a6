/** Makes the five packages as files that a registry takes: three npm tarballs and two Python wheels. */
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { findPython } from '../../ops/python/find-python.ts'
import { runTool } from '../../ops/python/run-tool.ts'
import { ROOT } from '../testbed/repository.ts'
import { assemble } from './assemble.ts'
import { NPM_PACKAGES } from './contents.ts'
import { NAMES } from './names.ts'

const TOOL_TIMEOUT_MS = 5 * 60_000
const CLIENT = 'clients/typescript'
/** The folder of each wheel by the name of its distribution. */
const WHEELS = { [NAMES.python_client]: 'clients/python', [NAMES.vllm_plugin]: 'gpu-agent/vllm' } as const

export type PackageName = (typeof NAMES)[keyof typeof NAMES]

/** Writes the artefact of `name` into `out` and returns its path. Throws with the tool's own words. */
export async function pack(name: PackageName, out: string): Promise<string> {
  await mkdir(out, { recursive: true })
  const scratch = await mkdtemp(path.join(tmpdir(), 'switchyard-pack-'))
  try {
    const wheel = Object.entries(WHEELS).find(([distribution]) => distribution === name)?.[1]
    if (wheel !== undefined) return await packWheel(wheel, scratch, out)
    const folder = path.join(scratch, 'package')
    await mkdir(folder)
    const spec = NPM_PACKAGES.find((candidate) => candidate.name === name)
    if (spec === undefined) await assembleClient(folder)
    else await assemble(spec, folder)
    return await packNpm(folder, out)
  } finally {
    await rm(scratch, { recursive: true, force: true })
  }
}

async function packNpm(folder: string, out: string): Promise<string> {
  const packed = `${folder}-packed`
  await mkdir(packed)
  await run(['npm', 'pack', '--ignore-scripts', '--pack-destination', packed], folder)
  return await onlyFileOf(packed, out)
}

/** Compiled with declarations; its manifest is the one of the repository. */
async function assembleClient(folder: string): Promise<void> {
  const source = path.join(ROOT, CLIENT)
  const tsc = path.join(ROOT, 'node_modules/typescript/bin/tsc')
  const project = path.join(source, 'tsconfig.json')
  await run([process.execPath, tsc, '-p', project, '--outDir', path.join(folder, 'dist')], ROOT)
  for (const file of ['README.md', 'LICENSE']) await cp(path.join(source, file), path.join(folder, file))
  const manifest = JSON.parse(await readFile(path.join(source, 'package.json'), 'utf8')) as Record<string, unknown>
  // It is built already.
  const { scripts: _, ...published } = manifest
  await writeFile(path.join(folder, 'package.json'), `${JSON.stringify(published, null, 2)}\n`)
}

/** From a copy, since setuptools builds in the source's folder. */
async function packWheel(source: string, scratch: string, out: string): Promise<string> {
  const found = findPython()
  if (!found.ok) throw new Error(found.reason)
  const copy = path.join(scratch, 'source')
  const no_copy = /(^|\/)(build|__pycache__|tests|[^/]+\.egg-info)(\/|$)/
  const folder = path.join(ROOT, source)
  await cp(folder, copy, { recursive: true, filter: (file) => !no_copy.test(path.relative(folder, file)) })
  const wheels = path.join(scratch, 'wheels')
  const pip = ['-m', 'pip', 'wheel', '--quiet', '--disable-pip-version-check', '--no-deps', '--wheel-dir', wheels]
  await run([found.python, ...pip, copy], scratch)
  return await onlyFileOf(wheels, out)
}

/** Moves what a tool wrote into an empty folder. */
async function onlyFileOf(folder: string, out: string): Promise<string> {
  const [file, ...others] = await readdir(folder)
  if (file === undefined || others.length > 0) throw new Error(`${folder} has not one file but ${others.length + 1}`)
  await cp(path.join(folder, file), path.join(out, file))
  return path.join(out, file)
}

async function run(command: readonly string[], cwd: string): Promise<void> {
  const ended = await runTool(command, { timeout_ms: TOOL_TIMEOUT_MS, cwd })
  if (ended.status === 'done') return
  throw new Error(`${command.slice(0, 3).join(' ')}: ${'reason' in ended ? ended.reason : 'it is not installed'}`)
}
