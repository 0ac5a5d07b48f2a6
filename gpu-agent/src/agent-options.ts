/** What an agent is started with, and the limits of its ending. `tuning` is for tests: the defaults are the product's. */
import type { LendPolicy, StartableModel } from '../../src/protocol/host.ts'
import type { OtlpSettings } from '../../src/protocol/index.ts'
import type { ModelCosts } from '../planner/costs/model-costs.ts'
import type { PlannerName } from '../planner/search/planners.ts'
import type { KnownClasses } from './classes/known-classes.ts'
import type { DataPlaneOptions } from './data-plane/data-plane.ts'
import type { Report } from './events.ts'
import type { EngineFront, EngineFrontEvents } from './fronts/engine-front.ts'
import type { HostLinkOptions } from './lending/host-link.ts'
import type { LentHostOptions } from './lending/lent-host.ts'
import type { LinkOptions } from './link/link.ts'
import type { LostCall } from './outbox/lost-calls.ts'
import type { OutboxOptions } from './outbox/outbox.ts'
import type { RecordSenderOptions } from './outbox/record-sender.ts'

/** Calls under way may take this long to end in a drain before they are cancelled. */
export const DRAIN_LIMIT_MS = 120_000
/** After that, for engines to end the cancelled calls, and for the control plane to acknowledge the last records. */
export const CANCEL_LIMIT_MS = 3000
export const FLUSH_LIMIT_MS = 10_000
/** Readers may take this long for the bytes of calls that have ended. */
export const CLOSE_GRACE_MS = 2000
export const PRUNE_INTERVAL_MS = 5000

export interface EngineStart {
  /** `<agent>-e0`, `<agent>-e1`, … */
  id: string
  /** The engine may outlive the agent, and then tells the next one what became of its calls. */
  outlives_agent?: boolean
  /**
   * `lost`: calls that a former process of the agent left open on it, if it outlives agents. `classes`: what is known about
   * classes of programs.
   */
  create(events: EngineFrontEvents, lost: readonly LostCall[], classes: KnownClasses): Promise<EngineFront>
}

/** What the operator lends. */
export interface LendOptions {
  policy: LendPolicy
  gpus: number
  models: readonly StartableModel[]
  costs: readonly ModelCosts[]
  /** By which this agent plans applications as their coordinator. Default: ours. */
  planner?: PlannerName
  /** GPUs of each engine that the agent is started with, by id. */
  home_gpus: ReadonlyMap<string, readonly number[]>
  /** An engine for a model of `models`; null: there is none of this name. */
  engineOf(engine: { id: string; model: string; gpus: readonly number[] }, leaving: AbortSignal): EngineStart | null
  tuning?: Pick<LentHostOptions, 'drain_limit_ms' | 'start_pause'> & { link?: HostLinkOptions['times'] }
}

export interface AgentOptions {
  id: string
  region: string
  /** Base URL of the control plane. */
  control_url: string
  token: string
  listen: { host: string; port: number }
  /** Base URL of the data plane as Workers reach it; null: the address that it listens on. */
  public_url: string | null
  data_dir: string
  /** Bearer that /metrics asks for; left out or null: it is open. */
  metrics_token?: string | null
  /** Where spans of calls go; left out or null: nowhere. */
  otlp?: OtlpSettings | null
  engines: readonly EngineStart[]
  /** For engines that take minutes and do not measure themselves; else one starts after the other. */
  start_together?: boolean
  /** Left out or null: its GPUs are not lent. */
  lend?: LendOptions | null
  report: Report
  /** The agent cannot go on and the process must end, so that the next start can recover. */
  fatal: (message: string) => void
  /** The control plane refuses this agent in every pool, and not just for a moment. May be told again. */
  refused?: (reason: string) => void
  wall_ms?: () => number
  random?: () => number
  tuning?: {
    outbox?: Pick<OutboxOptions, 'retention_ms' | 'acknowledged_records_max' | 'unacknowledged_records_max' | 'commit'>
    data_plane?: Pick<DataPlaneOptions, 'body_bytes_max' | 'open_calls_max' | 'connections_max' | 'times'>
    link?: LinkOptions['times']
    disk_wait_ms?: number
    sender?: Pick<RecordSenderOptions, 'coalesce_ms' | 'pace_ms' | 'backoff' | 'refused_backoff'>
  }
}
