/** SamuLLM's evaluation as Markdown, with its Gantt charts. */
import type { Goal, Panel, Table } from '../figure.ts'
import { tidiedText } from '../report/tidy.ts'

export interface SamullmReport {
  command: string
  seeds: readonly number[]
  date: string
  machine: string
  quick: boolean
  goals: readonly Goal[]
  tables: readonly Table[]
  panels: readonly Panel[]
}

const INTRODUCTION = [
  "SamuLLM's evaluation (§5): offline applications of several models on eight A100-80GB, planned by gpu-agent/planner from drawn output lengths, and carried out " +
    'in simulated time by the dynamic scheduler (§4.3) while the requests have other lengths, drawn again. One cost model serves every planner; it is fitted to the ' +
    "authors' logs, and models without a log are transferred (gpu-agent/planner/README.md). So a plan and its run differ in lengths, not in what an iteration takes.",
  'Times are end to end: simulated seconds of the run, and measured CPU seconds of the planning on this machine. A multiple above 1 means that ours is faster. ' +
    '± is a 95 % confidence interval over seeds (Student’s t). greedy is the paper’s Algorithm 1, ours a local search over the same cost model; Max and Min are the ' +
    'paper’s heuristics with the best (dp, tp) by the cost model. Inputs have the marginals that the paper publishes (simulator/planner/paper/applications.ts).',
]

export function markdown({ command, seeds, date, machine, quick, goals, tables, panels }: SamullmReport): string {
  return [
    '# Evaluation: applications of several models',
    '',
    ...INTRODUCTION.flatMap((paragraph) => [paragraph, '']),
    `    ${command}`,
    '',
    `Seeds ${seeds.join(', ')}; ${date}; ${machine}.`,
    ...(quick ? ['', '**A quick evaluation: few cells.**'] : []),
    '',
    '## Goals',
    '',
    ...tableLines({
      title: '',
      columns: ['goal', 'target', 'ours', 'verdict'],
      rows: goals.map(({ goal, target, ours, met }) => [
        goal,
        target,
        ours,
        met === null ? 'not known' : met ? 'met' : 'missed',
      ]),
    }),
    '',
    ...tables.flatMap((table) => [`## ${table.title}`, '', ...tableLines(table), '']),
    '## Plans',
    '',
    ...panels.flatMap(({ name, alt }) => [`![${alt}](${name}.svg)`, '']),
  ].join('\n')
}

function tableLines({ columns, rows }: Table): string[] {
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell) => tidiedText(cell).replaceAll('|', '\\|')).join(' | ')} |`
  return [line(columns), `|${columns.map(() => '---').join('|')}|`, ...rows.map(line)]
}
