/** How a report begins: three numbers, one plot, and who loses where. */
import { figure as number } from '../statistics/words.ts'
import type { FigureData, ReportData } from './report-data.ts'

export interface Headline {
  numbers: { value: string; of: string; note: string; figure: string }[]
  /** Null: no figure has a panel. */
  plot: { file: string; alt: string; figure: string; title: string } | null
  losses: { text: string; figure: string }[]
}

const NUMBERS = 3
/** A result that is large enough to be read at a glance. */
const SHORT_CHARS = 24
const SHORT = /\d+ of \d+( \w+ miss)?|-?\d[\d.,]*( ± \d[\d.,]*)?( ?[×%]| times)?/
const LOSSES_MAX = 4
/** The workload that the goals are about, where there is one. */
const MIXED = /-mixed(-mean)?\.svg$/
/** Which losses come first: the figures that gather them. */
const GATHERED = ['misses', 'goals']

export function headline({ goals, compared, figures }: ReportData): Headline {
  const numbers =
    goals.length > 0
      ? goals.slice(0, NUMBERS).map(({ figure, goal, target, ours, verdict }) => {
          const value = numberIn(ours)
          const all = value === ours ? '' : `${ours}; `
          return { value, of: goal, note: `${all}goal ${target}: ${verdict}`, figure }
        })
      : compared
          .filter(({ ours, unit }) => ours !== null && unit === '×')
          .slice(0, NUMBERS)
          .map(({ figure, claim, paper, ours }) => ({
            ...{ value: `${number(ours?.mean ?? 0)}×`, of: claim, figure },
            note: paper === null ? 'the paper gives no figure' : `the paper: ${number(paper)}×`,
          }))
  return { numbers, plot: plotOf(figures, numbers[0]?.figure), losses: lossesOf(figures) }
}

/** A goal's result may be a sentence: its first figure stands for it. */
function numberIn(result: string): string {
  if (result.length <= SHORT_CHARS) return result
  return SHORT.exec(result)?.[0] ?? result
}

function plotOf(figures: readonly FigureData[], first: string | undefined): Headline['plot'] {
  const panels = figures.flatMap(({ id, title, panels: own }) => own.map((panel) => ({ ...panel, figure: id, title })))
  return (
    panels.find(({ file }) => MIXED.test(file)) ?? panels.find(({ figure }) => figure === first) ?? panels[0] ?? null
  )
}

/** What is gathered first, then the first loss of each figure. */
function lossesOf(figures: readonly FigureData[]): Headline['losses'] {
  const worst = figures
    .filter(({ id }) => id === 'misses')
    .flatMap(({ id, tables }) => (tables[0]?.rows ?? []).map((row) => ({ text: missText(row), figure: id })))
  const others = figures
    .filter(({ id }) => !GATHERED.includes(id))
    .flatMap(({ id, losses: [first] }) => (first === undefined ? [] : [{ text: first, figure: id }]))
  return [...worst, ...others].slice(0, LOSSES_MAX)
}

/** A row of the table of misses: what was played, against whom, the two ratios, and why. */
function missText([programs = '', other = '', latency = '', makespan = '', reason = '']: readonly string[]): string {
  return `${programs}, against ${other}: mean latency ${latency}, makespan ${makespan}; ${reason}.`
}
