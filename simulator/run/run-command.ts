/** `npm run simulate -- run`. */
import { writeFileSync } from 'node:fs'
import { fail } from '../../cli/flags.ts'
import { withProgress } from '../../cli/progress.ts'
import { type Column, textTable } from '../../cli/table.ts'
import { TraceError, type WorkloadProgram } from '../workloads/index.ts'
import { readHistory } from './history.ts'
import { Refused, runAll } from './run-all.ts'
import { parseRunFlags, RUN_HELP } from './run-flags.ts'
import { runNotes } from './run-notes.ts'
import type { RunPlan } from './run-plan.ts'
import { runPlot } from './run-plot.ts'
import type { RunResult } from './run-result.ts'

export async function runCommand(argv: readonly string[]): Promise<void> {
  if (argv.includes('--help') || argv.includes('-h')) {
    console.log(RUN_HELP)
    return
  }
  const flags = parseRunFlags(argv)
  if (!flags.ok) return fail(flags.reason)
  const { plan, outputs } = flags
  const notes = runNotes(plan, historyOf(plan))
  const runs = await simulated(plan, outputs.threads)
  if (outputs.json !== null) writeFileSync(outputs.json, `${JSON.stringify({ notes, runs }, null, 2)}\n`)
  if (outputs.plot !== null) writeFileSync(outputs.plot, runPlot(runs))
  for (const note of notes) console.log(`${note}\n`)
  console.log(textTable(columnsOf(plan), runs))
}

function historyOf(plan: RunPlan): WorkloadProgram[] {
  try {
    return readHistory(plan)
  } catch (error) {
    if (error instanceof TraceError || error instanceof RangeError) return fail(`--history: ${error.message}`)
    throw error
  }
}

async function simulated(plan: RunPlan, threads: number | null): Promise<RunResult[]> {
  const started_ms = performance.now()
  let detail = 'starting'
  const onProgress = (done: number, of: number) => {
    const elapsed_s = (performance.now() - started_ms) / 1000
    const left_s = done === 0 ? 0 : Math.ceil((elapsed_s * (of - done)) / done)
    detail = `${done.toFixed(1)} of ${of} runs, about ${left_s} s left`
  }
  try {
    const work = () => runAll(plan, { onProgress, ...(threads === null ? {} : { threads }) })
    return await withProgress('Simulating', work, () => detail)
  } catch (error) {
    if (error instanceof Refused) return fail(error.message)
    throw error
  }
}

const figure = (title: string, of: (run: RunResult) => number, digits = 0): Column<RunResult> => ({
  title,
  align: 'right',
  cell: (run) => of(run).toFixed(digits),
})

/** What only a queue or a provider has is shown where there is one. */
function columnsOf({ fronts, provider }: RunPlan): Column<RunResult>[] {
  const is_provider = provider !== null
  const queued = fronts.includes('queue') && !is_provider
  return [
    { title: 'policy', cell: ({ policy }) => policy },
    ...(queued ? [{ title: 'ordered by', cell: ({ front }: RunResult) => front }] : []),
    { title: 'balancer', cell: ({ balancer }) => balancer },
    { title: 'rate/s', align: 'right', cell: ({ rate }) => `${rate}` },
    { title: is_provider ? 'times the limits' : 'engines', align: 'right', cell: ({ engines }) => `${engines}` },
    { title: 'seed', align: 'right', cell: ({ seed }) => `${seed}` },
    figure('ms/token mean', (run) => run.program_token_latency_ms.mean, 1),
    figure('p50', (run) => run.program_token_latency_ms.p50, 1),
    figure('p95', (run) => run.program_token_latency_ms.p95, 1),
    figure('p99', (run) => run.program_token_latency_ms.p99, 1),
    figure('program s', (run) => run.program_latency_s.mean, 1),
    figure('TTFT s', (run) => run.ttft_s.mean, 2),
    figure('makespan s', (run) => run.makespan_s, 1),
    figure('wait %', (run) => run.wait_share * 100),
    ...(is_provider ? [figure('refused', (run) => run.refusals)] : []),
    figure('cached %', (run) => run.cached_prompt_share * 100),
    figure('preempted', (run) => run.preemptions),
    figure('swapped out', (run) => run.swapped_out_tokens),
    figure('recomputed', (run) => run.recomputed_tokens),
    figure('swap s', (run) => run.swap_s, 1),
    figure('took s', (run) => run.sim_wall_s, 1),
  ]
}
