/**
 * `npm run page:build`: bundles the page (dashboard/) into src/api/page/assets.gen.ts. The Worker has no file system, and is
 * bundled in three ways (wrangler, ops/workerd, vitest), so its files are embedded as the actors' migrations are. With
 * `--check` nothing is written: it exits 1 if the embedded files are not those of the sources, or too large.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { gzipSync } from 'node:zlib'
import { build, type Plugin } from 'esbuild'
import { flagsOrExit } from '../cli/flags.ts'
import { ROOT } from './testbed/repository.ts'

const TARGET = path.join(ROOT, 'src/api/page/assets.gen.ts')
/** Of all scripts of the page together, that of the thread that plays a plan included, compressed as a proxy compresses them. */
const SCRIPT_GZIP_BYTES_MAX = 300_000

/** Schemas of other rooms name Zod by its one object, of which a bundler can leave nothing out. */
const zodByParts: Plugin = {
  name: 'zod-by-parts',
  setup: (bundle) =>
    bundle.onLoad({ filter: /\/(src|gpu-agent|simulator)\/.*\.ts$/ }, async ({ path: file }) => {
      const source = await readFile(file, 'utf8')
      return { loader: 'ts', contents: source.replace("import { z } from 'zod'", "import * as z from 'zod'") }
    }),
}

/** Files of ECharts that the page's charts never use, with what others import from them. */
const LEFT_OUT: readonly (readonly [file: RegExp, contents: string])[] = [
  [/echarts\/lib\/scale\/Time\.js$/, 'export default class {}; export const calcNiceForTimeScale = () => {}'],
  [/echarts\/lib\/util\/decal\.js$/, 'export const createOrUpdatePatternFromDecal = () => null'],
  [
    /echarts\/lib\/data\/helper\/transform\.js$/,
    'export class ExternalSource {}; export const registerExternalTransform = () => {}; export const applyDataTransform = () => []',
  ],
]

/**
 * The page makes no JSON schemas. Its charts show tooltips without HTML, follow the page's colours, are in English, and have no
 * options of earlier versions of ECharts, no axis of time, no patterns, no loading animation and nothing to drag, and their data
 * need no transforms. What does only that is left out.
 */
const leftOut: Plugin = {
  name: 'left-out',
  setup: (bundle) => {
    bundle.onLoad(
      { filter: /zod\/v4\/core\/(json-schema-processors|to-json-schema|json-schema-generator)\.js$/ },
      () => ({
        contents: 'module.exports = {}',
      }),
    )
    bundle.onLoad(
      {
        filter:
          /(echarts\/lib\/(component\/tooltip\/TooltipHTMLContent|i18n\/langZH|theme\/dark|loading\/default)|zrender\/lib\/mixin\/Draggable)\.js$/,
      },
      () => ({
        contents: 'export default class {}',
      }),
    )
    for (const [filter, contents] of LEFT_OUT) bundle.onLoad({ filter }, () => ({ contents }))
    // From where a profile's times come is in its file and in the documentation.
    bundle.onLoad({ filter: /emulated\/profiles\/.*\.json$/ }, async ({ path: file }) => {
      const profile = { ...(JSON.parse(await readFile(file, 'utf8')) as object), provenance: path.basename(file) }
      return { loader: 'json', contents: JSON.stringify(profile) }
    })
    bundle.onLoad({ filter: /echarts\/lib\/preprocessor\/backwardCompat\.js$/ }, () => ({
      contents: 'export default () => {}',
    }))
  },
}

const HELP = `Bundles the page (dashboard/) into src/api/page/assets.gen.ts.

  npm run page:build -- [flags]

  --check    writes nothing; exits 1 if the bundle is not that of the sources
  --help`
const { check } = flagsOrExit('page:build', HELP, { check: { type: 'boolean', default: false } })

const result = await build({
  absWorkingDir: ROOT,
  entryPoints: { page: 'dashboard/main.tsx', style: 'dashboard/style.css' },
  outdir: 'dist/page',
  entryNames: '[name]-[hash]',
  chunkNames: '[name]-[hash]',
  bundle: true,
  splitting: true,
  minify: true,
  write: false,
  format: 'esm',
  target: 'es2023',
  platform: 'browser',
  define: { 'process.env.NODE_ENV': '"production"' },
  tsconfig: 'tsconfig.dashboard.json',
  legalComments: 'none',
  plugins: [zodByParts, leftOut],
})
const files = result.outputFiles
  .map(({ path: file, text }) => ({ name: path.basename(file), text }))
  .sort((a, b) => (a.name < b.name ? -1 : 1))
const scripts = files.filter(({ name }) => name.endsWith('.js'))
const script_gzip_bytes = scripts.reduce((sum, { text }) => sum + gzipSync(text).length, 0)
if (script_gzip_bytes > SCRIPT_GZIP_BYTES_MAX) {
  console.error(
    `Compressed, the page's scripts are ${script_gzip_bytes} bytes. At most ${SCRIPT_GZIP_BYTES_MAX} are allowed.`,
  )
  process.exit(1)
}

const nameOf = (start: string, end: string): string => {
  const found = files.find(({ name }) => name.startsWith(start) && name.endsWith(end))
  if (found === undefined) throw new Error(`esbuild wrote no ${start}*${end}`)
  return found.name
}
const assets = Object.fromEntries(files.map(({ name, text }) => [name, text]))
const source = `/** Written by \`npm run page:build\` from dashboard/. */
export const ENTRY_SCRIPT = ${JSON.stringify(nameOf('page-', '.js'))}
export const ENTRY_STYLE = ${JSON.stringify(nameOf('style-', '.css'))}
export const ASSETS: Readonly<Record<string, string>> = ${JSON.stringify(assets, null, 2)}
`

if (!check) {
  writeFileSync(TARGET, source)
  for (const { name, text } of files) console.log(`${name}  ${text.length} bytes, ${gzipSync(text).length} compressed`)
  console.log(`scripts together: ${script_gzip_bytes} bytes compressed`)
} else if (!existsSync(TARGET) || readFileSync(TARGET, 'utf8') !== source) {
  console.error('src/api/page/assets.gen.ts is not the bundle of dashboard/. `npm run page:build` writes it.')
  process.exit(1)
}
