/**
 * The process-table entry of one program (Autellix §4.2.1) ...
 */
import type { CallRecord, Outcome } from '../protocol/index.ts'
import type { LeaseReason, Pin } from './balancer.ts'
import type { ServiceReading } from './service.ts'

/** One assignment of a call to an engine. `settled` once its record was applied. */
export interface LeaseEntry {
  lease: string
  agent: string
  engine: string
  epoch: string
  region: string
  model: string
  reason: LeaseReason | null
  speed_factor: number
  opened_at_ms: number
  state: 'open' | 'lost' | 'settled'
  outcome: Outcome | null
  error_code: string | null
  prompt_tokens: number
  cached_tokens: number
  output_tokens: number
  service_wall_us: number
  service_modelled_us: number
  wait_us: number
  preemptions: number
  first_token_us: number | null
}

export interface CallEntry {
  call: string
  thread: string
  parents: string[]
  model: string
  opened_at_ms: number
  ended_at_ms: number | null
  state: 'open' | 'ended'
  outcome: Outcome | null
  finish_reason: string | null
  error_code: string | null
  leases: LeaseEntry[]
}

/** The six metrics of Autellix §4.2.1 and what an operator wants beside them. */
export interface ProgramSummary {
  tenant: string
  program: string
  run: string
  state: 'running' | 'ended'
  app: string | null
  class: string
  metadata: Record<string, string>
  started_at_ms: number
  ended_at_ms: number | null
  end_reason: 'explicit' | 'stale' | null
  /** Service time: summed over leases, scaled by each engine's speed factor, in the ordering reading (PLAS). */
  service_us: number
  service_wall_us: number
  service_modelled_us: number
  /** Longest observed critical path (ATLAS), in the ordering reading. */
  critical_path_us: number
  /** Waiting time. */
  wait_us: number
  /** Engines that hold or held a lease, most recent first, at most ENGINES_LISTED_MAX. */
  engines: { engine: string; region: string; model: string; epoch: string }[]
  pins: Pin[]
  /** Threads metadata: the active calls with their arrival, wait and service so far. */
  threads: { thread: string; call: string; arrived_at_ms: number; wait_us: number; service_us: number; engine: string | null }[]
  last_arrival_ms: number | null
  last_completion_ms: number | null
  calls: number
  open_calls: number
  prompt_tokens: number
  cached_tokens: number
  output_tokens: number
  preemptions: number
}
export type { CallRecord, ServiceReading }
