/** The flags of `npm run evaluate`. */

import { availableParallelism } from 'node:os'
import path from 'node:path'
import { readFlags } from '../../cli/flags.ts'
import { FlagError, integer, list, number, oneOf } from '../run/flag-values.ts'
import { PAPER_NAMES, type PaperName, type Part, type Seeds } from './figure.ts'
import { GRID, LEARNED_FIGURE } from './figures/learned.ts'
import { PAPERS } from './papers.ts'

/** Folders of preliminary reports. */
const REPORTS = { autellix: 'report', lamps: 'report-lamps' } as const
const DEFAULT_SEEDS = { autellix: '1,2,3,4,5', lamps: '1,2,3' } as const
const QUICK_SEEDS = '1'
/** Of an ablation. */
export const ABLATION_SEEDS = 3
const SEEDS_MAX = 31
const SEED_MAX = 2 ** 31 - 1
const THREADS_MAX = 256
/** The figure that `--seats` and `--loads` choose cells of. */
const GRID_FIGURE = LEARNED_FIGURE.id
const MINUTES_MAX = 24 * 60

export const EVALUATE_HELP = `Plays every figure of a paper's evaluation, Autellix's by default, on the simulator and writes the report of it.

  npm run evaluate                              all figures, five seeds, into docs/evaluation/
  npm run evaluate -- --quick --out DIR         one seed, short runs (at most 2 minutes)
  npm run evaluate -- --figure 12 --seed 1,2    one figure
  npm run evaluate -- --paper lamps             LAMPS'
  npm run evaluate -- --paper samullm --help    SamuLLM's: plans of applications of several models

  --paper autellix  or lamps: tools between calls (docs/lamps.md), into docs/evaluation/lamps/
  --figure ID,…     FIGURES
  --seed ${DEFAULT_SEEDS.autellix}  of programs and arrivals (lamps: ${DEFAULT_SEEDS.lamps}; with --quick: ${QUICK_SEEDS}); more than one gives confidence intervals
  --ablation-seeds ${ABLATION_SEEDS}  how many of them figures other than the main ones play (autellix: 12, 13; lamps: 6, 7, 8)
  --seats 64,128    only cells with so many seats (of --figure learned)
  --loads 1,1.5     only cells of these loads (of --figure learned)
  --quick           fewer programs and rates; the report says so
  --out DIR         where the report goes (default docs/evaluation; with --quick, --partial or --figure: .switchyard/evaluation/report)
  --render FILE     plays nothing: writes the report of this evaluation.json, its Markdown and labels of its figures, anew
  --json FILE       every run with its spec and outcome
  --minutes N       begin no run after N minutes; what is finished is kept, and the same command goes on from there
  --partial         when time is up write the report of what is finished: curves end early, figures that lack runs are left out
  --cache DIR       finished runs (default .switchyard/evaluation/runs); a change of the code that they depend on plays them again
  --threads N       runs at a time (default: one for each core)
  --help`

export interface Options {
  paper: PaperName
  figures: string[]
  seeds: Seeds
  /** Null: every cell. */
  part: Part | null
  quick: boolean
  out: string
  json: string | null
  minutes: number | null
  /** Report what is finished when time is up. */
  partial: boolean
  cache: string
  threads: number
  /** What was typed after `npm run evaluate`. */
  argv: readonly string[]
}

const TEXT = { type: 'string' } as const
const FLAGS = {
  'ablation-seeds': TEXT,
  ...{
    paper: { ...TEXT, default: 'autellix' },
    figure: TEXT,
    seed: TEXT,
    seats: TEXT,
    loads: TEXT,
    out: TEXT,
    json: TEXT,
    minutes: TEXT,
    cache: TEXT,
    threads: TEXT,
  },
  quick: { type: 'boolean', default: false },
  partial: { type: 'boolean', default: false },
} as const

export type Parsed = { ok: true; options: Options } | { ok: false; reason: string }

export function parseOptions(argv: readonly string[]): Parsed {
  const flags = readFlags('evaluate', argv, FLAGS)
  if (!flags.ok) return flags
  try {
    return { ok: true, options: read(flags.values, argv) }
  } catch (error) {
    if (!(error instanceof FlagError)) throw error
    return { ok: false, reason: error.message }
  }
}

type Values = Partial<
  Record<
    'figure' | 'seed' | 'seats' | 'loads' | 'ablation-seeds' | 'out' | 'json' | 'minutes' | 'cache' | 'threads',
    string
  >
> & {
  paper: string
  quick: boolean
  partial: boolean
}

function read(values: Values, argv: readonly string[]): Options {
  const paper = oneOf('--paper', values.paper, PAPER_NAMES)
  const figure_ids = PAPERS[paper].figures.map(({ id }) => id)
  const { figure, seed, out, json, minutes, cache, threads, quick, partial } = values
  const seeds = list(seed ?? (quick ? QUICK_SEEDS : DEFAULT_SEEDS[paper]), (text) =>
    integer('--seed', text, 0, SEED_MAX),
  )
  if (new Set(seeds).size < seeds.length) throw new FlagError('--seed names a seed twice')
  if (seeds.length > SEEDS_MAX) throw new FlagError(`--seed takes at most ${SEEDS_MAX} seeds`)
  const ablations = integer('--ablation-seeds', values['ablation-seeds'] ?? `${ABLATION_SEEDS}`, 1, SEEDS_MAX)
  const preliminary = quick || partial || figure !== undefined
  return {
    paper,
    figures: figure === undefined ? [...figure_ids] : list(figure, (id) => oneOf('--figure', id, figure_ids)),
    seeds: { all: seeds, ablations },
    part: partOf(values),
    quick,
    partial,
    out: out ?? (preliminary ? path.join('.switchyard', 'evaluation', REPORTS[paper]) : PAPERS[paper].out),
    json: json ?? null,
    minutes: minutes === undefined ? null : number('--minutes', minutes, { above: 0, max: MINUTES_MAX }),
    cache: cache ?? path.join('.switchyard', 'evaluation', 'runs'),
    threads: threads === undefined ? availableParallelism() : integer('--threads', threads, 1, THREADS_MAX),
    argv,
  }
}

function partOf({ figure, seats, loads }: Values): Part | null {
  if (seats === undefined && loads === undefined) return null
  if (figure !== GRID_FIGURE) throw new FlagError(`--seats and --loads go with --figure ${GRID_FIGURE}`)
  const of = (flag: string, text: string | undefined, known: readonly number[]) =>
    text === undefined ? [] : list(text, (one) => Number(oneOf(flag, one, known.map(String))))
  return { seats: of('--seats', seats, GRID.seats), loads: of('--loads', loads, GRID.loads) }
}
