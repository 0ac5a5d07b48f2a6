/** `npm run simulate -- forecast`: how well what follows calls is foreseen, on programs that are drawn or read. */
import { writeFileSync } from 'node:fs'
import { fail, readFlags } from '../../cli/flags.ts'
import { type Column, textTable } from '../../cli/table.ts'
import { FlagError, inputFile, integer, oneOf, outputFile } from '../run/flag-values.ts'
import { drawWorkload, PROGRAMS_PER_DRAW_MAX, WORKLOAD_NAMES } from '../workloads/draw.ts'
import type { WorkloadProgram } from '../workloads/program.ts'
import { readTrace, TraceError } from '../workloads/read-trace.ts'
import { replay } from './replay.ts'
import { type ForecastScore, scoresOf } from './score.ts'

const HELP = `Replays programs in order and compares each call with its forecast: what follows it, how long that takes, how much it writes.

  npm run simulate -- forecast --workload NAME [flags]

  --workload NAME    ${WORKLOAD_NAMES.join(', ')}
  --trace FILE       programs of your own instead (docs/traces.md)
  --programs 500     how many are drawn
  --seed 1           of the draw
  --class app        programs of one app learn from each other; or workload: all programs of the workload do
  --json FILE        all figures
  --help

docs/lamps.md says what the figures mean.`

const CLASSES = ['app', 'workload'] as const

export function forecastCommand(argv: readonly string[]): void {
  const flags = readFlags('simulate -- forecast', argv, {
    workload: { type: 'string' },
    trace: { type: 'string' },
    programs: { type: 'string', default: '500' },
    seed: { type: 'string', default: '1' },
    class: { type: 'string', default: 'app' },
    json: { type: 'string' },
    help: { type: 'boolean', short: 'h', default: false },
  })
  if (!flags.ok) fail(flags.reason)
  const { values } = flags
  if (values.help) {
    console.log(HELP)
    return
  }
  try {
    const by = oneOf('--class', values.class, CLASSES)
    const json = outputFile('--json', values.json)
    const programs = programsOf(values)
    const scores = scoresOf(replay(programs, ({ app, workload }) => (by === 'app' ? (app ?? workload) : workload)))
    console.log(textTable(COLUMNS, scores))
    if (json !== null) writeFileSync(json, `${JSON.stringify({ classes: scores }, null, 2)}\n`)
  } catch (error) {
    if (error instanceof TraceError || error instanceof FlagError) fail(error.message)
    throw error
  }
}

interface Source {
  workload?: string | undefined
  trace?: string | undefined
  programs: string
  seed: string
}

function programsOf({ workload, trace, programs, seed }: Source): WorkloadProgram[] {
  if ((workload === undefined) === (trace === undefined)) throw new FlagError('give --workload NAME or --trace FILE')
  if (trace !== undefined) return readTrace(inputFile('--trace', trace))
  const name = oneOf('--workload', workload ?? '', WORKLOAD_NAMES)
  const count = integer('--programs', programs, 1, PROGRAMS_PER_DRAW_MAX)
  return drawWorkload(name, count, integer('--seed', seed, 0, Number.MAX_SAFE_INTEGER))
}

const percent = (share: number): string => `${(100 * share).toFixed(1)} %`
const times = (ratio: number | null): string => (ratio === null ? '–' : `${ratio.toFixed(ratio < 10 ? 2 : 0)}×`)
const tokens = (count: number | null): string => (count === null ? '–' : count.toFixed(1))

function column(title: string, cell: (score: ForecastScore) => string): Column<ForecastScore> {
  return { title, cell, align: 'right' }
}

const COLUMNS: readonly Column<ForecastScore>[] = [
  { title: 'class', cell: (score) => score.class },
  column('calls', (score) => `${score.calls}`),
  column('forecast', (score) => percent(score.forecast_share)),
  column('top-1', (score) => percent(score.top1_share)),
  column('log loss', (score) => score.log_loss.toFixed(3)),
  column('unsure', (score) => percent(score.unsure_share)),
  column('time p50', (score) => times(score.tool_ratio_p50)),
  column('p90', (score) => times(score.tool_ratio_p90)),
  column('named p50', (score) => times(score.named_ratio_p50)),
  column('p90', (score) => times(score.named_ratio_p90)),
  column('answer p50', (score) => tokens(score.answer_error_p50_tokens)),
  column('output MAE', (score) => tokens(score.output_mae_tokens)),
  column('Acc-5', (score) => percent(score.output_acc5_share)),
  column('Acc-15', (score) => percent(score.output_acc15_share)),
]
