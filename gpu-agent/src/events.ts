/**
 * What the daemon tells its operator: one event per fact, printed by agent-process.ts as one JSON line each. Events carry ids,
 * counts and messages, never a token, a ticket or a client's text.
 */
import type { Behaviour } from './fronts/attached/behaviour.ts'
import type { ServerKind } from './fronts/attached/server-profile.ts'
import type { KvSwapCosts } from './fronts/engine-front.ts'

export type AgentEvent =
  | {
      event: 'ready'
      agent: string
      region: string
      url: string
      engines: readonly { id: string; epoch: string; model: string }[]
    }
  /** Leases of a former process have their records. */
  | { event: 'recovered'; leases: number }
  /** Leases of a former process wait for what their engines, which outlived it, say of them; each is told when recovered. */
  | { event: 'recovering'; leases: number }
  | { event: 'engine_epoch'; engine: string; epoch: string }
  | {
      event: 'vllm_starting'
      engine: string
      pid: number
      how: 'started' | 'found'
      device: 'cpu' | 'cuda'
      log: string
    }
  | { event: 'vllm_loading'; engine: string; phase: string; elapsed_s: number }
  | ({ event: 'vllm_up'; pid: number; how: 'started' | 'found'; after_s: number; vllm: string } & ServingVllm)
  /** What is known of a server that the agent does not run, what is not, and what it cannot do. */
  | {
      event: 'server_attached'
      engine: string
      url: string
      epoch: string
      kind: ServerKind
      version: string | null
      model: string
      /** That it serves. */
      models: number
      /** By which it is called. */
      apis: readonly string[]
      /** Null: not known. */
      seats: number | null
      kv_tokens: number | null
      context_tokens: number
      prefix_cache: boolean | null
      reports_queue: boolean
      /** It goes on with answers that another engine began. */
      resumes: boolean
      /** What calls to it have shown; null: none were made. */
      behaviour: Behaviour | null
      unknown: readonly string[]
      reduced: readonly string[]
    }
  | { event: 'server_down'; engine: string; reason: string; retry_in_ms: number }
  /** Of a hosted API: its limits, as the operator and its answers tell them. `key`: a keyed hash of its key; null: it has none. */
  | {
      event: 'limits_known'
      server: string
      key: string | null
      /** The only model that they are of; left out: of all. */
      model?: string
      limits: readonly string[]
      /** What a call takes from limits on tokens: what it may have (`reserved`) or what it had. */
      counting: 'reserved' | 'used'
    }
  | {
      event: 'key_shared' | 'limit_header_wrong'
      server: string
      key: string | null
      limit: string
      message: string
    }
  | { event: 'vllm_down'; engine: string; reason: string; retry_in_ms: number }
  | { event: 'vllm_note'; engine: string; message: string }
  /** Once all are known: after the first long prompt of an engine. */
  | ({ event: 'swap_costs'; engine: string } & KvSwapCosts)
  | { event: 'engine_drain_failed'; engine: string; message: string }
  | { event: 'linked'; model: string; clock_offset_ms: number }
  /** Our clock or the control plane's was set. */
  | { event: 'clock_set'; model: string; clock_offset_ms: number }
  | { event: 'engines_held' | 'engines_released'; engines: readonly string[]; calls: number }
  | { event: 'link_lost'; model: string; reason: string; retry_in_ms: number }
  | { event: 'host_linked' }
  | { event: 'host_link_lost'; reason: string; retry_in_ms: number }
  /** What this host is to run from here on; no engines: its home engines. */
  | { event: 'stage'; epoch: number; engines: readonly string[] }
  | { event: 'stage_over'; epoch: number; reason: string }
  | { event: 'stage_refused'; epoch: number; current: number }
  | { event: 'engine_started'; engine: string; model: string; gpus: readonly number[]; loading_s: number }
  | { event: 'engine_start_failed'; engine: string; model: string; message: string; retry_in_ms: number }
  | { event: 'engine_ended'; engine: string; model: string }
  | { event: 'records_refused'; status: number; message: string; retry_in_ms: number }
  | { event: 'records_delayed'; reason: string; retry_in_ms: number }
  | { event: 'record_unproven'; lease: string }
  | { event: 'record_rejected'; lease: string; status: number }
  | { event: 'outbox_write_failed'; message: string; operations: number }
  | { event: 'outbox_writes_again' }
  | { event: 'ledger_mismatch'; lease: string; what: string }
  | { event: 'front_misbehaved'; lease: string; what: string }
  | { event: 'call_crashed'; lease: string; message: string }
  | { event: 'draining'; calls: number; limit_ms: number; reason: string }
  | { event: 'drained'; calls_cancelled: number; records_left: number }
  | { event: 'stopped' }
  | { event: 'failed'; stage: string; message: string }

interface ServingVllm {
  engine: string
  epoch: string
  seats: number
  kv_capacity_tokens: number
  context_tokens_max: number
}

export type Report = (event: AgentEvent) => void

/** The message of a thrown value, for an event. */
export function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const cause = error.cause instanceof Error ? `: ${error.cause.message}` : ''
  return `${error.message}${cause}`
}
