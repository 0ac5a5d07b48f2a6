/** An engine as pools and the control plane of a simulation see it: one that schedules by itself, or a queue before something else. */
import type { LatencyProfile } from '../../gpu-agent/engine/backends/emulated/profiles/profile.ts'
import type { Policy } from '../../gpu-agent/engine/order/policy.ts'
import type { EndedCall, SchedulerStatus } from '../../gpu-agent/engine/scheduler.ts'
import type { EngineCall } from '../../gpu-agent/engine/types.ts'
import type { ServiceReading } from '../../src/core/call/service.ts'
import type { LeaseCharge } from '../../src/protocol/index.ts'
import type { WorkloadCall } from '../workloads/program.ts'
import type { Timeline } from './timeline.ts'

/** Simulated engines are never started again. */
export const EPOCH = 'e'
/** A queue without bound: a simulation shows what waiting costs instead of refusing. */
export const WAITING_CALLS_MAX = 10_000_000

/** What an agent describes once. */
export interface WorldEngineSizes {
  seats: number
  kv_capacity_tokens: number
  context_tokens_max: number
  prefill_tokens_per_s: number
}

export interface WorldEngine {
  readonly id: string
  /** The agent that fronts it. */
  readonly agent: string
  readonly epoch: string
  readonly region: string
  /** Position among all engines. */
  readonly index: number
  readonly sizes: WorldEngineSizes
  submit(call: EngineCall, now_us: number): void
  status(now_us: number): Pick<SchedulerStatus, 'waiting' | 'running' | 'queued_tokens' | 'kv_used_tokens'>
  /** The program has ended: its KV is no longer needed. Absent: the engine cannot be told. */
  discard?(program: string, now_us: number): void
  /** As of the status before it. */
  openCharges(): LeaseCharge[]
  /** How often a call that it sent on was refused. */
  readonly refusals?: number
}

/** The place of the agent's queue, and its order. */
export interface QueuePlace extends Pick<WorldEngine, 'id' | 'agent' | 'epoch' | 'region' | 'index'> {
  timeline: Timeline
  policy: Policy
  ordering: ServiceReading
  onEnded: (ended: EndedCall, now_us: number) => void
}

/** What is in front of a simulation's engines, or replaces them. */
export interface Front {
  /** `firstCome`: an engine that serves first come, first served. */
  open(place: QueuePlace, profile: LatencyProfile, firstCome: (heard: EngineHeard) => WorldEngine): WorldEngine
  /** The work of a call, for clairvoyant orders. Null: an engine's. */
  workUs: ((call: WorkloadCall) => number) | null
}

export interface EngineHeard {
  /** A call has a token. */
  onSampled: (lease: string, now_us: number) => void
  onEnded: (ended: EndedCall, now_us: number) => void
}
