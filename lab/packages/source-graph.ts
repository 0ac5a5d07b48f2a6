/** The files of this repository that some entry points load, dynamic imports included, and the packages that they need. */
import path from 'node:path'
import { build } from 'esbuild'
import { ROOT } from '../testbed/repository.ts'

export interface SourceGraph {
  /** Relative to the repository, sorted. */
  files: string[]
  /** Names of npm packages, sorted. */
  packages: string[]
}

export async function sourceGraph(entries: readonly string[]): Promise<SourceGraph> {
  const { metafile } = await build({
    absWorkingDir: ROOT,
    entryPoints: [...entries],
    bundle: true,
    write: false,
    metafile: true,
    outdir: 'unused',
    platform: 'node',
    format: 'esm',
    packages: 'external',
    logLevel: 'silent',
  })
  const packages = new Set<string>()
  for (const { imports } of Object.values(metafile.inputs)) {
    for (const { path: name, external } of imports) {
      if (external === true && !name.startsWith('node:')) packages.add(packageOf(name))
    }
  }
  return { files: Object.keys(metafile.inputs).map(toPosix).sort(), packages: [...packages].sort() }
}

/** `drizzle-orm/better-sqlite3` is in `drizzle-orm`, `@hono/zod-openapi/x` in `@hono/zod-openapi`. */
function packageOf(specifier: string): string {
  return specifier.split('/', specifier.startsWith('@') ? 2 : 1).join('/')
}

function toPosix(file: string): string {
  return file.split(path.sep).join('/')
}
