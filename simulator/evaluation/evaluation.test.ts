/** A whole evaluation of one figure, as the command makes it. */
import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, expect, test } from 'vitest'
import { readFlags } from '../../cli/flags.ts'
import { type Figure, seedsOf } from './figure.ts'
import { FIGURE_2 } from './figures/figure-2.ts'
import { FIGURES } from './figures/index.ts'
import { LEARNED_FIGURE } from './figures/learned.ts'
import { parseOptions } from './options.ts'
import { provenance } from './report/provenance.ts'
import { readFigure, readIfPlayed, unfinishedText } from './report/report.ts'
import { writeReport } from './report/write-report.ts'
import { playRun } from './runs/play.ts'
import { Runs } from './runs/run-chains.ts'

const folder = mkdtempSync(path.join(tmpdir(), 'evaluation-'))
afterAll(() => rmSync(folder, { recursive: true }))

const IDS = FIGURES.map(({ id }) => id)

function evaluated(figure: Figure, out: string): Map<string, string> {
  const argv = ['--figure', figure.id, '--seed', '1', '--out', out]
  const parsed = parseOptions(argv)
  if (!parsed.ok) throw new Error(parsed.reason)
  const { options } = parsed
  const runs = new Runs()
  const scope = { seeds: seedsOf(figure, options.seeds), quick: options.quick }
  for (const spec of figure.chains(scope).flatMap(({ steps }) => steps.flat())) runs.add(spec, playRun(spec))
  const report = {
    provenance: provenance(options, 'abc'),
    figures: [readFigure(figure, runs, scope)],
    unfinished: null,
  }
  writeReport(report, runs, options.out)
  return new Map(readdirSync(out).map((name) => [name, readFileSync(path.join(out, name), 'utf8')]))
}

test('figure 2 is played, read and written, the same each time', () => {
  const files = evaluated(FIGURE_2, path.join(folder, 'one'))
  expect([...files.keys()].sort()).toEqual(['evaluation.json', 'evaluation.md', 'figure-2-waiting.svg'])
  expect(files.get('evaluation.md')).toContain('| 2 | Waiting under FCFS | 18 steps | 18 steps | 1 |')
  expect(evaluated(FIGURE_2, path.join(folder, 'two'))).toEqual(files)
})

test('the page is built from the data and the figures, and needs no other file', async () => {
  const out = path.join(folder, 'page')
  evaluated(FIGURE_2, out)
  await promisify(execFile)(process.execPath, ['simulator/evaluation/build-page.ts', '--in', out])
  const page = readFileSync(path.join(out, 'index.html'), 'utf8')
  expect(page).toContain('FCFS waits 18, 18 and 18 steps with a first quantum of 1, 2 and 3.')
  expect(page).toContain('npm run evaluate -- --figure 2 --seed 1')
  expect(page).toContain('<svg')
  expect(page).toContain('<td>18 steps</td>')
  expect(page).not.toMatch(/<script|https?:\/\/(?!www\.w3\.org)/)
})

test('without a folder the page of every committed report is built, each with links to the others', async () => {
  const reports = path.join(folder, 'committed', 'docs', 'evaluation')
  for (const name of ['', 'lamps']) {
    mkdirSync(path.join(reports, name), { recursive: true })
    evaluated(FIGURE_2, path.join(reports, name))
  }
  await promisify(execFile)(process.execPath, [path.resolve('simulator/evaluation/build-page.ts')], {
    cwd: path.join(folder, 'committed'),
  })
  const linksOf = (name: string) => readFileSync(path.join(reports, name, 'index.html'), 'utf8')
  expect(linksOf('')).toContain('<b>Autellix</b> · <a href="lamps/index.html">LAMPS</a>')
  expect(linksOf('lamps')).toContain('<a href="../index.html">Autellix</a> · <b>LAMPS</b>')
})

test('data that is not an evaluation is refused by its first fault', async () => {
  const out = path.join(folder, 'broken')
  mkdirSync(out)
  writeFileSync(path.join(out, 'evaluation.json'), '{"provenance":{}}')
  const built = promisify(execFile)(process.execPath, ['simulator/evaluation/build-page.ts', '--in', out])
  await expect(built).rejects.toMatchObject({ stderr: expect.stringContaining('provenance.command') })
})

test('the data has every run, in an order of its own, and what is compared as numbers', () => {
  const data = JSON.parse(evaluated(FIGURE_2, path.join(folder, 'data')).get('evaluation.json') ?? '') as {
    runs: { system: string; first_quantum_us: number; program_latency_s: { mean: number } }[]
    compared: { claim: string; paper: number; ours: { mean: number }; ratio: number }[]
  }
  expect(data.runs).toHaveLength(9)
  expect(data.runs.map(({ system }) => system)).toEqual(data.runs.map(({ system }) => system).toSorted())
  expect(data.runs[0]).toMatchObject({ workload: 'toy', seed: 1, max_seqs: 2, first_quantum_us: 1e6 })
  // What a run has by default is left out.
  expect(data.runs[0]).not.toHaveProperty('balancer')
  expect(data.compared[0]).toMatchObject({ claim: 'Waiting under FCFS', paper: 18, ours: { mean: 18 }, ratio: 1 })
})

