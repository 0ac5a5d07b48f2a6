/** Plays one spec on the simulator. */

import { type LatencyProfile, PROFILES } from '../../../gpu-agent/engine/backends/emulated/profiles/index.ts'
import type { LevelConfig } from '../../../gpu-agent/engine/order/policies/levels/levels.ts'
import { arrivalTimesUs } from '../../arrivals.ts'
import { withSwapKernel } from '../../engines/swap-kernels.ts'
import { type CallResult, type SimulationConfig, simulate } from '../../simulation.ts'
import type { WorkloadProgram } from '../../workloads/index.ts'
import { queueFront } from '../../world/fronts.ts'
import type { SimEngine } from '../../world/sim-engine.ts'
import { type System, systemOf } from '../systems.ts'
import { KvUse } from './kv-use.ts'
import { eachProgram, type RunOutcome, runOutcome } from './run-outcome.ts'
import { historyOf, programsOf } from './run-programs.ts'
import type { RunSpec } from './run-spec.ts'

/** KV tokens that 200 GB hold, of the 503 GB that the two engines of LAMPS' machine share (§6.1). */
const LAMPS_SWAP_TOKENS = { 'gpt-j-6b-40gb': 436_000, 'vicuna-13b-40gb': 244_000 } as const

/** KV tokens that 1.2 TB of host memory hold (Autellix §6.5.1), by each profile's bytes a token. */
export const SWAP_TOKENS: Readonly<Record<RunSpec['profile'], number>> = {
  'a100-8b': 9_000_000,
  'a100-70b-tp4': 3_600_000,
  'a100-180b-tp8': 7_300_000,
  ...LAMPS_SWAP_TOKENS,
  'equal-steps': 9_000_000,
  'unit-step': 9_000_000,
}
/** More than all programs of a run have. */
const UNBOUNDED_TOKENS = 1e12
const US_PER_MS = 1000

export function playRun(
  spec: RunSpec,
  onProgress: (ended_share: number) => void = () => {},
  watch: Pick<SimulationConfig, 'decision_watch'> = {},
): RunOutcome {
  const programs = programsOf(spec)
  const calls: CallResult[] = []
  const config = configOf(spec, programs)
  const kv_use = spec.kv_use ? new KvUse(config.profile) : null
  const simulated = simulate({
    ...config,
    ...watch,
    ...(kv_use === null ? {} : { onStepped: (engine: SimEngine) => kv_use.stepped(engine) }),
    onCall: (call) => calls.push(call),
    onProgram: (ended) => onProgress(ended / programs.length),
  })
  const outcome = {
    ...runOutcome({ config, simulated, calls }),
    ...(kv_use === null ? {} : { kv_use: kv_use.samples }),
  }
  return spec.each_program ? { ...outcome, each_program: eachProgram(simulated.programs) } : outcome
}

function configOf(spec: RunSpec, programs: readonly WorkloadProgram[]): SimulationConfig {
  const system: System = systemOf(spec.system)
  const process = spec.rate === null ? ({ kind: 'burst' } as const) : ({ kind: 'poisson', rate: spec.rate } as const)
  return {
    programs,
    arrivals_us: arrivalTimesUs(process, programs, spec.seed),
    profile: profileOf(spec),
    engine: {
      max_seqs: spec.max_seqs,
      prefix_cache: spec.prefix_cache ?? system.prefix_cache,
      chunked_prefill: spec.chunked_prefill ?? system.chunked_prefill,
      steps_per_decision: spec.steps_per_decision ?? system.steps_per_decision,
      // Stock engines drop what they evict.
      swap_tokens: system.swaps && spec.front === undefined ? swapTokens(spec) : null,
      decision_us: spec.decision_us,
    },
    policy: system.policy,
    tuning: {
      levels: levelsOf(spec),
      ...(system.ties === undefined ? {} : { ties: system.ties }),
      ...(spec.learned === undefined ? {} : { learned: spec.learned }),
      ...(spec.lamps === undefined ? {} : { lamps: spec.lamps }),
      ...(spec.handling === undefined ? {} : { handling: spec.handling }),
    },
    ...(spec.forecast === undefined ? {} : { forecast: spec.forecast }),
    // The toy programs of figures 2 and 6 count steps of equal length.
    reading: spec.workload === 'toy' ? 'wall' : system.reading,
    ...(spec.front === undefined ? {} : { front: queueFront() }),
    balancer: spec.balancer,
    regions: spec.regions,
    rtt_us: new Map(Object.entries(spec.rtt_ms).map(([pair, ms]) => [pair, ms * US_PER_MS])),
    report_us: spec.report_ms * US_PER_MS,
    record_us: (spec.record_ms ?? 0) * US_PER_MS,
    ...(spec.told_ms === undefined ? {} : { told_us: spec.told_ms * US_PER_MS }),
    tenants: spec.tenants,
    seed: spec.seed,
    labelled: true,
    history: historyOf(spec),
    jump: true,
  }
}

function swapTokens({ swap_store, profile }: RunSpec): number {
  return swap_store === 'unbounded' ? UNBOUNDED_TOKENS : SWAP_TOKENS[profile]
}

function levelsOf({ beta, first_quantum_us }: RunSpec): Partial<LevelConfig> {
  return {
    ...(beta === null ? {} : { promotion_ratio: beta }),
    ...(first_quantum_us === null ? {} : { first_quantum_us }),
  }
}

/** No time but the step's own: what is left is scheduling. */
const STEP_ONLY = {
  per_sequence_us: 0,
  per_kv_token_ns: 0,
  per_prefill_token_us: 0,
  per_prefill_pair_ps: 0,
  swap_costs: { save_us_per_token: 0, restore_us_per_token: 0, base_us: 0 },
} as const

function profileOf({ profile, kv_share, swap_cost_factor, swap_kernel }: RunSpec): LatencyProfile {
  const base = PROFILES['a100-8b']
  if (profile === 'unit-step') return { ...base, ...STEP_ONLY, name: profile, base_us: 1e6 }
  // Steps of one length, and memory and prefill chunks without bound, so that seats alone are scarce.
  if (profile === 'equal-steps') {
    const boundless = {
      capacity_blocks: base.capacity_blocks * 64,
      max_step_tokens: 2 ** 24,
      prefill_chunk_tokens: 2 ** 15,
    }
    return { ...base, ...STEP_ONLY, ...boundless, name: profile }
  }
  const given = swap_kernel === undefined ? PROFILES[profile] : withSwapKernel(PROFILES[profile], swap_kernel)
  const { save_us_per_token, restore_us_per_token, base_us } = given.swap_costs
  return {
    ...given,
    capacity_blocks: Math.round(given.capacity_blocks * kv_share),
    swap_costs: {
      base_us,
      save_us_per_token: save_us_per_token * swap_cost_factor,
      restore_us_per_token: restore_us_per_token * swap_cost_factor,
    },
  }
}
