/** `npm run simulate -- plan`: how many engines a workload needs, and what they cost. */
import { writeFileSync } from 'node:fs'
import { fail } from '../../cli/flags.ts'
import { withProgress } from '../../cli/progress.ts'
import { type Column, textTable } from '../../cli/table.ts'
import { Refused } from '../run/run-all.ts'
import { type FleetPlan, PLAN_HELP, parseFleetFlags } from './fleet-flags.ts'
import { fleetPlot } from './fleet-plot.ts'
import { type Candidate, type PlayedSize, searchFleets, type Target } from './fleet-search.ts'

/** Of the JSON file's shape. */
const FORMAT = 1
/** Beyond it a fleet may be one that only keeps up because the traffic ends. */
const BUSY_MAX = 0.95

export async function planCommand(argv: readonly string[]): Promise<void> {
  if (argv.includes('--help') || argv.includes('-h')) return console.log(PLAN_HELP)
  const flags = parseFleetFlags(argv)
  if (!flags.ok) return fail(flags.reason)
  const { plan } = flags
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
  console.log(`${textTable(columnsOf(plan), candidates)}\n\n${inWords(candidates, plan)}`)
}

async function searched({ plans, target, range, outputs: { threads } }: FleetPlan): Promise<Candidate[]> {
  let detail = 'starting'
  const work = async () => {
    const found: Candidate[] = []
    for (const plan of plans) {
      const onProgress = (done: number, of: number) => {
        detail = `${plan.profile.name}, ${done.toFixed(1)} of ${of} runs of this round`
      }
      found.push(...(await searchFleets(plan, target, range, { onProgress, ...(threads === null ? {} : { threads }) })))
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

/** Fewest GPUs first, then the lower latency. What misses the target comes last. */
function byCost(a: Candidate, b: Candidate): number {
  const gpus = ({ fewest_engines, gpus: each }: Candidate) => (fewest_engines ?? Number.POSITIVE_INFINITY) * each
  const more = gpus(a) === gpus(b) ? 0 : gpus(a) - gpus(b)
  return more || shownOf(a).p95 - shownOf(b).p95
}

/** The fewest engines that meet the target. If none does, the most that were played. */
function shownOf({ played, fewest_engines }: Candidate): PlayedSize {
  return (played.find(({ engines }) => engines === fewest_engines) ?? played.at(-1)) as PlayedSize
}

function oneFewer({ played, fewest_engines }: Candidate): PlayedSize | undefined {
  return fewest_engines === null ? undefined : played.find(({ engines }) => engines === fewest_engines - 1)
}

function costOf({ fewest_engines, gpus }: Candidate, gpu_cost: number | null): number | null {
  return fewest_engines === null || gpu_cost === null ? null : fewest_engines * gpus * gpu_cost
}

const p95Title = ({ measure }: Target) => (measure === 'program_s' ? 'p95 s' : 'p95 ms/token')
const inUnit = ({ measure }: Target, value: number) =>
  measure === 'program_s' ? `${value.toFixed(1)} s` : `${value.toFixed(1)} ms a token`

function columnsOf({ target, range, gpu_cost }: FleetPlan): Column<Candidate>[] {
  const right = (title: string, cell: (candidate: Candidate) => string): Column<Candidate> => ({
    ...{ title, align: 'right', cell },
  })
  return [
    { title: 'profile', cell: ({ profile }) => profile },
    { title: 'policy', cell: ({ policy }) => policy },
    { title: 'balancer', cell: ({ balancer }) => balancer },
    right('engines', ({ fewest_engines }) => `${fewest_engines ?? `> ${range.max}`}`),
    right('GPUs', ({ fewest_engines, gpus }) => (fewest_engines === null ? '' : `${fewest_engines * gpus}`)),
    ...(gpu_cost === null ? [] : [right('cost/h', (one) => costOf(one, gpu_cost)?.toFixed(2) ?? '')]),
    right(p95Title(target), (one) => shownOf(one).p95.toFixed(1)),
    right('worst seed', (one) => shownOf(one).p95_worst.toFixed(1)),
    right('one fewer', (one) => oneFewer(one)?.p95.toFixed(1) ?? ''),
    right('busy %', (one) => (shownOf(one).busy_share * 100).toFixed(0)),
    right('cached %', (one) => (shownOf(one).cached_prompt_share * 100).toFixed(0)),
    right('tokens/s', (one) => shownOf(one).output_tokens_per_s.toFixed(0)),
  ]
}

/** `candidates`: the best first. */
function inWords(candidates: readonly Candidate[], { target, range, gpu_cost }: FleetPlan): string {
  const best = candidates[0] as Candidate
  const goal = `a p95 of ${inUnit(target, target.at_most)}`
  if (best.fewest_engines === null) {
    return (
      `No fleet of up to ${range.max} engines meets ${goal}. The nearest has ${inUnit(target, shownOf(best).p95)}. ` +
      `Try more (--engines ${range.max}..${range.max * 4}), another profile, or a higher target.`
    )
  }
  const cost = costOf(best, gpu_cost)
  const fewer = oneFewer(best)
  return (
    `${best.fewest_engines} ${best.fewest_engines === 1 ? 'engine' : 'engines'} of ${best.profile} with ${best.policy} and ${best.balancer} meet ${goal}` +
    `${cost === null ? '' : ` for ${cost.toFixed(2)} an hour`}: ${inUnit(target, shownOf(best).p95)}.` +
    `${fewer === undefined ? '' : ` With ${fewer.engines} it would be ${inUnit(target, fewer.p95)}.`}${busyWarning(shownOf(best))}`
  )
}

function busyWarning({ busy_share }: PlayedSize): string {
  if (busy_share <= BUSY_MAX) return ''
  return (
    `\nThey are busy ${(busy_share * 100).toFixed(0)} % of the time: if the traffic lasts longer than what was played, queues may go on growing. ` +
    'Play more of it (--programs) to see.'
  )
}
