/**
 * One run of the evaluation as plain data: what is played, by which system, on which engines. Equal specs give equal outcomes,
 * so a spec's hash names its outcome on disk, and figures that ask for the same run share it.
 */
import { createHash } from 'node:crypto'
import { BALANCER_DEFAULT, type BalancerName } from '../../../src/core/pool/balancers/index.ts'
import type { SwapKernelName } from '../../engines/swap-kernels.ts'
import type { Region, TenantConfig } from '../../simulation.ts'
import type { WorkloadName } from '../../workloads/index.ts'
import type { SystemName } from '../systems.ts'

export interface RunSpec {
  /** `toy`: the four programs of figure 2. */
  workload: WorkloadName | 'toy'
  programs: number
  seed: number
  /** Programs per second (Poisson); null: all at the start. */
  rate: number | null
  system: SystemName
  /** `equal-steps`: every step lasts the same (the simulator of Autellix §6.5.3); `unit-step`: one second. */
  profile: 'a100-8b' | 'a100-70b-tp4' | 'a100-180b-tp8' | 'equal-steps' | 'unit-step'
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
  /** Programs of the workload, of another seed, that policies that learn have seen before. Left out: none. */
  history?: number
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
  const { swap_kernel, history } = spec
  return {
    ...Object.fromEntries(changed.map(([field]) => [field, spec[field as keyof RunSpec]])),
    ...(swap_kernel === undefined ? {} : { swap_kernel }),
    ...(history === undefined ? {} : { history }),
  }
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
