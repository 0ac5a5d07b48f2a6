/** The report as evaluation.md. */
import type { Table } from '../figure.ts'
import { INTRODUCTIONS } from './introduction.ts'
import { figureCommand, seedsText } from './provenance.ts'
import { comparison, goals, type ReadFigure, type Report, unfinishedText } from './report.ts'

const TITLES = { autellix: '# Evaluation', lamps: '# Evaluation: tools between calls' } as const

export function markdown(report: Report): string {
  const { provenance, figures } = report
  return [
    TITLES[provenance.paper],
    '',
    ...INTRODUCTIONS[provenance.paper].flatMap((paragraph) => [paragraph, '']),
    `    ${provenance.command}`,
    '',
    `${seedsText(provenance)}; ${provenance.date}; ${provenance.machine}; code ${provenance.code_version}.`,
    ...(provenance.quick ? ['', '**A quick evaluation: few programs, one seed, no confidence intervals.**'] : []),
    ...(report.unfinished === null ? [] : ['', `**${unfinishedText(report.unfinished)}**`]),
    '',
    ...goalLines(figures),
    '## The paper beside ours',
    '',
    ...tableLines({
      title: '',
      columns: ['figure', 'claim', 'paper', 'ours', 'ours ÷ paper', 'note'],
      rows: comparison(figures).map((row) => [row.figure, row.claim, row.paper, row.ours, row.ratio, row.note]),
    }),
    '',
    ...figures.flatMap((figure) => figureLines(report, figure)),
  ].join('\n')
}

function goalLines(figures: readonly ReadFigure[]): string[] {
  const rows = goals(figures)
  if (rows.length === 0) return []
  return [
    '## Goals',
    '',
    ...tableLines({
      title: '',
      columns: GOAL_COLUMNS,
      rows: rows.map(({ goal, target, ours, verdict }) => [goal, target, ours, verdict]),
    }),
    '',
  ]
}

export const GOAL_COLUMNS = ['goal', 'target', 'ours', 'verdict'] as const

function figureLines({ provenance }: Report, { figure, panels, shows, losses, tables }: ReadFigure): string[] {
  return [
    `## ${heading(figure.id, figure.title)}`,
    '',
    ...(figure.paper === null ? [] : [`The paper: ${figure.paper}`, '']),
    figure.setup,
    '',
    `    ${figureCommand(provenance, figure)}`,
    '',
    ...panels.flatMap(({ name, alt }) => [`![${alt}](${panelFile(figure.id, name)})`, '']),
    ...list('What it shows', shows),
    ...list('Where we lose', losses.length > 0 ? losses : [NO_LOSS]),
    ...(tables ?? []).flatMap((table) => [`**${table.title}**`, '', ...tableLines(table), '']),
  ]
}

export const NO_LOSS = 'Nowhere in these runs.'

/** `Figure 12: …`; figures that the paper lacks have a name for a number. */
export function heading(id: string, title: string): string {
  return /^\d/.test(id) ? `Figure ${id}: ${title}` : title
}

export function panelFile(figure: string, panel: string): string {
  return `figure-${figure}-${panel}.svg`
}

function list(title: string, items: readonly string[]): string[] {
  return items.length === 0 ? [] : [`**${title}**`, '', ...items.map((item) => `- ${item}`), '']
}

function tableLines({ columns, rows }: Table): string[] {
  const line = (cells: readonly string[]) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
  return [line(columns), `|${columns.map(() => '---').join('|')}|`, ...rows.map(line)]
}
