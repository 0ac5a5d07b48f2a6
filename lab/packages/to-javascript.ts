/**
 * A TypeScript file as the JavaScript that a package holds. Node strips no types under node_modules, so packages hold
 * JavaScript in the same tree: what a file finds relative to itself or to the root is found there too.
 */
import path from 'node:path'
import { transform } from 'esbuild'

/** Node 24 is the oldest that packages run on: their `engines` say so. */
export const NODE_TARGET = 'node24'
const LITERAL = /(['"])((?:\.{1,2}\/)?[\w./-]+)\.ts\1/g
/** `npm run up -- --port 1` of the repository is `switchyard up --port 1` of the package. */
const NPM_RUN = /npm run (\$\{\w+\}|[a-z]+)(?: --(?= ))?/g

/** `files`: those of the package, relative to its root, among which names of files are looked up. */
export async function toJavaScript(file: string, source: string, files: ReadonlySet<string>): Promise<string> {
  const { code } = await transform(source, { loader: 'ts', format: 'esm', target: NODE_TARGET, sourcefile: file })
  const named = code.replaceAll(LITERAL, (literal: string, quote: string, name: string) =>
    isFileOf(name, file, files) ? `${quote}${name}.js${quote}` : literal,
  )
  return named
    .replaceAll(NPM_RUN, (_, command: string) => `switchyard ${command}`)
    .replaceAll(' -- --', ' --')
    .replaceAll('npx switchyard', 'switchyard')
    .replaceAll('node_modules/.bin/node gpu-agent/src/main.ts', 'gpu-agent')
}

/** A name is relative to its file, or, as in `path.join(ROOT, 'ops/up.ts')`, to the root. */
function isFileOf(name: string, file: string, files: ReadonlySet<string>): boolean {
  const base = name.startsWith('.') ? path.posix.join(path.posix.dirname(file), name) : name
  return files.has(`${base}.ts`)
}
