/** Plays sizes of fleets until the fewest engines that meet the target are known, for each profile, policy and balancer. */
import type { BalancerName } from '../../src/core/pool/balancers/index.ts'
import type { PolicyName } from '../policies/index.ts'
import { type FrontName, fleetOf, type PlayPlan, type RunPoint } from '../run/play-plan.ts'
import type { RunResult } from '../run/run-result.ts'
import { mean } from '../statistics.ts'
import { type EngineRange, fewestEngines, nextEngines } from './fewest-engines.ts'

export interface Target {
  measure: 'ms_per_token' | 'program_s'
  /** Of the 95th percentile over programs, in the measure's unit. */
  at_most: number
}

/** One number of engines; means over seeds. */
export interface PlayedSize {
  engines: number
  /** In the target's unit. */
  p95: number
  /** Of the seeds, the worst. */
  p95_worst: number
  meets: boolean
  busy_share: number
  cached_prompt_share: number
  output_tokens_per_s: number
  /** Mean over programs, in the target's unit. */
  mean: number
}

export interface Candidate {
  profile: string
  /** Of one engine. */
  gpus: number
  policy: PolicyName
  balancer: BalancerName
  front: FrontName
  /** Ascending. */
  played: PlayedSize[]
  /** Null: none in the range meets the target. */
  fewest_engines: number | null
}

/** The results in the order of the points. */
export type PlayPoints = (points: readonly RunPoint[]) => Promise<RunResult[]>

/** What the plan's rate says is played; a plan has one rate here. Throws what `play` throws. */
export async function searchFleets(
  plan: PlayPlan,
  target: Target,
  range: EngineRange,
  play: PlayPoints,
): Promise<Candidate[]> {
  const { policies, balancers, profile, fronts } = plan
  const candidates = balancers.flatMap((balancer) =>
    fronts.flatMap((front) => policies.map((policy) => ({ policy, balancer, front, played: [] as PlayedSize[] }))),
  )
  for (;;) {
    const round = candidates.flatMap((candidate) => {
      const engines = nextEngines(range, metBy(candidate.played))
      return engines === null ? [] : [{ candidate, engines, points: pointsFor(plan, candidate, engines) }]
    })
    if (round.length === 0) break
    const points = round.flatMap((one) => one.points)
    const results = await play(points)
    for (const { candidate, engines, points: own } of round)
      candidate.played.push(playedSize(engines, results.splice(0, own.length), target))
  }
  return candidates.map(({ policy, balancer, front, played }) => ({
    ...{ profile: profile.name, gpus: profile.gpus ?? 1, policy, balancer, front },
    played: played.toSorted((a, b) => a.engines - b.engines),
    fewest_engines: fewestEngines(metBy(played)),
  }))
}

function metBy(played: readonly PlayedSize[]): Map<number, boolean> {
  return new Map(played.map(({ engines, meets }) => [engines, meets]))
}

export function pointsFor(
  { rates, seeds }: PlayPlan,
  { policy, balancer, front }: Pick<RunPoint, 'policy' | 'balancer' | 'front'>,
  engines: number,
): RunPoint[] {
  const fleet = fleetOf(engines)
  return seeds.flatMap((seed) => rates.map((rate) => ({ policy, balancer, rate, fleet, seed, front })))
}

export function playedSize(engines: number, runs: readonly RunResult[], { measure, at_most }: Target): PlayedSize {
  const latencies = runs.map((run) => (measure === 'program_s' ? run.program_latency_s : run.program_token_latency_ms))
  const each = latencies.map(({ p95 }) => p95)
  const p95 = mean(each)
  return {
    ...{ engines, p95, p95_worst: Math.max(...each), meets: p95 <= at_most },
    busy_share: mean(runs.map(({ busy_share }) => busy_share)),
    cached_prompt_share: mean(runs.map(({ cached_prompt_share }) => cached_prompt_share)),
    mean: mean(latencies.map((latency) => latency.mean)),
    output_tokens_per_s: mean(runs.map(({ output_tokens, makespan_s }) => output_tokens / makespan_s)),
  }
}
