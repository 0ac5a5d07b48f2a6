/**
 * One region's pool, or a shard of it, on the virtual clock: the PoolTable that the PoolActor holds, and the agents' reports to it. An engine
 * reports when its queue has changed, but no more often than the report interval, and at least once a second, as agents do
 * (src/protocol/link.ts). A report travels within its region and takes no time.
 */
import type { Balancer } from '../../src/core/pool/balancers/balancer.ts'
import { PoolTable } from '../../src/core/pool/pool-table.ts'
import type { EngineChoice, PoolSnapshot, ProgramRequest } from '../../src/core/pool/pool-types.ts'
import type { OpenCharge } from '../../src/core/pool/reported-charges.ts'
import {
  CHARGES_INTERVAL_MS,
  CHARGES_PER_STATUS_MAX,
  type LeaseCharge,
  STATUS_INTERVAL_MS,
} from '../../src/protocol/link.ts'
import { type Timeline, Timer, TURN } from './timeline.ts'
import type { WorldEngine } from './world-engine.ts'

/** One model; nothing depends on its name. */
export const MODEL = 'model'

const HEARTBEAT_US = STATUS_INTERVAL_MS * 1000

interface Reporting {
  engine: WorldEngine
  timer: Timer
  reported_us: number
  changed: boolean
  charges_us: number
  leases_seen: string[]
}

export interface SimPoolOptions {
  region: string
  engines: readonly WorldEngine[]
  balancer: Balancer
  timeline: Timeline
  report_us: number
  /** False once nothing is left to serve. Then reports stop, and the simulation ends. */
  alive: () => boolean
}

export class SimPool {
  readonly #options: SimPoolOptions
  readonly #table: PoolTable
  readonly #reporting = new Map<string, Reporting>()
  readonly #seq = new Map<string, number>()

  constructor(options: SimPoolOptions) {
    this.#options = options
    this.#table = new PoolTable({ region: options.region, model: MODEL }, options.balancer)
    for (const engines of Map.groupBy(options.engines, ({ agent }) => agent).values()) this.#join(engines)
    for (const engine of options.engines) {
      const timer = new Timer(TURN.report, engine.index, (now_us) => this.#tick(engine.id, now_us))
      this.#reporting.set(engine.id, { engine, timer, reported_us: 0, changed: false, charges_us: 0, leases_seen: [] })
      options.timeline.set(timer, HEARTBEAT_US)
    }
  }

  /** With what its agents last reported for the program's open leases, and a snapshot newer than `version`. Null: none is wanted. */
  choose(
    request: ProgramRequest,
    now_us: number,
    version: number | null,
  ): { choice: EngineChoice; charges: readonly OpenCharge[]; snapshot: PoolSnapshot | null } {
    const choice = this.#table.choose(request, now_us / 1000)
    const isNewer = version !== null && version !== this.#table.version
    const snapshot = isNewer ? this.#table.snapshot(now_us / 1000) : null
    return { choice, charges: this.#table.chargesOf(request), snapshot }
  }

  find(id: string): WorldEngine | null {
    return this.#reporting.get(id)?.engine ?? null
  }

  /** A lease has come to its engine. */
  reached(engine: WorldEngine, lease: string, now_us: number): void {
    this.#of(engine.id).leases_seen.push(lease)
    this.changed(engine, now_us)
  }

  /** The engine's queue has changed. */
  changed(engine: WorldEngine, now_us: number): void {
    const reporting = this.#of(engine.id)
    if (reporting.changed) return
    reporting.changed = true
    this.#options.timeline.set(reporting.timer, Math.max(now_us, reporting.reported_us + this.#options.report_us))
  }

  #tick(id: string, now_us: number): void {
    if (!this.#options.alive()) return
    const reporting = this.#of(id)
    const { engine, leases_seen } = reporting
    const { waiting, running, queued_tokens, kv_used_tokens } = engine.status(now_us)
    const seq = (this.#seq.get(engine.agent) ?? -1) + 1
    this.#seq.set(engine.agent, seq)
    const figures = { state: 'ready', waiting, running, queued_tokens, kv_used_tokens, bytes_per_token: null } as const
    const engines = [{ id, epoch: engine.epoch, ...figures, leases_seen, ...this.#charges(reporting, now_us) }]
    this.#table.agentStatus(engine.agent, { seq, engines }, now_us / 1000)
    reporting.leases_seen = []
    reporting.changed = false
    reporting.reported_us = now_us
    this.#options.timeline.set(reporting.timer, now_us + Math.max(HEARTBEAT_US, this.#options.report_us))
  }

  /** A report of a single engine is of no use to another. */
  #charges(reporting: Reporting, now_us: number): { charges?: LeaseCharge[] } {
    const due_us = reporting.charges_us + CHARGES_INTERVAL_MS * 1000
    if (this.#reporting.size === 1 || now_us < due_us) return {}
    reporting.charges_us = now_us
    return { charges: reporting.engine.openCharges().slice(0, CHARGES_PER_STATUS_MAX) }
  }

  #join(engines: readonly WorldEngine[]): void {
    const agent = engines[0]?.agent ?? ''
    const joined = this.#table.agentJoined(
      {
        ...{ agent, region: this.#options.region, model: MODEL, url: 'http://simulated' },
        engines: engines.map(({ id, epoch, sizes }) => ({
          ...{ id, epoch, kind: 'emulated' as const, model: MODEL, speed_factor: 1 },
          ...sizes,
        })),
      },
      0,
    )
    if (joined !== 'joined') throw new RangeError(`region ${this.#options.region}: its agents do not fit (${joined})`)
  }

  #of(id: string): Reporting {
    const reporting = this.#reporting.get(id)
    if (reporting === undefined) throw new Error(`engine ${id} is not in this pool`)
    return reporting
  }
}
