/** The report as data: figures read from runs, the goals, and the one table of the paper's figures beside ours. */
import type { Figure, FigureContent, PaperRow, Scope } from '../figure.ts'
import { ifPlayed, type Runs } from '../runs/run-chains.ts'
import { figure as number, withInterval } from '../statistics/words.ts'
import type { Provenance } from './provenance.ts'
import type { ReportData } from './report-data.ts'
import { ratioOf, tidiedText } from './tidy.ts'

export interface ReadFigure extends FigureContent {
  figure: Figure
}

export interface Report {
  provenance: Provenance
  figures: readonly ReadFigure[]
  /** Null: everything was played. */
  unfinished: Unfinished | null
}

export interface Unfinished {
  runs_left: number
  /** Titles of figures that could not be read at all. */
  left_out: readonly string[]
}

export function unfinishedText({ runs_left, left_out }: Unfinished): string {
  const without = left_out.length === 0 ? '' : ` Left out for want of runs: ${left_out.join('; ')}.`
  return `Not all runs are finished, at most ${runs_left} are left: some curves end early, and what is read from them is a bound.${without}`
}

/** Null: runs are missing that it cannot do without. */
export function readIfPlayed(figure: Figure, runs: Runs, scope: Scope): ReadFigure | null {
  return ifPlayed(() => readFigure(figure, runs, scope))
}

export function readFigure(figure: Figure, runs: Runs, scope: Scope): ReadFigure {
  return { figure, ...figure.read(runs, scope) }
}

export interface ComparedRow {
  figure: string
  claim: string
  paper: string
  ours: string
  /** Ours ÷ the paper's. */
  ratio: string
  note: string
}

export function comparedRows({ compared }: ReportData): ComparedRow[] {
  return compared.map(({ figure, ours, at_least, note, ...row }) =>
    comparedRow(figure, {
      ...row,
      ours: ours === null ? null : { mean: ours.mean, half_width: ours.half_width_95, samples: ours.seeds },
      ...(at_least === undefined ? {} : { at_least }),
      ...(note === undefined ? {} : { note }),
    }),
  )
}

function comparedRow(figure: string, { claim, paper, ours, unit, at_least, note }: PaperRow): ComparedRow {
  const bound = at_least ? '≥ ' : ''
  const in_unit = unit === '×' ? '×' : ` ${unit}`
  const ratio = ours === null || paper === null ? null : ratioOf(ours.mean, paper)
  return {
    figure,
    claim,
    paper: paper === null ? '–' : `${number(paper)}${in_unit}`,
    ours: ours === null ? '–' : tidiedText(`${bound}${withInterval(ours)}${in_unit}`),
    ratio: ratio === null ? '–' : `${bound}${number(ratio)}`,
    note: note ?? '',
  }
}

export interface GoalRow {
  figure: string
  goal: string
  target: string
  ours: string
  verdict: string
}

export function goals(figures: readonly ReadFigure[]): GoalRow[] {
  return figures.flatMap(({ figure, goals: own = [] }) =>
    own.map(({ goal, target, ours, met }) => ({
      ...{ figure: figure.id, goal, target, ours },
      verdict: met === null ? 'not known' : met ? 'met' : 'missed',
    })),
  )
}
