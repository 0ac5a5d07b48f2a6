/** The report as evaluation.md. */
import type { Table } from '../figure.ts'
import { figureCommand, seedsText } from './provenance.ts'
import { comparison, type ReadFigure, type Report } from './report.ts'

export function markdown(report: Report): string {
  const { provenance, figures } = report
  return [
    '# Evaluation',
    '',
    ...INTRODUCTION.flatMap((paragraph) => [paragraph, '']),
    `    ${provenance.command}`,
    '',
    `${seedsText(provenance)}; ${provenance.date}; ${provenance.machine}; code ${provenance.code_version}.`,
    ...(provenance.quick ? ['', '**A quick evaluation: few programs, one seed, no confidence intervals.**'] : []),
    '',
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

/** Shared with the page. */
export const INTRODUCTION: readonly string[] = [
  "Autellix's evaluation (§3, §6) on the simulator, which runs the scheduler, the policies, the balancers and the process table that serve " +
    'traffic, on a virtual clock with step times fitted to logs of A100s. Programs are drawn from profiles of the workloads.',
  'Latency is program token latency, a program’s response ÷ the tokens that it generated. Throughput at a latency is the highest rate at which ' +
    'its mean is within an SLO, on straight lines between the rates played. ± is a 95 % confidence interval over seeds (Student’s t). ' +
    'Every sentence is made from the runs; where ours loses is said below each figure.',
]

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
