/**
 * One run of the evaluation as plain data: what is played, by which system, on which engines. Equal specs give equal outcomes,
 * so a spec's hash names its outcome on disk, and figures that ask for the same run share it.
 */
import { createHash } from 'node:crypto'
import type { LearnedConfig } from '../../../gpu-agent/engine/order/policies/learned/learned.ts'
import { BALANCER_DEFAULT, type BalancerName } from '../../../src/core/pool/balancers/index.ts'
import type { SwapKernelName } from '../../engines/swap-kernels.ts'
import type { PolicyTuning } from '../../policies/index.ts'
import type { Region, TenantConfig } from '../../simulation.ts'
import type { ProgramClient, WorkloadName } from '../../workloads/index.ts'
import type { ForecastSource } from '../../world/call-forecasts.ts'
import type { SystemName } from '../systems.ts'

/** Programs of a second workload. */
export interface MorePrograms {
  workload: WorkloadName
  programs: number
  /** Whether they arrive after the first workload's programs, or in random order among them. */
  order: 'after' | 'among'
}

/** How the clients of some programs present them. The first rule for a program counts. */
export interface ClientRule {
  /** Left out: any. */
  workload?: WorkloadName
  /** Of every so many programs of those, so many. Left out: all. */
  share?: { of: number; take: number }
  /** `fresh`: each program has a label of its own. */
  client: ProgramClient & { fresh?: true }
  /** They presented them otherwise before the run, by the app's name. */
  in_run?: true
}

export interface RunSpec {
  /** `toy`: the four programs of figure 2. */
  workload: WorkloadName | 'toy'
  programs: number
  seed: number
  /** Programs per second (Poisson); null: all at the start. */
  rate: number | null
  system: SystemName
  /** `equal-steps`: every step lasts the same (the simulator of Autellix §6.5.3); `unit-step`: one second. */
  profile:
    | 'a100-8b'
    | 'a100-70b-tp4'
    | 'a100-180b-tp8'
    | 'gpt-j-6b-40gb'
    | 'vicuna-13b-40gb'
    | 'equal-steps'
    | 'unit-step'
  max_seqs: number
  /** Of the profile's KV capacity. */
  kv_share: number
  /** False: programs have no system prompt in common. */
  app_prefix: boolean
  /** Host memory for swapped KV: the 1.2 TB of Autellix §6.5.1, or as much as is asked for. */
  swap_store: 'host' | 'unbounded'
  /** Times the profile's costs of moving a token of KV. */
  swap_cost_factor: number
  /** How KV is moved, of `a100-8b`. Left out: at the profile's costs. */
  swap_kernel?: SwapKernelName
  /** The agent's queue orders calls, before engines that serve first come, first served. Left out: engines order them. */
  front?: 'queue'
  /** Programs of the first workload, of another seed, that policies that learn have seen before. Left out: none. */
  history?: number
  /** The workloads of which they were. Left out: all of the run. */
  history_of?: readonly WorkloadName[]
  /** Left out: none. */
  more?: MorePrograms
  /** Left out: each program is labelled with its app, and its end is told. */
  clients?: readonly ClientRule[]
  /** From the end of an answer until its record has come. Left out: none. */
  record_ms?: number
  /** Engines are told of a class at most so often. Left out: as the control plane tells them. */
  told_ms?: number
  /** What differs from the defaults of `learned`. Left out: nothing. */
  learned?: Partial<LearnedConfig>
  /** What policies that weigh memory are told of calls. Left out: nothing. */
  forecast?: ForecastSource
  /** What differs from the defaults of lamps and learned-memory. Left out: nothing. */
  lamps?: NonNullable<PolicyTuning['lamps']>
  /** What differs from the rule by which the policy handles contexts. Left out: nothing. */
  handling?: NonNullable<PolicyTuning['handling']>
  /** Each program is one call, without its tools. Left out: it is as drawn. */
  one_call?: true
  /** Times each prompt token that a call adds. Left out: 1. */
  prompt_scale?: number
  /** The outcome has the KV in use over time. Left out: it does not. */
  kv_use?: true
  /** The outcome has every program's times. Left out: it does not. */
  each_program?: true
  decision_us: number
  balancer: BalancerName
  /** An engine reports a changed queue at most so often. */
  report_ms: number
  regions: readonly Region[]
  /** By `A-B`. */
  rtt_ms: Readonly<Record<string, number>>
  tenants: readonly TenantConfig[]
  /** Null: as the system or the policy has it. */
  prefix_cache: boolean | null
  chunked_prefill: boolean | null
  steps_per_decision: number | null
  beta: number | null
  first_quantum_us: number | null
}

/** Most of bench:engine's decisions take less (docs/benchmarks.md: p50 13 to 16 µs, p99 45 to 57 µs). */
export const DECISION_US = 20
/** Agents report a changed load every 250 ms. The figure of stale reports shows that the means are the same from 10 ms to 2,500. */
export const REPORT_MS = 50

const DEFAULTS: Omit<RunSpec, 'workload' | 'programs' | 'seed' | 'rate' | 'system'> = {
  profile: 'a100-8b',
  max_seqs: 128,
  kv_share: 1,
  app_prefix: true,
  swap_store: 'host',
  swap_cost_factor: 1,
  decision_us: DECISION_US,
  balancer: BALANCER_DEFAULT,
  report_ms: REPORT_MS,
  regions: [{ name: 'region', engines: 1 }],
  rtt_ms: {},
  tenants: [{ name: 'tenant', weight: 1, share: 1 }],
  prefix_cache: null,
  chunked_prefill: null,
  steps_per_decision: null,
  beta: null,
  first_quantum_us: null,
}

/** Fields that a spec may leave out. */
const OPTIONAL = [
  'swap_kernel',
  'front',
  'history',
  'history_of',
  'more',
  'clients',
  'record_ms',
  'told_ms',
  'learned',
  'each_program',
  ...(['forecast', 'lamps', 'handling', 'one_call', 'prompt_scale', 'kv_use'] as const),
] as const satisfies readonly (keyof RunSpec)[]

export type RunChange = Partial<RunSpec>

export function runSpec(
  given: Pick<RunSpec, 'workload' | 'programs' | 'seed' | 'rate' | 'system'> & RunChange,
): RunSpec {
  return { ...DEFAULTS, ...given }
}

/** What a spec changes of the defaults. */
export function changesOf(spec: RunSpec): RunChange {
  const changed = Object.entries(DEFAULTS).filter(
    ([field, value]) => canonical(spec[field as keyof RunSpec]) !== canonical(value),
  )
  const given = OPTIONAL.filter((field) => spec[field] !== undefined)
  const fields = [...changed.map(([field]) => field as keyof RunSpec), ...given]
  return Object.fromEntries(fields.map((field) => [field, spec[field]]))
}

/** Hash of a spec; the order of its fields does not matter. */
export function specKey(spec: RunSpec): string {
  return createHash('sha256').update(canonical(spec)).digest('hex').slice(0, 24)
}

function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  if (value === null || typeof value !== 'object') return JSON.stringify(value)
  const fields = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return `{${fields.map(([key, of]) => `${JSON.stringify(key)}:${canonical(of)}`).join(',')}}`
}
