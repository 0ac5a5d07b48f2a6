/** Writes the folder of an npm package: JavaScript in the repository's tree, what it reads by name, a manifest, a readme, the licence. */
import { cp, mkdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { bundleWorker } from '../../ops/workerd/bundle-worker.ts'
import { readWorkerConfig } from '../../ops/workerd/worker-config.ts'
import { ROOT } from '../testbed/repository.ts'
import type { PackageSpec } from './contents.ts'
import { sourceGraph } from './source-graph.ts'
import { toJavaScript } from './to-javascript.ts'

/** Node 22 would do for most of it. 24 is what the repository runs and tests. */
const ENGINES = { node: '>=24' }
const WORKER = 'worker.js'
const NO_ASSET = /\.ts$|(^|\/)(__pycache__|meta)(\/|$)/

interface Manifest {
  version: string
  license: string
  dependencies?: Record<string, string>
  devDependencies?: Record<string, string>
}

export async function assemble(spec: PackageSpec, folder: string): Promise<void> {
  const { files, packages } = await sourceGraph(spec.entries)
  const all = new Set(files)
  for (const file of files) await writeCode(file, all, folder)
  for (const asset of spec.assets) await copyAsset(asset, folder)
  if (spec.worker) await writeWorker(folder)
  await writeFile(
    path.join(folder, 'bin.mjs'),
    await readFile(path.join(import.meta.dirname, 'bin', `${spec.bin}.mjs`)),
  )
  await cp(path.join(ROOT, spec.readme), path.join(folder, 'README.md'))
  for (const file of ['LICENSE', 'NOTICE']) await cp(path.join(ROOT, file), path.join(folder, file))
  const manifest = await manifestOf(spec, [...packages, ...spec.resolved])
  await writeFile(path.join(folder, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`)
}

async function writeCode(file: string, files: ReadonlySet<string>, folder: string): Promise<void> {
  const is_code = file.endsWith('.ts')
  const source = await readFile(path.join(ROOT, file), 'utf8')
  const target = path.join(folder, is_code ? file.replace(/\.ts$/, '.js') : file)
  await mkdir(path.dirname(target), { recursive: true })
  await writeFile(target, is_code ? await toJavaScript(file, source, files) : source)
}

async function copyAsset(asset: string, folder: string): Promise<void> {
  // Drizzle's migrator reads meta/_journal.json of the agent's; the rest of every `meta` is for drizzle-kit.
  const keep = (source: string) =>
    !NO_ASSET.test(path.relative(ROOT, source)) || /gpu-agent\/migrations\/meta(\/_journal\.json)?$/.test(source)
  await cp(path.join(ROOT, asset), path.join(folder, asset), { recursive: true, filter: keep })
}

/** The bundle stands in for src/worker.ts. */
async function writeWorker(folder: string): Promise<void> {
  const file = path.join(ROOT, 'wrangler.toml')
  const { main } = await readWorkerConfig(file)
  await writeFile(path.join(folder, WORKER), await bundleWorker(ROOT, main))
  const toml = await readFile(file, 'utf8')
  await writeFile(path.join(folder, 'wrangler.toml'), toml.replace(`main = "${main}"`, `main = "${WORKER}"`))
}

async function manifestOf(spec: PackageSpec, packages: readonly string[]): Promise<Record<string, unknown>> {
  const root = await manifestIn('package.json')
  const agent = await manifestIn('gpu-agent/package.json')
  const versions = { ...agent.devDependencies, ...agent.dependencies, ...root.devDependencies, ...root.dependencies }
  const lock = JSON.parse(await readFile(path.join(ROOT, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { version?: string }>
  }
  const versionOf = (name: string): string => {
    const version = versions[name] ?? lock.packages[`node_modules/${name}`]?.version
    if (version === undefined)
      throw new Error(`${spec.name} needs ${name}, which no package.json of this repository has`)
    return version
  }
  return {
    name: spec.name,
    version: root.version,
    license: root.license,
    description: spec.description,
    type: 'module',
    engines: ENGINES,
    bin: { [spec.bin]: 'bin.mjs' },
    dependencies: Object.fromEntries([...new Set(packages)].sort().map((name) => [name, versionOf(name)])),
  }
}

async function manifestIn(file: string): Promise<Manifest> {
  return JSON.parse(await readFile(path.join(ROOT, file), 'utf8')) as Manifest
}
