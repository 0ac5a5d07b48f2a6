/** `npm run evaluate:page`: the evaluation as one HTML page, from its data and figures. The page is built and never committed. */
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fail, readFlags } from '../../cli/flags.ts'
import { embedded } from './plots/chart.ts'
import { page } from './report/page.ts'
import { readReportData } from './report/read-report-data.ts'

const HELP = `Builds the evaluation's report as one HTML page.

  npm run evaluate:page                     docs/evaluation/index.html
  npm run evaluate:page -- --in DIR         of another evaluation, such as .switchyard/evaluation/report

  --in DIR      folder with evaluation.json and its figures, as \`npm run evaluate\` writes them (default docs/evaluation)
  --out FILE    the page (default: index.html in that folder)
  --help`

const read = readFlags('evaluate:page', process.argv.slice(2), {
  in: { type: 'string', default: path.join('docs', 'evaluation') },
  out: { type: 'string' },
  help: { type: 'boolean', short: 'h', default: false },
})
if (!read.ok) fail(read.reason)
const { values: flags } = read
if (flags.help) {
  console.log(HELP)
  process.exit(0)
}
const out = flags.out ?? path.join(flags.in, 'index.html')
writeFileSync(out, page(readReportData(path.join(flags.in, 'evaluation.json')), panel))
console.log(`Wrote ${out}. Open it in a browser.`)

function panel(file: string): string {
  return embedded(readFileSync(path.join(flags.in, file), 'utf8'))
}
