/** `npm run simulate -- quota`: which limits of a hosted API a workload needs, as multiples of those that are given. */
import { writeFileSync } from 'node:fs'
import { fail } from '../../cli/flags.ts'
import { withProgress } from '../../cli/progress.ts'
import { type Column, textTable } from '../../cli/table.ts'
import { limitText } from '../../gpu-agent/engine/queue/limits/limit-spec.ts'
import { Refused, runPoints } from '../run/run-all.ts'
import type { RunPlan } from '../run/run-plan.ts'
import { type ProviderConfig, timesLimits } from '../world/sim-provider.ts'
import { type FleetPlan, parseQuotaFlags } from './fleet-flags.ts'
import { fleetPlot } from './fleet-plot.ts'
import { type Candidate, type PlayedSize, searchFleets, type Target } from './fleet-search.ts'

const FORMAT = 1

const QUOTA_HELP = `Which limits of a hosted API a workload needs: the least multiple of --quota that meets a target, for each policy of the agent's queue.

  npm run simulate -- quota --quota requests=60/min,tokens=200k/min --workload bfcl --rate 0.5 --p95-s 120 --policy fcfs,plas

  --quota LIMIT,…     the limits that are multiplied (required)
  --times 1..64       from how many times them to how many
  --p95-ms X          95 % of programs take at most X ms for each token that they generate, or
  --p95-s X           95 % of programs have ended X seconds after they began

What is played is said by the flags of run (npm run simulate -- run --help): --workload or --trace, --rate, --programs, --arrivals,
--policy, --seed (default 1,2,3), --quota-counts, --quota-shape, --ttft-ms, --tokens-per-s, --history.

Output
  --json FILE         every multiple that was played
  --plot FILE.svg     the p95 against the multiple
  --help`

export async function quotaCommand(argv: readonly string[]): Promise<void> {
  if (argv.includes('--help') || argv.includes('-h')) return console.log(QUOTA_HELP)
  const flags = parseQuotaFlags(argv)
  if (!flags.ok) return fail(flags.reason)
  const [plan, other] = flags.plan.plans
  if (other !== undefined) return fail('--profile names one profile here: a hosted API has no engines to compare')
  if (plan === undefined || plan.provider === null) {
    return fail('say which limits are to be multiplied: --quota requests=60/min,tokens=200k/min')
  }
  const { target, range, outputs } = flags.plan
  const candidates = await searched(plan, flags.plan)
  if (outputs.json !== null) {
    const found = candidates.map(({ policy, played, fewest_engines }) => ({
      policy,
      least_times: fewest_engines,
      played: played.map(({ engines: times, ...figures }) => ({ times, ...figures })),
    }))
    const quota = plan.provider.limits.map(limitText)
    writeFileSync(outputs.json, `${JSON.stringify({ format: FORMAT, target, times: range, quota, found }, null, 2)}\n`)
  }
  const title = { title: 'Which multiple of the limits meets the target', size: 'times the limits' }
  if (outputs.plot !== null) writeFileSync(outputs.plot, fleetPlot(candidates, target, title))
  console.log(textTable(columnsOf(plan.provider, target, range.max), candidates))
}

async function searched(plan: RunPlan, { target, range, outputs: { threads } }: FleetPlan): Promise<Candidate[]> {
  let detail = 'starting'
  const onProgress = (done: number, of: number) => {
    detail = `${done.toFixed(1)} of ${of} runs of this round`
  }
  try {
    const options = { onProgress, ...(threads === null ? {} : { threads }) }
    const work = () => searchFleets(plan, target, range, (points) => runPoints(plan, points, options))
    return await withProgress('Searching', work, () => detail)
  } catch (error) {
    if (error instanceof Refused) return fail(error.message)
    throw error
  }
}

function columnsOf(provider: ProviderConfig, { measure }: Target, times_max: number): Column<Candidate>[] {
  const right = (title: string, cell: (candidate: Candidate) => string): Column<Candidate> => ({
    ...{ title, align: 'right', cell },
  })
  const unit = measure === 'program_s' ? 's' : 'ms/token'
  const shown = ({ played, fewest_engines }: Candidate) =>
    (played.find(({ engines }) => engines === fewest_engines) ?? played.at(-1)) as PlayedSize
  const less = ({ played, fewest_engines }: Candidate) =>
    played.find(({ engines }) => engines === (fewest_engines ?? 0) - 1)
  return [
    { title: 'policy', cell: ({ policy }) => policy },
    right('times', ({ fewest_engines }) => `${fewest_engines ?? `> ${times_max}`}`),
    {
      title: 'limits',
      cell: ({ fewest_engines }) =>
        fewest_engines === null ? '' : timesLimits(provider, fewest_engines).limits.map(limitText).join(', '),
    },
    right(`mean ${unit}`, (one) => shown(one).mean.toFixed(1)),
    right(`p95 ${unit}`, (one) => shown(one).p95.toFixed(1)),
    right('worst seed', (one) => shown(one).p95_worst.toFixed(1)),
    right('one time less', (one) => less(one)?.p95.toFixed(1) ?? ''),
  ]
}
