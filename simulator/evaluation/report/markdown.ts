/** The report as evaluation.md. */
import type { Table } from '../figure.ts'
import { headline } from './headline.ts'
import { INTRODUCTIONS } from './introduction.ts'
import { seedsText } from './provenance.ts'
import { comparedRows, unfinishedText } from './report.ts'
import type { FigureData, ReportData } from './report-data.ts'
import { tidied } from './tidy.ts'

const TITLES = { autellix: '# Evaluation', lamps: '# Evaluation: tools between calls' } as const

export function markdown(given: ReportData): string {
  const data = tidied(given)
  const { provenance, figures, unfinished } = data
  return [
    TITLES[provenance.paper],
    '',
    ...headlineLines(data),
    '## How it was measured',
    '',
    ...INTRODUCTIONS[provenance.paper].flatMap((paragraph) => [paragraph, '']),
    `    ${provenance.command}`,
    '',
    `${seedsText(provenance)}; ${provenance.date}; ${provenance.machine}; code ${provenance.code_version}.`,
    ...(provenance.quick ? ['', '**A quick evaluation: few programs, one seed, no confidence intervals.**'] : []),
    ...(unfinished === null ? [] : ['', `**${unfinishedText(unfinished)}**`]),
    '',
    ...goalLines(data),
    '## The paper beside ours',
    '',
    ...tableLines({
      title: '',
      columns: ['figure', 'claim', 'paper', 'ours', 'ours ÷ paper', 'note'],
      rows: comparedRows(data).map((row) => [row.figure, row.claim, row.paper, row.ours, row.ratio, row.note]),
    }),
    '',
    ...figures.flatMap(figureLines),
  ].join('\n')
}

function headlineLines(data: ReportData): string[] {
  const { numbers, plot, losses } = headline(data)
  if (numbers.length === 0) return []
  return [
    ...tableLines({
      title: '',
      columns: ['', 'what', ''],
      rows: numbers.map(({ value, of, note }) => [`**${value}**`, of, note]),
    }),
    '',
    ...(plot === null ? [] : [`![${plot.alt}](${plot.file})`, '']),
    ...list(
      'Who loses where',
      losses.map(({ text }) => text),
    ),
  ]
}

function goalLines({ goals }: ReportData): string[] {
  if (goals.length === 0) return []
  const rows = goals.map(({ goal, target, ours, verdict }) => [goal, target, ours, verdict])
  return ['## Goals', '', ...tableLines({ title: '', columns: GOAL_COLUMNS, rows }), '']
}

export const GOAL_COLUMNS = ['goal', 'target', 'ours', 'verdict'] as const

function figureLines({ id, title, paper, setup, command, panels, shows, losses, tables }: FigureData): string[] {
  return [
    `## ${heading(id, title)}`,
    '',
    ...(paper === null ? [] : [`The paper: ${paper}`, '']),
    setup,
    '',
    `    ${command}`,
    '',
    ...panels.flatMap(({ file, alt }) => [`![${alt}](${file})`, '']),
    ...list('What it shows', shows),
    ...list('Where we lose', losses.length > 0 ? losses : [NO_LOSS]),
    ...tables.flatMap((table) => [`**${table.title}**`, '', ...tableLines(table), '']),
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
