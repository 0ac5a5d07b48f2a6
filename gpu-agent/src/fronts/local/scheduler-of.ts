/** One scheduler, configured alike for both local engines. */
import { TenantShares } from '../../../../src/core/pool/tenant-shares.ts'
import { choosingFrom, createPolicy, policyOnCpu } from '../../../engine/order/policies/index.ts'
import { type ClassTables, REFERENCE_MEMORY } from '../../../engine/order/policy.ts'
import { Scheduler } from '../../../engine/scheduler.ts'
import { type SchedulerConfig, schedulerConfig } from '../../../engine/scheduler-config.ts'
import type { FrontOptions } from '../front-options.ts'

export interface EngineSizes {
  seats: number
  slots: number
  slot_tokens_max: number
  block_tokens: number
  capacity_blocks: number
  max_step_tokens: number
  prefill_chunk_tokens: number
}

/** On a CPU a step takes longer for each call and each prompt token in it: 32 take some 0.2 s with the shipped model on one thread. */
const OFFLINE_ON_CPU = { offline_beside_online_max: 0, offline_prefill_tokens: 32 }

/** What the backend does with KV beyond keeping it, and what that costs. */
export type EngineMemoryConfig = Pick<SchedulerConfig, 'swap' | 'copies_prefixes' | 'memory'>

/** `classes`: what is known about classes of programs; null: nothing. `on_cpu`: the backend computes there. Throws RangeError for sizes that no step can satisfy. */
export function schedulerOf(
  epoch: string,
  sizes: EngineSizes,
  { policy, handling, ordering = 'modelled', hold_kv = true }: FrontOptions,
  classes: ClassTables | null,
  memory: Partial<EngineMemoryConfig> = {},
  on_cpu = false,
): Scheduler {
  const context = { reading: ordering, classes, memory: memory.memory ?? REFERENCE_MEMORY }
  const named = on_cpu ? policyOnCpu(policy, ordering) : { name: policy }
  const config = schedulerConfig({
    epoch,
    ...sizes,
    ...memory,
    policy: createPolicy(choosingFrom(named, handling ?? null), context),
    shares: new TenantShares(),
    ordering,
    hold_kv,
    ...(on_cpu ? OFFLINE_ON_CPU : {}),
  })
  return new Scheduler(config)
}

/** Microseconds of this process's monotonic clock. */
export function monotonicUs(): number {
  return Math.floor(performance.now() * 1000)
}
