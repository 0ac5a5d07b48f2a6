/** `npm run simulate -- plan`: how many engines a workload needs, and what they cost. */
import { writeFileSync } from 'node:fs'
import { fail } from '../../cli/flags.ts'
import { withProgress } from '../../cli/progress.ts'
import { textTable } from '../../cli/table.ts'
import { Refused, runPoints } from '../run/run-all.ts'
import { type FleetPlan, PLAN_HELP, parseFleetFlags } from './fleet-flags.ts'
import { fleetPlot } from './fleet-plot.ts'
import { type Candidate, searchFleets } from './fleet-search.ts'
import { fleetColumns } from './fleet-table.ts'
import { byCost, costOf, verdictOf } from './fleet-verdict.ts'

/** Of the JSON file's shape. */
const FORMAT = 1

export async function planCommand(argv: readonly string[]): Promise<void> {
  if (argv.includes('--help') || argv.includes('-h')) return console.log(PLAN_HELP)
  const flags = parseFleetFlags(argv)
  if (!flags.ok) return fail(flags.reason)
  const { plan } = flags
  if (plan.plans.some(({ provider }) => provider !== null)) {
    return fail(
      '--quota is of a hosted API, which has no engines: npm run simulate -- quota finds the limits that it needs',
    )
  }
  const candidates = (await searched(plan)).toSorted((a, b) => byCost(a, b))
  const { json, plot } = plan.outputs
  const { target, range: engines, gpu_cost } = plan
  if (json !== null) {
    const found = candidates.map((one) => ({ ...one, cost_per_hour: costOf(one, gpu_cost) }))
    writeFileSync(
      json,
      `${JSON.stringify({ format: FORMAT, target, engines, gpu_cost, candidates: found }, null, 2)}\n`,
    )
  }
  if (plot !== null) writeFileSync(plot, fleetPlot(candidates, target))
  const { sentence, advice } = verdictOf(candidates, plan)
  const next = advice === null ? '' : ADVICE[advice](engines.max)
  console.log(`${textTable(fleetColumns(plan, candidates), candidates)}\n\n${sentence}${next}`)
}

async function searched({ plans, target, range, outputs: { threads } }: FleetPlan): Promise<Candidate[]> {
  let detail = 'starting'
  const work = async () => {
    const found: Candidate[] = []
    for (const plan of plans) {
      const onProgress = (done: number, of: number) => {
        detail = `${plan.profile.name}, ${done.toFixed(1)} of ${of} runs of this round`
      }
      const options = { onProgress, ...(threads === null ? {} : { threads }) }
      found.push(...(await searchFleets(plan, target, range, (points) => runPoints(plan, points, options))))
    }
    return found
  }
  try {
    return await withProgress('Planning', work, () => detail)
  } catch (error) {
    if (error instanceof Refused) return fail(error.message)
    throw error
  }
}

const ADVICE = {
  more_engines: (max: number) => ` Try more (--engines ${max}..${max * 4}), another profile, or a higher target.`,
  floor: () => ' More engines hardly change it: what is left is the time of tools and the speed of a single call.',
  more_traffic: () => ' Play more of it (--programs) to see.',
}
