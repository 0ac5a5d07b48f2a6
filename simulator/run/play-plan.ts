/** How programs are to be played: every combination of policy, rate, balancer, fleet and seed, each a simulation of its own. */
import type { LatencyProfile } from '../../gpu-agent/engine/backends/emulated/profiles/profile.ts'
import type { ServiceReading } from '../../src/core/call/service.ts'
import type { BalancerName } from '../../src/core/pool/balancers/index.ts'
import { arrivalTimesUs } from '../arrivals.ts'
import type { PolicyName, PolicyTuning } from '../policies/index.ts'
import type { EngineSizes, Region, SimulationConfig, TenantConfig } from '../simulation.ts'
import type { WorkloadProgram } from '../workloads/program.ts'
import type { ForecastSource } from '../world/call-forecasts.ts'

/** Where nothing names regions. */
const ONLY_REGION = 'region'

/** Regions with their engines. */
export type Fleet = readonly Region[]

/** What orders calls: engines themselves, or the agent's queue before engines that do not. */
export const FRONT_NAMES = ['engine', 'queue'] as const
export type FrontName = (typeof FRONT_NAMES)[number]

/** All in one region. */
export function fleetOf(engines: number): Fleet {
  return [{ name: ONLY_REGION, engines }]
}

export function enginesOf(fleet: Fleet): number {
  return fleet.reduce((sum, { engines }) => sum + engines, 0)
}

/** Plain data: it travels to worker threads. */
export interface PlayPlan {
  arrivals: { kind: 'poisson' } | { kind: 'gamma'; cv: number } | { kind: 'trace' } | { kind: 'burst' }
  policies: readonly PolicyName[]
  rates: readonly number[]
  balancers: readonly BalancerName[]
  short_prompt_tokens: number
  seeds: readonly number[]
  /** With the context that the engines are given. */
  profile: LatencyProfile
  /** The profile's own context. */
  profile_context_tokens: number
  engine: EngineSizes
  tuning: PolicyTuning
  /** What policies that weigh memory are told of calls. */
  forecast: ForecastSource
  reading: ServiceReading
  fleets: readonly Fleet[]
  rtt_us: ReadonlyMap<string, number>
  report_us: number
  /** Of each region's pool. */
  shards: number
  tenants: readonly TenantConfig[]
  /** What a program's class says: its workload, or nothing. */
  label: 'workload' | 'none'
  /** What policies that learn have seen before: a trace, or this many programs drawn with another seed; null: nothing. */
  history: string | number | null
  jump: boolean
  fronts: readonly FrontName[]
}

/** One simulation of a plan. */
export interface RunPoint {
  policy: PolicyName
  rate: number
  balancer: BalancerName
  fleet: Fleet
  seed: number
  front: FrontName
}

/** Seeds outermost and policies innermost, so that the first half of the results compares all policies. */
export function pointsOf({ policies, rates, balancers, fleets, seeds, fronts }: PlayPlan): RunPoint[] {
  return seeds.flatMap((seed) =>
    rates.flatMap((rate) =>
      fleets.flatMap((fleet) =>
        balancers.flatMap((balancer) =>
          fronts.flatMap((front) => policies.map((policy) => ({ policy, rate, balancer, fleet, seed, front }))),
        ),
      ),
    ),
  )
}

/** Of engines that order calls themselves; front-config.ts has the others. */
export function configOf(
  plan: PlayPlan,
  point: RunPoint,
  programs: readonly WorkloadProgram[],
  history: readonly WorkloadProgram[],
): SimulationConfig {
  const { kind } = plan.arrivals
  const process = kind === 'burst' ? { kind } : { ...plan.arrivals, rate: point.rate }
  return {
    programs,
    arrivals_us: arrivalTimesUs(process as Parameters<typeof arrivalTimesUs>[0], programs, point.seed),
    profile: plan.profile,
    engine: plan.engine,
    policy: point.policy,
    tuning: plan.tuning,
    forecast: plan.forecast,
    reading: plan.reading,
    balancer: point.balancer,
    short_prompt_tokens: plan.short_prompt_tokens,
    regions: point.fleet,
    rtt_us: plan.rtt_us,
    report_us: plan.report_us,
    shards: plan.shards,
    tenants: plan.tenants,
    seed: point.seed,
    labelled: plan.label === 'workload',
    history,
    jump: plan.jump,
  }
}
