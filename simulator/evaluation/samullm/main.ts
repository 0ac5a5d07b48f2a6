/** `npm run evaluate -- --paper samullm`. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { availableParallelism, cpus } from 'node:os'
import path from 'node:path'
import { fail, readFlags } from '../../../cli/flags.ts'
import { PLANNER_LABELS, type PlannerName } from '../../../gpu-agent/planner/search/planners.ts'
import { ganttChart } from '../../../src/core/plot/gantt.ts'
import { planGantt } from '../../planner/plan-gantt.ts'
import { FlagError, integer, list, oneOf } from '../../run/flag-values.ts'
import type { Panel, Table } from '../figure.ts'
import { labelled, standalone } from '../plots/chart.ts'
import { interval } from '../statistics/interval.ts'
import { figure, withInterval } from '../statistics/words.ts'
import { type ApplicationKind, CELLS, type Cell } from './cells.ts'
import { CHECKS } from './checks.ts'
import { figure3 } from './figure-3.ts'
import { estimateOf, LENGTH_ORIGINS } from './length-origins.ts'
import { GAP_PLANNERS, gaps, SMALL_CASES } from './optimality.ts'
import { type Played, playCell } from './play-cell.ts'
import { RAW_CELLS, rawTable } from './raw-inputs.ts'
import { markdown } from './report.ts'
import {
  type CellRuns,
  cellTable,
  idleGoals,
  idleTable,
  missedTable,
  otherGoals,
  speedupGoals,
  variantTable,
} from './summaries.ts'

const KINDS = [...new Set(CELLS.map(({ kind }) => kind))]
const SEED_MAX = 2 ** 31 - 1

const HELP = `Plays SamuLLM's evaluation in simulated time and writes the report of it.

  npm run evaluate -- --paper samullm                             all cells, five seeds, into docs/evaluation/samullm/
  npm run evaluate -- --paper samullm --quick --out DIR           one seed, the small cells (about a minute)
  npm run evaluate -- --paper samullm --application routing --out DIR

  --application NAME,…  ${KINDS.join(', ')}
  --seed 1,2,3,4,5      of inputs and output lengths
  --quick
  --out DIR             where the report goes (default docs/evaluation/samullm; with --quick or --application: .switchyard/evaluation/report-samullm)
  --json FILE           every run with its plans
  --help`

export function evaluateSamullm(argv: readonly string[]): void {
  if (argv.includes('--help') || argv.includes('-h')) {
    console.log(HELP)
    return
  }
  const flags = readFlags('evaluate -- --paper samullm', argv, {
    ...{ application: { type: 'string' }, seed: { type: 'string' }, out: { type: 'string' }, json: { type: 'string' } },
    quick: { type: 'boolean', default: false },
  })
  if (!flags.ok) fail(flags.reason)
  const { application, seed, quick, out, json } = flags.values
  try {
    const kinds = application === undefined ? KINDS : list(application, (name) => oneOf('--application', name, KINDS))
    const seeds = list(seed ?? (quick ? '1' : '1,2,3,4,5'), (text) => integer('--seed', text, 0, SEED_MAX))
    const preliminary = quick || application !== undefined
    const folder = preliminary
      ? path.join('.switchyard', 'evaluation', 'report-samullm')
      : path.join('docs', 'evaluation', 'samullm')
    const shown = argv.filter(
      (word, at) => !['--out', '--json'].includes(word) && !['--out', '--json'].includes(argv[at - 1] ?? ''),
    )
    const command = ['npm run evaluate -- --paper samullm', ...shown].join(' ')
    evaluate({ kinds, seeds, quick, out: out ?? folder, json: json ?? null, command })
  } catch (error) {
    if (!(error instanceof FlagError)) throw error
    fail(error.message)
  }
}

interface Settings {
  kinds: readonly ApplicationKind[]
  seeds: readonly number[]
  quick: boolean
  out: string
  json: string | null
  command: string
}

function evaluate({ kinds, seeds, quick, out, json, command }: Settings): void {
  const cells = CELLS.filter((cell) => kinds.includes(cell.kind) && (!quick || cell.quick))
  const all = cells.map((cell) => runsOf(cell, seeds))
  const raw = RAW_CELLS.filter((cell) => cells.includes(cell))
  const tables = [
    missedTable(all),
    checkTable(seeds),
    ...[...new Set(cells.map(({ kind }) => kind))].map((kind) => cellTable(kind, all)),
    ...(all.some(({ cell }) => cell.kind === 'chain summary') ? [idleTable(all)] : []),
    ...(all.some(({ cell }) => cell.kind === 'mixed' || cell.kind === 'ablation') ? [variantTable(all)] : []),
    ...(raw.length > 0 ? [rawTable(raw, all, seeds)] : []),
    originTable(seeds),
    gapTable(seeds),
  ]
  const firsts = all.filter(({ cell }, at) => all.findIndex((one) => one.cell.kind === cell.kind) === at)
  const panels = [figure3(seeds[0] ?? 1), ...firsts.flatMap(panelsOf)]
  mkdirSync(out, { recursive: true })
  const machine = `${availableParallelism()} × ${cpus()[0]?.model.trim() ?? 'unknown'}, Node ${process.versions.node}`
  const date = new Date().toISOString().slice(0, 10)
  const goals = [...speedupGoals(all), ...idleGoals(all), ...otherGoals(all)]
  const text = markdown({ command, seeds, date, machine, quick, goals, tables, panels })
  writeFileSync(path.join(out, 'evaluation.md'), `${text.trimEnd()}\n`)
  for (const { name, svg, alt } of panels) writeFileSync(path.join(out, `${name}.svg`), labelled(standalone(svg), alt))
  if (json !== null)
    writeFileSync(
      json,
      `${JSON.stringify({ command, goals, cells: all.map(({ cell, seeds: played }) => ({ kind: cell.kind, cell: cell.name, played })) })}\n`,
    )
  console.log(`${cells.length} cells, ${seeds.length} seeds: ${path.join(out, 'evaluation.md')}`)
}

function runsOf(cell: Cell, seeds: readonly number[]): CellRuns {
  const played = seeds.map((seed) => playCell(cell, seed))
  const first = played[0] ?? []
  console.log(
    `${cell.kind}, ${cell.name}: ${first.map(({ planner, real_s, planning_s }) => `${planner} ${figure(real_s)} s (planned in ${figure(planning_s)} s)`).join(', ')}`,
  )
  return { cell, seeds: played }
}

function checkTable(seeds: readonly number[]): Table {
  return {
    title: 'The cost model beside durations that the paper prints, seconds',
    columns: ['run', 'paper', 'estimate', 'off %'],
    rows: CHECKS.map(({ name, paper_s, estimate }) => {
      const ours = interval(seeds.map(estimate))
      return [name, `${paper_s}`, withInterval(ours), figure(100 * (ours.mean / paper_s - 1))]
    }),
  }
}

function originTable(seeds: readonly number[]): Table {
  return {
    title: 'Estimates where outputs have another origin than the length tables',
    columns: ['outputs of the real run', 'estimated s', 'real s', 'off %'],
    rows: LENGTH_ORIGINS.map((origin) => {
      const played = seeds.map((seed) => estimateOf(origin, seed))
      const off = interval(played.map(({ estimated_s, real_s }) => 100 * (estimated_s / real_s - 1)))
      const of = (key: 'estimated_s' | 'real_s') => withInterval(interval(played.map((one) => one[key])))
      return [origin.name, of('estimated_s'), of('real_s'), withInterval(off)]
    }),
  }
}

function gapTable(seeds: readonly number[]): Table {
  return {
    title: 'Plans ÷ the optimum, where all stage sequences can be tried: mean and largest',
    columns: ['case', ...GAP_PLANNERS.map((name) => PLANNER_LABELS[name])],
    rows: SMALL_CASES.map((small) => {
      const played = seeds.map((seed) => gaps(small, seed))
      const cells = GAP_PLANNERS.map((name) => {
        const values = played.map((by) => by.get(name) ?? Number.NaN)
        return `${withInterval(interval(values))}, ${figure(Math.max(...values))}`
      })
      return [small.name, ...cells]
    }),
  }
}

/** What really ran, by planner, on one time axis; of the first seed. */
function panelsOf({ cell, seeds: [played = []] }: CellRuns): Panel[] {
  const drawn = played.filter((one): one is Played & { planner: PlannerName } => one.planner in PLANNER_LABELS)
  const axis_s = Math.max(...drawn.map(({ real_s }) => real_s))
  return drawn.map(({ planner, real, nodes }) => {
    const title = `${cell.kind}: ${PLANNER_LABELS[planner]}`
    return {
      name: `gantt-${cell.kind.replaceAll(' ', '-')}-${planner}`,
      alt: `${title}, ${cell.name}: ${figure(real.total_s)} s in ${real.stages.length} stages`,
      svg: ganttChart({ ...planGantt(real, { title, nodes, gpus: 8 }), axis_s }),
    }
  })
}
