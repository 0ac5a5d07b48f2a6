/** `npm run evaluate`: plays what the figures need, reads them, writes the report. */
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { fail } from '../../cli/flags.ts'
import { withProgress } from '../../cli/progress.ts'
import { type Figure, PAPER_NAMES, type Scope, seedsOf } from './figure.ts'
import { EVALUATE_HELP, type Options, parseOptions } from './options.ts'
import { PAPERS } from './papers.ts'
import { heading } from './report/markdown.ts'
import { provenance } from './report/provenance.ts'
import { readReportData } from './report/read-report-data.ts'
import { type Report, readIfPlayed } from './report/report.ts'
import { renderReport, writeReport } from './report/write-report.ts'
import { type Progress, playChains, Runs, type Verdict } from './runs/run-chains.ts'
import { RunPool } from './runs/run-pool.ts'
import { type CodeVersions, codeVersions, RunStore } from './runs/run-store.ts'
import { evaluateSamullm } from './samullm/main.ts'

/** What is left was not played for want of time: the report is not written. */
const EXIT_OUT_OF_TIME = 3
const MS_PER_MINUTE = 60_000

async function main(argv: readonly string[]): Promise<void> {
  const samullm = withoutSamullm(argv)
  if (samullm !== null) return evaluateSamullm(samullm)
  if (argv.includes('--help') || argv.includes('-h')) {
    const ids = PAPER_NAMES.map((name) => `${name}: ${PAPERS[name].figures.map(({ id }) => id).join(', ')}`)
    console.log(EVALUATE_HELP.replace('FIGURES', ids.join('; ')))
    return
  }
  const rendered = renderedFile(argv)
  if (rendered !== null) return render(rendered)
  const parsed = parseOptions(argv)
  if (!parsed.ok) return fail(parsed.reason)
  await evaluate(parsed.options)
}

/** The flags besides `--paper samullm`; null: it is another paper. */
function withoutSamullm(argv: readonly string[]): string[] | null {
  const joined = argv.indexOf('--paper=samullm')
  if (joined !== -1) return argv.toSpliced(joined, 1)
  const at = argv.indexOf('--paper')
  return at !== -1 && argv[at + 1] === 'samullm' ? argv.toSpliced(at, 2) : null
}

/** The file of `--render`; null: an evaluation is to be played. */
function renderedFile(argv: readonly string[]): string | null {
  const joined = argv.find((word) => word.startsWith('--render='))
  if (joined !== undefined) return joined.slice('--render='.length)
  const at = argv.indexOf('--render')
  if (at === -1) return null
  return argv[at + 1] ?? fail('--render takes the evaluation.json of a report')
}

function render(file: string): void {
  const { files } = renderReport(readReportData(file), path.dirname(file))
  console.log(`Wrote ${files} files of ${path.dirname(file)} anew. npm run evaluate:page builds the page.`)
}

async function evaluate(options: Options): Promise<void> {
  const figures = PAPERS[options.paper].figures.filter(({ id }) => options.figures.includes(id))
  const versions = codeVersions()
  const runs = new Runs()
  const started_ms = performance.now()
  const verdict = await play(figures, runs, options, versions)
  if (options.json !== null) writeJson(options.json, runs, versions.all)
  if (verdict.status === 'out_of_time') {
    console.log(`${verdict.left} runs at most are left: the same command goes on from here.`)
    process.exitCode = EXIT_OUT_OF_TIME
    if (!options.partial) return
  }
  const minutes = (performance.now() - started_ms) / MS_PER_MINUTE
  const { files } = writeReport(reportOf(figures, runs, verdict, options, versions.all), runs, options.out)
  console.log(`${runs.all().length} runs, ${files} files in ${options.out}, ${minutes.toFixed(1)} minutes`)
}

function reportOf(figures: readonly Figure[], runs: Runs, verdict: Verdict, options: Options, version: string): Report {
  const read = figures.map((figure) => ({ figure, read: readIfPlayed(figure, runs, scopeOf(figure, options)) }))
  const left_out = read.filter((one) => one.read === null).map(({ figure }) => heading(figure.id, figure.title))
  return {
    provenance: provenance(options, version),
    figures: read.flatMap((one) => (one.read === null ? [] : [one.read])),
    unfinished: verdict.status === 'done' ? null : { runs_left: verdict.left, left_out },
  }
}

function scopeOf(figure: Figure, { seeds, quick, part }: Options): Scope {
  return { seeds: seedsOf(figure, seeds), quick, ...(part === null ? {} : { part }) }
}

async function play(
  figures: readonly Figure[],
  runs: Runs,
  options: Options,
  versions: CodeVersions,
): Promise<Verdict> {
  const pool = new RunPool(options.threads)
  const store = new RunStore(options.cache, versions.of)
  const ends_ms =
    options.minutes === null ? Number.POSITIVE_INFINITY : performance.now() + options.minutes * MS_PER_MINUTE
  const started_ms = performance.now()
  let progress: Progress | null = null
  const chains = figures.flatMap((figure) => figure.chains(scopeOf(figure, options)))
  try {
    return await withProgress(
      'Evaluating',
      () =>
        playChains(chains, runs, {
          ...{ pool, store, timeIsUp: () => performance.now() >= ends_ms },
          onProgress: (told) => {
            progress = told
          },
        }),
      () => (progress === null ? 'starting' : progressText(progress, pool.under_way, performance.now() - started_ms)),
    )
  } finally {
    await pool.close()
  }
}

function progressText({ done, of, played }: Progress, under_way: number, elapsed_ms: number): string {
  const per_run_ms = elapsed_ms / Math.max(1, played + under_way)
  const left_s = Math.ceil((per_run_ms * Math.max(0, of - done - under_way)) / 1000)
  return `${done} of at most ${of} runs (${played} of them played here), at most ${left_s} s left`
}

function writeJson(file: string, runs: Runs, version: string): void {
  const text = runs.all().map((run) => JSON.stringify(run))
  writeFileSync(file, `{"code_version":"${version}","runs":[\n${text.join(',\n')}\n]}\n`)
}

await main(process.argv.slice(2))
