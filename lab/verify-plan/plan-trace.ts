/** What `npm run simulate -- plan` says of a trace: the same flags, the same search. */
import { parseFleetFlags } from '../../simulator/fleet/fleet-flags.ts'
import { type Candidate, searchFleets } from '../../simulator/fleet/fleet-search.ts'
import { runPoints } from '../../simulator/run/run-all.ts'
import { PACED } from './paced-profile.ts'

export interface PlannedTrace {
  target_ms: number
  policy: string
  balancer: string
  engines: number
  /** By number of engines. */
  p95_ms: ReadonlyMap<number, number>
}

/** The command that plans it, as a user types it. */
export function planFlags(trace_file: string, profile_file: string, p95_ms: number, policy: string): string[] {
  return [
    ...['--trace', trace_file, '--p95-ms', `${p95_ms}`, '--profile', profile_file],
    ...['--max-seqs', `${PACED.seats}`, '--policy', policy, '--engines', '1..32'],
  ]
}

/** Throws RangeError where the plan names no size that has one engine fewer. */
export async function planTrace(flags: readonly string[]): Promise<PlannedTrace> {
  const parsed = parseFleetFlags(flags)
  if (!parsed.ok) throw new RangeError(parsed.reason)
  const { plans, target, range } = parsed.plan
  const [plan] = plans
  if (plan === undefined) throw new RangeError('there is no profile')
  const [found] = await searchFleets(plan, target, range, (points) => runPoints(plan, points))
  const { fewest_engines, policy, balancer, played } = found as Candidate
  if (fewest_engines === null || fewest_engines < 2) {
    const what = fewest_engines === null ? `no fleet of up to ${range.max} engines meets` : 'one engine meets'
    throw new RangeError(`${what} ${target.at_most} ms a token: there is nothing to compare. Choose another target`)
  }
  const p95_ms = new Map(played.map(({ engines, p95 }) => [engines, p95]))
  return { target_ms: target.at_most, policy, balancer, engines: fewest_engines, p95_ms }
}
