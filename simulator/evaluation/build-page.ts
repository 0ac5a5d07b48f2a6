/**
 * `npm run evaluate:page`: each report as one HTML page, from its data and figures, with links to the others. Pages are built
 * and never committed.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fail, readFlags } from '../../cli/flags.ts'
import { embedded } from './plots/chart.ts'
import { page, type ReportLink } from './report/page.ts'
import { readReportData } from './report/read-report-data.ts'

/** The committed reports. */
const REPORTS = [
  { name: 'Autellix', folder: path.join('docs', 'evaluation') },
  { name: 'LAMPS', folder: path.join('docs', 'evaluation', 'lamps') },
  { name: 'learned', folder: path.join('docs', 'evaluation', 'learned') },
  { name: 'learned with less knowledge', folder: path.join('docs', 'evaluation', 'learned-knowledge') },
] as const

const HELP = `Builds reports of the evaluation as HTML pages, one each, with links between them.

  npm run evaluate:page                     index.html in ${REPORTS.map(({ folder }) => folder).join(', ')}
  npm run evaluate:page -- --in DIR         of another evaluation, such as .switchyard/evaluation/report

  --in DIR      folder with evaluation.json and its figures, as \`npm run evaluate\` writes them
  --out FILE    the page of --in DIR (default: index.html in that folder)
  --help`

const read = readFlags('evaluate:page', process.argv.slice(2), {
  in: { type: 'string' },
  out: { type: 'string' },
  help: { type: 'boolean', short: 'h', default: false },
})
if (!read.ok) fail(read.reason)
const { values: flags } = read
if (flags.help) {
  console.log(HELP)
  process.exit(0)
}
if (flags.out !== undefined && flags.in === undefined) fail('--out is the page of one report: name it with --in')
const known = REPORTS.filter(({ folder }) => existsSync(dataOf(folder)))
for (const folder of flags.in === undefined ? known.map((one) => one.folder) : [flags.in]) {
  const out = flags.out ?? path.join(folder, 'index.html')
  writeFileSync(
    out,
    page(readReportData(dataOf(folder)), (file) => panel(folder, file), linksFrom(folder)),
  )
  console.log(`Wrote ${out}. Open it in a browser.`)
}

function dataOf(folder: string): string {
  return path.join(folder, 'evaluation.json')
}

/** Of a committed report: to all of them. */
function linksFrom(folder: string): ReportLink[] {
  if (!known.some((one) => one.folder === folder)) return []
  return known.map(({ name, folder: to }) => ({
    name,
    href: to === folder ? null : path.posix.join(...path.relative(folder, to).split(path.sep), 'index.html'),
  }))
}

function panel(folder: string, file: string): string {
  return embedded(readFileSync(path.join(folder, file), 'utf8'))
}
