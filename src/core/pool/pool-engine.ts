/**
 * One engine of a pool: what its hello said, what it last reported, the leases granted since, and its snapshot for a
 * balancer.
 *
 * Every lease reads the snapshots of all engines of the pool and changes one. So a snapshot is kept until it changes. With
 * a hundred engines, making all of them anew took more time than the rest of a choice.
 */
import {
  type EngineDescription,
  type EngineStatus,
  STATUS_INTERVAL_MS,
  STATUS_MISSED_MAX,
} from '../../protocol/link.ts'
import { EndedEstimate } from './ended-estimate.ts'
import { LeasesSince } from './leases-since.ts'
import type { EngineSnapshot } from './pool-types.ts'

/** Reports of a silent engine are this old, or older. */
export const SILENT_AFTER_MS = STATUS_MISSED_MAX * STATUS_INTERVAL_MS

type Status = Omit<EngineStatus, 'id' | 'epoch' | 'leases_seen' | 'charges'>

/** What an engine's snapshot takes from its agent. */
export interface Fronting {
  readonly agent: string
  readonly url: string
  /** The operator drains it: its engines count as draining, regardless of what they report. */
  readonly draining: boolean
}

/** Before its first report an engine counts as idle: its hello says that it is there. */
const UNREPORTED: Status = {
  state: 'ready',
  ...{ waiting: 0, running: 0, queued_tokens: 0, kv_used_tokens: 0, bytes_per_token: null },
}

export class PoolEngine {
  #description: EngineDescription
  #status: Status
  #last_report_ms: number
  readonly #since: LeasesSince
  #ended = new EndedEstimate()
  #look: { of: Readonly<EngineSnapshot>; silent: boolean; draining: boolean } | null = null

  /**
   * `before`: the engine of this id at the agent's last link. If its epoch is the same, it kept its calls, so its report
   * and leases still count.
   */
  constructor(description: EngineDescription, before: PoolEngine | undefined, now_ms: number) {
    const kept = before?.description.epoch === description.epoch ? before : null
    this.#description = { ...description }
    this.#status = kept === null ? UNREPORTED : kept.#status
    this.#since = kept === null ? new LeasesSince() : kept.#since
    this.#last_report_ms = now_ms
  }

  get description(): Readonly<EngineDescription> {
    return this.#description
  }

  get bytes_per_token(): number | null {
    return this.#status.bytes_per_token
  }

  /** True if the report changes whether or how the engine can be used, beyond its load. */
  reported(report: EngineStatus, now_ms: number): boolean {
    const { id: _, epoch, leases_seen, charges: __, ...status } = report
    const restarted = epoch !== this.#description.epoch
    if (restarted) {
      // Its leases died with the old epoch.
      this.#description = { ...this.#description, epoch }
      this.#since.clear()
      this.#ended = new EndedEstimate()
    }
    for (const lease of leases_seen) this.#since.remove(lease)
    const returned = now_ms - this.#last_report_ms > SILENT_AFTER_MS
    const material = restarted || returned || status.state !== this.#status.state
    this.#status = status
    this.#last_report_ms = now_ms
    this.#ended.reported(status.waiting + status.running, leases_seen.length, now_ms)
    this.#look = null
    return material
  }

  heardOf(at_ms: number): void {
    this.#last_report_ms = at_ms
    this.#look = null
  }

  /** `uncached_tokens`: the part of its prompt that the engine is expected to prefill. */
  leased(lease: string, uncached_tokens: number, now_ms: number): void {
    this.#since.add(lease, uncached_tokens, now_ms)
    this.#look = null
  }

  released(lease: string): void {
    this.#since.remove(lease)
    this.#look = null
  }

  /** Calls that have probably ended since the last report. Without leases since, the report stands. */
  endedEstimate(now_ms: number): number {
    return Math.min(this.#since.count, this.#ended.at(now_ms))
  }

  /** Shared between calls: a caller that changes or keeps it must copy it. */
  look(by: Fronting, now_ms: number): Readonly<EngineSnapshot> {
    const expired = this.#since.expire(now_ms)
    const silent = now_ms - this.#last_report_ms > SILENT_AFTER_MS
    const { draining } = by
    if (this.#look === null || expired || this.#look.silent !== silent || this.#look.draining !== draining) {
      this.#look = { of: this.#newLook(by, silent), silent, draining }
    }
    return this.#look.of
  }

  #newLook({ agent, url, draining }: Fronting, silent: boolean): EngineSnapshot {
    const { id, epoch, kind, seats, kv_capacity_tokens, context_tokens_max, speed_factor, prefill_tokens_per_s } =
      this.#description
    const { native_apis, resumes } = this.#description
    const { state, waiting, running, kv_used_tokens, offline, limit_wait_us } = this.#status
    const queued_tokens = this.#status.queued_tokens + this.#since.prompt_tokens
    const reported = state === 'ready' && draining ? 'draining' : state
    return {
      engine: id,
      ...{ epoch, kind, seats, kv_capacity_tokens, context_tokens_max, speed_factor, prefill_tokens_per_s },
      ...{ waiting, running, queued_tokens, kv_used_tokens },
      ...(offline === undefined ? {} : { offline }),
      ...(limit_wait_us === undefined ? {} : { limit_wait_us }),
      ...(native_apis === undefined ? {} : { native_apis }),
      ...(resumes === undefined ? {} : { resumes }),
      ...{ agent, url },
      state: reported !== 'down' && silent ? 'silent' : reported,
      leases_since_report: this.#since.count,
      last_report_ms: this.#last_report_ms,
    }
  }
}
