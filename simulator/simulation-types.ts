/** The config of a simulation and its result. */
import type { LatencyProfile } from '../gpu-agent/engine/backends/emulated/profiles/profile.ts'
import { NO_TOOLS, type ToolCounts } from '../gpu-agent/engine/memory/handling/handling-counts.ts'
import type { Standby } from '../gpu-agent/engine/order/seating.ts'
import type { Measurement } from '../gpu-agent/engine/types.ts'
import type { ServiceRates, ServiceReading } from '../src/core/call/service.ts'
import type { BalancerName } from '../src/core/pool/balancers/index.ts'
import type { PolicyName, PolicyTuning } from './policies/index.ts'
import type { WorkloadProgram } from './workloads/program.ts'
import type { ForecastSource } from './world/call-forecasts.ts'
import type { DecisionWatch, SimEngine } from './world/sim-engine.ts'
import type { Front } from './world/world-engine.ts'

export interface EngineSizes {
  /** Calls in one step. */
  max_seqs: number
  prefix_cache: boolean
  chunked_prefill: boolean
  steps_per_decision: number
  /** Which call gets a seat that falls free between decisions. Default: the next in order. */
  standby?: Standby
  /** Calls wait rather than take the KV of a better program whose tool runs. Default: true, of policies that queue programs. */
  hold_kv?: boolean
  /** Null: an evicted call's KV is computed again. Else KV tokens outside the engine, at the profile's costs of moving them. */
  swap_tokens: number | null
  /** The scheduler's own time per decision. */
  decision_us: number
}

export interface Region {
  name: string
  engines: number
  /** Programs that start here, relative to the other regions. Default: as it has engines. */
  share?: number
}

export interface TenantConfig {
  name: string
  weight: number
  /** Programs that are its, relative to the other tenants. */
  share: number
}

export interface SimulationConfig {
  programs: readonly WorkloadProgram[]
  /** When each program starts. */
  arrivals_us: readonly number[]
  profile: LatencyProfile
  engine: EngineSizes
  policy: PolicyName
  tuning: PolicyTuning
  reading: ServiceReading
  /** Of the modelled reading, and so of what clairvoyant orders take for work. Default: the reference engine's. */
  rates?: ServiceRates
  /** What orders the calls before the engines. Left out: they do it themselves. */
  front?: Front
  balancer: BalancerName
  /** What `locality` takes for a short prompt. Default: the paper's. */
  short_prompt_tokens?: number
  regions: readonly Region[]
  /** Round trip between two regions in microseconds, in either order: `us-eu`. What is absent takes no time. */
  rtt_us: ReadonlyMap<string, number>
  /** An engine reports a changed queue at most so often. */
  report_us: number
  /** Of each region's pool. Default: 1. */
  shards?: number
  tenants: readonly TenantConfig[]
  /** Of the draws that the simulation itself makes: tenants and regions of programs. */
  seed: number
  /** Programs are of the classes that their clients name; else all are of one. */
  labelled: boolean
  /** From the end of an answer until the control plane has its record. Default: none. */
  record_us?: number
  /** Engines are told of a class at most so often. Default: as the control plane tells them. */
  told_us?: number
  /** Programs that ended before, for policies that learn. */
  history?: readonly WorkloadProgram[]
  /** What engines are told of calls, for policies that weigh memory. Default: nothing. */
  forecast?: ForecastSource
  /** Take equal steps at once. The result is the same without. */
  jump: boolean
  /** Ends the simulation at this time, even if programs are open. */
  until_us?: number
  onCall?: (call: CallResult) => void
  onStepped?: (engine: SimEngine, steps: number) => void
  /** A program has ended. */
  onProgram?: (ended: number) => void
  /** Measures the scheduler's decisions in real time. The result does not depend on it. */
  decision_watch?: DecisionWatch
}

export interface ProgramResult {
  id: string
  workload: string
  tenant: string
  region: string
  arrived_us: number
  /** -1: still open when the simulation was ended. */
  response_us: number
  /** From its arrival to its first token. -1: no call of it has ended. */
  first_token_us: number
  output_tokens: number
}

export interface CallResult {
  /** Position in the config's programs. */
  program: number
  call: number
  ended_us: number
  measured: Measurement
}

export interface SimulationResult {
  /** As in the config. */
  programs: ProgramResult[]
  makespan_us: number
  calls: number
  service_us: number
  wait_us: number
  preemptions: number
  /** Times that a call's KV was moved out. */
  swaps: number
  swapped_out_tokens: number
  swapped_in_tokens: number
  recomputed_tokens: number
  /** Time for which engines' steps waited for KV to be moved. */
  swap_us: number
  prompt_tokens: number
  cached_tokens: number
  output_tokens: number
  /** Contexts of programs whose tools ran: held or watched, of them those whose programs came back in time, and the others. */
  holds_begun: number
  holds_returned: number
  holds_expired: number
  /** Decisions in which a call was held back. */
  held_back: number
  /** What became of contexts while tools ran, under a policy that handles them. */
  tools: ToolCounts
  decisions: number
  steps: number
  /** Events on the clock that the steps took; fewer than steps where they were taken at once. */
  step_events: number
  /** Time in which engines computed, over all engines. */
  busy_us: number
  /** Calls that a provider did not take in, each time. */
  refusals: number
}

export function emptyResult(): SimulationResult {
  return {
    programs: [],
    makespan_us: 0,
    calls: 0,
    service_us: 0,
    wait_us: 0,
    preemptions: 0,
    swaps: 0,
    swapped_out_tokens: 0,
    swapped_in_tokens: 0,
    recomputed_tokens: 0,
    swap_us: 0,
    prompt_tokens: 0,
    cached_tokens: 0,
    output_tokens: 0,
    holds_begun: 0,
    holds_returned: 0,
    holds_expired: 0,
    held_back: 0,
    tools: NO_TOOLS,
    decisions: 0,
    steps: 0,
    step_events: 0,
    busy_us: 0,
    refusals: 0,
  }
}
