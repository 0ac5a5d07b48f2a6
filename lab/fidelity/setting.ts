/**
 * What simulator and engine are both started with, so that they differ in time alone: one engine of a profile, its seats, its
 * reading. The simulator's config and the engine's follow from the same values.
 */

import type { LatencyProfile } from '../../gpu-agent/engine/backends/emulated/profiles/index.ts'
import { createPolicy, type PolicyName } from '../../gpu-agent/engine/order/policies/index.ts'
import { type SchedulerConfig, schedulerConfig } from '../../gpu-agent/engine/scheduler-config.ts'
import { type CallResult, type SimulationResult, simulate } from '../../simulator/simulation.ts'
import type { ServiceReading } from '../../src/core/call/service.ts'
import { TenantShares } from '../../src/core/pool/tenant-shares.ts'
import { STATUS_LOAD_INTERVAL_MS } from '../../src/protocol/link.ts'
import type { ProgramShape } from '../bench/workload.ts'
import type { PlayedPrograms } from './figures.ts'
import { simulatedWorkload } from './workload.ts'

export interface Setting {
  profile: LatencyProfile
  policy: PolicyName
  reading: ServiceReading
  /** What loses its place in memory is computed again, and not moved out. */
  recomputes?: boolean
}

/** The simulator lets an engine keep so many idle prefixes for each seat at least. */
const SLOTS_PER_SEAT_MIN = 4

/** A profile of another size. */
export function sized(profile: LatencyProfile, seats: number, slots: number, slot_tokens_max: number): LatencyProfile {
  if (slots < seats * SLOTS_PER_SEAT_MIN)
    throw new RangeError(`${seats} seats need ${seats * SLOTS_PER_SEAT_MIN} slots`)
  const capacity_blocks = slots * Math.ceil(slot_tokens_max / profile.block_tokens)
  return { ...profile, seats, slots, slot_tokens_max, capacity_blocks }
}

/** The engine's side. */
export function engineConfig({ profile, policy, reading }: Setting): SchedulerConfig {
  const { seats, slots, slot_tokens_max, block_tokens, capacity_blocks, max_step_tokens, prefill_chunk_tokens } =
    profile
  return schedulerConfig({
    ...{ epoch: 'fidelity', policy: createPolicy({ name: policy }, { reading }), shares: new TenantShares() },
    ...{ seats, slots, slot_tokens_max, block_tokens, capacity_blocks, max_step_tokens, prefill_chunk_tokens },
    ...{ ordering: reading, copies_prefixes: true },
    swap: {
      costs: profile.swap_costs,
      recompute_us_per_token: profile.per_prefill_token_us,
      image_tokens_max: capacity_blocks * block_tokens,
    },
  })
}

/** The simulator's side. `driver_us`: what the engine's own code takes between two steps. */
export function simulateShapes(
  { profile, policy, reading, recomputes = false }: Setting,
  shapes: readonly ProgramShape[],
  driver_us: number,
  onCall?: (call: CallResult) => void,
): SimulationResult {
  return simulate({
    ...simulatedWorkload(shapes),
    ...{ profile, policy, reading, tuning: { levels: {} } },
    engine: {
      ...{ max_seqs: profile.seats, prefix_cache: true, chunked_prefill: true, steps_per_decision: 1 },
      swap_tokens: recomputes ? null : profile.capacity_blocks * profile.block_tokens,
      decision_us: driver_us,
    },
    ...{
      balancer: 'least-used',
      regions: [{ name: 'here', engines: 1 }],
      rtt_us: new Map(),
      report_us: STATUS_LOAD_INTERVAL_MS * 1000,
    },
    tenants: [{ name: 'bench', weight: 1, share: 1 }],
    // The engine's side has no control plane that could tell it of classes.
    ...{ seed: 1, labelled: false, jump: true, told_us: Number.POSITIVE_INFINITY },
    ...(onCall === undefined ? {} : { onCall }),
  })
}

export function playedBy({ programs, makespan_us }: SimulationResult): PlayedPrograms {
  return {
    programs: programs.map(({ response_us, output_tokens }) => ({ response_s: response_us / 1e6, output_tokens })),
    makespan_s: makespan_us / 1e6,
  }
}
