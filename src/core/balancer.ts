/**
 * Algorithm 2 of Autellix (§4.3) over pools and regions ...
 */

/** Where a program's KV cache lives. Void once the engine has another epoch. One pin per model. */
export interface Pin {
  region: string
  model: string
  engine: string
  epoch: string
}

/** Why an engine was chosen; kept with the lease. */
export type LeaseReason =
  | 'least_used'
  | 'pin_created'
  | 'pinned'
  | 'pin_gone'
  | 'pin_overloaded'
  | 'spilled'
  | 'replaced'
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
  queued_tokens: number
  kv_used_tokens: number
  kv_capacity_tokens: number
  context_tokens_max: number
  leases_since_report: number
  speed_factor: number
  prefill_tokens_per_s: number | null
  last_report_ms: number
}

/** A pool as a Worker may remember it for the time when the PoolActor cannot be reached. */
export interface PoolSnapshot {
  region: string
  model: string
  version: number
  taken_at_ms: number
  bytes_per_token: number | null
  engines: EngineSnapshot[]
}