test('all seeds are played for the main figures, few for ablations, one for the longest', () => {
  const seeds = { all: [1, 2, 3, 4, 5], ablations: 3 }
  expect(seedsOf({ every_seed: true }, seeds)).toEqual([1, 2, 3, 4, 5])
  expect(seedsOf({}, seeds)).toEqual([1, 2, 3])
  expect(seedsOf({ first_seed: true }, seeds)).toEqual([1])
})

test('a figure that lacks a run is not read, and the report says so', () => {
  const scope = { seeds: [1], quick: true }
  expect(readIfPlayed(FIGURE_2, new Runs(), scope)).toBeNull()
  expect(unfinishedText({ runs_left: 9, left_out: ['Figure 2: Four programs on two seats'] })).toBe(
    'Not all runs are finished, at most 9 are left: some curves end early, and what is read from them is a bound. Left out for want of runs: Figure 2: Four programs on two seats.',
  )
})

test('of figure learned a part can be played: cells with the seats and loads that are named', () => {
  const parsed = parseOptions(['--figure', 'learned', '--seats', '64,256', '--loads', '1.5', '--quick', '--seed', '1'])
  expect(parsed).toMatchObject({ ok: true, options: { part: { seats: [64, 256], loads: [1.5] } } })
  const scope = { seeds: [1], quick: false, part: { seats: [64, 256], loads: [1.5] } }
  const specs = LEARNED_FIGURE.chains(scope).flatMap(({ steps }) => steps.flat())
  expect(new Set(specs.map(({ max_seqs }) => max_seqs))).toEqual(new Set([64, 256]))
  const whole = LEARNED_FIGURE.chains({ seeds: [1], quick: false }).length
  expect(LEARNED_FIGURE.chains({ ...scope, part: { seats: [], loads: [] } })).toHaveLength(whole)
  expect(LEARNED_FIGURE.chains(scope).length * 5).toBe(whole)
})

test('figures have names of their own', () => {
  expect(new Set(IDS).size).toBe(IDS.length)
})

test.each([
  [['--figure', '99'], '--figure: there is no 99'],
  [['--seed', '1,1'], '--seed names a seed twice'],
  [['--seed', '-1'], '--seed'],
  [['--seed', Array.from({ length: 32 }, (_, at) => at).join(',')], '--seed takes at most 31 seeds'],
  [['--ablation-seeds', '0'], '--ablation-seeds must be an integer from 1 to 31'],
  [['--minutes', '0'], '--minutes must be a number above 0'],
  [['--threads', '0'], '--threads must be an integer from 1'],
  [['--fast'], "Unknown option '--fast'"],
  [['--seats', '128'], '--seats and --loads go with --figure learned'],
  [['--figure', 'learned,2', '--loads', '1'], '--seats and --loads go with --figure learned'],
  [['--figure', 'learned', '--seats', '100'], '--seats: there is no 100; there are 128, 64, 256'],
  [['--figure', 'learned', '--loads', '3'], '--loads: there is no 3'],
])('%j is refused', (argv, reason) => {
  const parsed = parseOptions(argv)
  expect(parsed).toMatchObject({ ok: false, reason: expect.stringContaining(reason) })
})

test('31 seeds are taken; a quick evaluation has one and leaves docs alone', () => {
  const many = parseOptions(['--seed', Array.from({ length: 31 }, (_, at) => at).join(',')])
  expect(many).toMatchObject({ ok: true, options: { out: path.join('docs', 'evaluation') } })
  const quick = parseOptions(['--quick'])
  expect(quick).toMatchObject({ ok: true, options: { seeds: { all: [1], ablations: 3 }, quick: true } })
  expect(quick.ok && quick.options.out).toContain('.switchyard')
})

test('npm, which tells every script its cache, keeps no flag of ours', () => {
  const npm = { npm_command: 'run-script', npm_config_cache: '/home/user/.npm' }
  const options = { cache: { type: 'string' }, quick: { type: 'boolean' } } as const
  expect(readFlags('evaluate', ['--quick'], options, npm)).toMatchObject({ ok: true, values: { quick: true } })
  const kept = readFlags('evaluate', [], options, { ...npm, npm_config_quick: 'true' })
  expect(kept).toMatchObject({ ok: false, reason: expect.stringContaining('npm kept --quick') })
})
