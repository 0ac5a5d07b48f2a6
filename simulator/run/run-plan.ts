/** What one `run` command asks for: every combination of policy, rate, balancer, fleet and seed, each a simulation of its own. */
import type { LatencyProfile } from '../../gpu-agent/engine/backends/emulated/profiles/index.ts'
import type { ServiceReading } from '../../src/core/call/service.ts'
import type { BalancerName } from '../../src/core/pool/balancers/index.ts'
import { arrivalTimesUs } from '../arrivals.ts'
import type { PolicyName, PolicyTuning } from '../policies/index.ts'
import { seededRandom } from '../random.ts'
import type { EngineSizes, Region, SimulationConfig, TenantConfig } from '../simulation.ts'
import { beyondContext, drawWorkload, readTrace, type WorkloadName, type WorkloadProgram } from '../workloads/index.ts'
import type { ForecastSource } from '../world/call-forecasts.ts'

export type WorkloadSource = { kind: 'drawn'; name: WorkloadName } | { kind: 'traces'; files: readonly string[] }

/** Regions with their engines. */
export type Fleet = readonly Region[]

export function enginesOf(fleet: Fleet): number {
  return fleet.reduce((sum, { engines }) => sum + engines, 0)
}

/** Plain data: it travels to worker threads. */
export interface RunPlan {
  workload: WorkloadSource
  programs: number
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
  tenants: readonly TenantConfig[]
  /** What a program's class says: its workload, or nothing. */
  label: 'workload' | 'none'
  /** What policies that learn have seen before: a trace, or this many programs drawn with another seed; null: nothing. */
  history: string | number | null
  jump: boolean
}

/** One simulation of a plan. */
export interface RunPoint {
  policy: PolicyName
  rate: number
  balancer: BalancerName
  fleet: Fleet
  seed: number
}

/** Seeds outermost and policies innermost, so that the first half of the results compares all policies. */
export function pointsOf({ policies, rates, balancers, fleets, seeds }: RunPlan): RunPoint[] {
  return seeds.flatMap((seed) =>
    rates.flatMap((rate) =>
      fleets.flatMap((fleet) =>
        balancers.flatMap((balancer) => policies.map((policy) => ({ policy, rate, balancer, fleet, seed }))),
      ),
    ),
  )
}

export function configOf(
  plan: RunPlan,
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
    tenants: plan.tenants,
    seed: point.seed,
    labelled: plan.label === 'workload',
    history,
    jump: plan.jump,
  }
}

type ProgramsPlan = Pick<RunPlan, 'workload' | 'programs' | 'arrivals' | 'profile'>

/** A plan's programs for one seed; files are read once. */
export class WorkloadPrograms {
  readonly #plan: ProgramsPlan
  #read: WorkloadProgram[][] | null = null

  constructor(plan: ProgramsPlan) {
    this.#plan = plan
  }

  /** Throws TraceError or RangeError for the first program that does not fit into the engines' context. */
  of(seed: number): WorkloadProgram[] {
    const { workload, programs, arrivals, profile } = this.#plan
    const context_tokens = Math.min(profile.slot_tokens_max, profile.capacity_blocks * profile.block_tokens)
    if (workload.kind === 'drawn') return drawnWithin(context_tokens, workload.name, programs, seed)
    this.#read ??= workload.files.map((file) => readTrace(file, { context_tokens }))
    // A trace's own arrivals belong to its own programs.
    if (arrivals.kind === 'trace') return this.#read.flat().slice(0, programs)
    return sample(this.#read, programs, seed)
  }
}

function drawnWithin(context_tokens: number, name: WorkloadName, programs: number, seed: number): WorkloadProgram[] {
  const drawn = drawWorkload(name, programs, seed)
  for (const program of drawn) {
    const beyond = beyondContext(program, context_tokens)
    if (beyond !== null) throw new RangeError(`${program.id}: ${beyond.field}: ${beyond.reason}`)
  }
  return drawn
}

/** Programs drawn from the files in equal shares, without replacement until a file is used up, then from all of it again. */
function sample(files: readonly WorkloadProgram[][], programs: number, seed: number): WorkloadProgram[] {
  const random = seededRandom(seed)
  const left: WorkloadProgram[][] = files.map(() => [])
  return Array.from({ length: programs }, (_, index) => {
    const at = index % files.length
    if (left[at]?.length === 0) left[at] = [...(files[at] as WorkloadProgram[])]
    const deck = left[at] as WorkloadProgram[]
    const drawn = Math.floor(random() * deck.length)
    const program = deck[drawn] as WorkloadProgram
    deck[drawn] = deck.at(-1) as WorkloadProgram
    deck.pop()
    return program
  })
}
