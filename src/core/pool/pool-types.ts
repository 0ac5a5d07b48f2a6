/**
 * The vocabulary of the balancer: pins, reasons, and a pool as seen from outside. Types and bounds only. Algorithm 2 is in
 * choose-engine.ts, the state of a pool in pool-table.ts.
 */

import type { NativeApi } from '../../protocol/index.ts'

/** Prompts of at most this many tokens hit the KV cache on any engine (Autellix §4.3, Algorithm 2). */
export const SHORT_PROMPT_TOKENS = 2048
/** Queued calls per seat above which the next region is asked: waiting for a seat takes seconds, another region milliseconds. */
export const SPILL_LOAD = 0.25

/** Where a program's KV cache lives. Void once the engine has another epoch. One pin per model. */
export interface Pin {
  region: string
  model: string
  engine: string
  epoch: string
}

/** Why an engine was chosen; kept with the lease. */
export type LeaseReason =
  /** Short prompt (or none known): the engine with the least load. */
  | 'least_used'
  /** Long prompt of a program without a pin here. */
  | 'pin_created'
  | 'pinned'
  /** The pinned engine is gone, draining, silent, or has another epoch. */
  | 'pin_gone'
  /** The wait at the pinned engine costs more than prefilling elsewhere. */
  | 'pin_overloaded'
  /** A nearer region, or the pin's region or shard, was too full. Set by the relay, which walks them. */
  | 'spilled'
  /** An engine failed for this call before. */
  | 'replaced'
  /** The pool could not be reached: chosen from the Worker's last snapshot. */
  | 'snapshot'

export interface EngineSnapshot {
  engine: string
  epoch: string
  agent: string
  url: string
  kind: string
  state: 'ready' | 'draining' | 'down' | 'silent'
  seats: number
  waiting: number
  running: number
  /** Prompt tokens still to be prefilled. A lease since the report counts only what the engine does not hold. */
  queued_tokens: number
  /** Of `waiting` and `running`: offline calls, whose place an online call takes. Left out: none. */
  offline?: number
  kv_used_tokens: number
  kv_capacity_tokens: number
  /** How long a call that comes now would wait for the limits of its provider's key. Left out: it has none. */
  limit_wait_us?: number
  context_tokens_max: number
  leases_since_report: number
  speed_factor: number
  /** APIs beside chat that its server speaks itself. Left out: none. */
  native_apis?: readonly NativeApi[]
  /** It goes on with answers that another engine began. Left out: it does not. */
  resumes?: boolean
  prefill_tokens_per_s: number | null
  last_report_ms: number
}

/** A pool as a Worker remembers it, for when the PoolActor cannot be reached. */
export interface PoolSnapshot {
  region: string
  model: string
  /** Left out: the first, or the whole pool. */
  shard?: number
  version: number
  taken_at_ms: number
  bytes_per_token: number | null
  engines: EngineSnapshot[]
}

/** Asks a pool for an engine for one lease. */
export interface EngineRequest {
  lease: string
  prompt_tokens_estimate: number
  /** Null when unknown (admit was not awaited or failed), or when the program has none. */
  pin: Pin | null
  /** Tokens of the program's KV that each engine of the pool is expected to hold. Set by the pool. Absent or empty: unknown. */
  resident_tokens?: ReadonlyMap<string, number>
  /** How many of an engine's calls have probably ended since its last report. Set by the pool. Absent: none. */
  endedEstimate?: (of: Pick<EngineSnapshot, 'agent' | 'engine'>) => number
  /** Engines that failed for this call already. */
  excluded_engines: readonly string[]
  /** Grant only if the chosen engine has at most this many calls queued per seat. Null: grant anyway. */
  max_load: number | null
  /** It ranks below all online calls. Left out: it is an online one. */
  offline?: boolean
  now_ms: number
}

/** A request for an engine that names its program, which the pool may know. */
export interface ProgramRequest extends EngineRequest {
  tenant: string
  program: string
}

export type EngineChoice =
  | {
      status: 'leased'
      agent: string
      engine: string
      epoch: string
      /** Base URL of the agent's data plane. */
      url: string
      reason: LeaseReason
      /** True: the program is pinned to this engine from here on. */
      pin: boolean
      speed_factor: number
      /** Left out: none. */
      native_apis?: readonly NativeApi[]
      resumes?: boolean
      /** Queued calls per seat before this lease; negative while seats are free. */
      load: number
    }
  | { status: 'busy'; load: number }
  | { status: 'none'; retry_after_s: number }
