/** The embedded engine on the real model, alone in this process: one per run, so that no run meets another's KV. */

import { LlamaBackend } from '../../gpu-agent/engine/backends/llama/llama-backend.ts'
import type { LlamaRuntime } from '../../gpu-agent/engine/backends/llama/llama-runtime.ts'
import { EngineDriver } from '../../gpu-agent/engine/driver.ts'
import { memoryOf } from '../../gpu-agent/engine/memory/backend-memory.ts'
import { createPolicy, type PolicyName, policyOnCpu } from '../../gpu-agent/engine/order/policies/index.ts'
import type { ClassTables } from '../../gpu-agent/engine/order/policy.ts'
import { Scheduler } from '../../gpu-agent/engine/scheduler.ts'
import { schedulerConfig } from '../../gpu-agent/engine/scheduler-config.ts'
import type { Backend, StepOutcome, StepPlan } from '../../gpu-agent/engine/types.ts'
import type { ServiceReading } from '../../src/core/call/service.ts'
import { TenantShares } from '../../src/core/pool/tenant-shares.ts'

export const SEATS = 4
export const SLOTS = 12
export const CONTEXT_TOKENS = 1024
export const BLOCK_TOKENS = 16
export const STEP_TOKENS_MAX = 128
export const CHUNK_TOKENS = 63

export interface RealEngineOptions {
  runtime: LlamaRuntime
  policy: PolicyName
  reading: ServiceReading
  threads: number
  /** Default: SEATS, SLOTS, CONTEXT_TOKENS. */
  seats?: number
  slots?: number
  context_tokens?: number
  /** KV that the scheduler may fill. Default: all of the slots. */
  kv_tokens?: number
  /** What is known of classes, for policies that learn. Default: nothing. */
  classes?: ClassTables
  onBroken: (error: unknown) => void
  /** Stands between the driver and the backend. */
  observe?: (backend: Backend) => Backend
}

export interface RealEngine {
  driver: EngineDriver
  prefill_tokens_per_s: number
  /** Summed duration of the steps so far. */
  busy_s: () => number
}

export async function startRealEngine(options: RealEngineOptions): Promise<RealEngine> {
  const { model } = options.runtime
  const { threads, seats = SEATS, slots = SLOTS, context_tokens = CONTEXT_TOKENS } = options
  const { observe = (backend) => backend } = options
  const llama = await LlamaBackend.create({ model, slots, context_tokens, threads })
  const memory = memoryOf(llama, llama.prefill_tokens_per_s, slots * llama.slot_tokens_max)
  const slot_blocks = Math.ceil(llama.slot_tokens_max / BLOCK_TOKENS)
  const { kv_tokens = slots * slot_blocks * BLOCK_TOKENS } = options
  let busy_us = 0
  const config = schedulerConfig({
    epoch: 'bench',
    policy: createPolicy(policyOnCpu(options.policy, options.reading), {
      reading: options.reading,
      classes: options.classes ?? null,
    }),
    shares: new TenantShares(),
    seats,
    slots,
    slot_tokens_max: llama.slot_tokens_max,
    block_tokens: BLOCK_TOKENS,
    capacity_blocks: Math.floor(kv_tokens / BLOCK_TOKENS),
    max_step_tokens: STEP_TOKENS_MAX,
    prefill_chunk_tokens: CHUNK_TOKENS,
    ordering: options.reading,
    ...memory,
  })
  const driver = new EngineDriver({
    epoch: 'bench',
    scheduler: new Scheduler(config),
    backend: observe(withoutEnds(llama)),
    clock: () => performance.now() * 1000,
    onLedger: (rows) => {
      busy_us += rows[0]?.wall_us ?? 0
    },
    onStatus: () => undefined,
    onBroken: options.onBroken,
  })
  const { prefill_tokens_per_s } = llama
  return { driver, prefill_tokens_per_s, busy_s: () => busy_us / 1e6 }
}

/** Calls run to their stated length: an end token is a token like any other, so that every policy does the same work. */
function withoutEnds(backend: LlamaBackend): Backend {
  const execute = async (plan: StepPlan): Promise<StepOutcome> => {
    const { sampled, ...outcome } = await backend.execute(plan)
    return { ...outcome, sampled: new Map([...sampled].map(([lease, { token }]) => [lease, { token, end: false }])) }
  }
  return new Proxy<Backend>(backend, {
    get(target, name) {
      if (name === 'execute') return execute
      const value: unknown = Reflect.get(target, name, target)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}
