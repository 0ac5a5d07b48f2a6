/** Builds the site into a folder: pages and figures in the repository's tree, and each report of the evaluation as a page of its own. */
import { globSync } from 'node:fs'
import { cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { runTool } from '../../ops/python/run-tool.ts'
import { ROOT } from '../testbed/repository.ts'
import { docsEnvironment, mkdocsConfig, STYLE, STYLE_FILE } from './mkdocs.ts'
import { allPages, sections, titleOf } from './pages.ts'
import { siteSource } from './site-source.ts'

const TIMEOUT_MS = 5 * 60_000
/** Each becomes a page beside it, and the pages link to each other. */
const EVALUATION_DATA = ['docs/evaluation/evaluation.json', 'docs/evaluation/*/evaluation.json']
/** Figures of pages. */
const ASSET = /\.(svg|png)$/

export type BuiltSite = { ok: true; folder: string; python: string } | { ok: false; reason: string }

/** `out`: emptied first. The site is in `out/site`. */
export async function buildSite(out: string): Promise<BuiltSite> {
  const environment = await docsEnvironment()
  if (!environment.ok) return environment
  const source = path.join(out, 'source')
  await rm(out, { recursive: true, force: true })
  await mkdir(source, { recursive: true })
  await mkdir(path.dirname(path.join(source, STYLE_FILE)), { recursive: true })
  await writeFile(path.join(source, STYLE_FILE), STYLE)
  const pages = allPages()
  const assets = await copyAssets(source)
  const evaluations = globSync(EVALUATION_DATA, { cwd: ROOT }).map((data) => path.dirname(data))
  const has = new Set([...pages, ...assets, ...evaluations.map((folder) => path.join(folder, 'index.html'))])
  const titles = new Map<string, string>()
  for (const page of pages) {
    const markdown = await readFile(path.join(ROOT, page), 'utf8')
    titles.set(page, titleOf(markdown))
    await mkdir(path.dirname(path.join(source, page)), { recursive: true })
    await writeFile(
      path.join(source, page),
      siteSource(page, markdown, (file) => has.has(file)),
    )
  }
  for (const folder of evaluations) {
    const evaluated = await runTool(
      [
        ...[process.execPath, path.join(ROOT, 'simulator/evaluation/build-page.ts')],
        ...['--in', folder, '--out', path.join(source, folder, 'index.html')],
      ],
      { timeout_ms: TIMEOUT_MS, cwd: ROOT },
    )
    if (evaluated.status !== 'done') return refused('the evaluation', evaluated)
  }
  await writeFile(path.join(out, 'mkdocs.yml'), mkdocsConfig(sections(pages), titles))
  const built = await runTool([environment.python, '-m', 'mkdocs', 'build', '--strict', '--quiet'], {
    ...{ timeout_ms: TIMEOUT_MS, cwd: out },
  })
  if (built.status !== 'done') return refused('the site', built)
  return { ok: true, folder: path.join(out, 'site'), python: environment.python }
}

async function copyAssets(source: string): Promise<string[]> {
  const files = (await runTool(['git', 'ls-files', 'docs'], { timeout_ms: TIMEOUT_MS, cwd: ROOT })) as {
    output?: string
  }
  const assets = (files.output ?? '').split('\n').filter((file) => ASSET.test(file))
  for (const file of assets) await cp(path.join(ROOT, file), path.join(source, file), { recursive: true })
  return assets
}

function refused(what: string, run: { status: string; reason?: string }): BuiltSite {
  return { ok: false, reason: `${what}: ${run.reason ?? 'its tool is not there'}` }
}
