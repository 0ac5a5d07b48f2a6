/**
 * One pool: the engines that serve one model in one region, what they last reported, and the leases granted since.
 *
 * A report is old by the time that it is read, and every lease granted since is missing from it. So a lease counts
 * toward its engine's load until a report lists it (leases-since.ts), and 200 calls at once on a stale report spread
 * evenly.
 *
 * An engine that was not heard of for STATUS_MISSED_MAX intervals is silent and takes no leases. After a restart of the
 * pool its members count as heard of at that moment: serving beats ordering, and a dead one is replaced at dispatch.
 */
import {
  ENGINES_PER_AGENT_MAX,
  type EngineDescription,
  type EngineStatus,
  type Hello,
  STATUS_INTERVAL_MS,
  STATUS_MISSED_MAX,
  type Status,
} from '../protocol/link.ts'
import type { Balancer } from './balancers/balancer.ts'
import { LOCALITY } from './balancers/locality.ts'
import { LeasesSince } from './leases-since.ts'
import type { EngineChoice, EngineRequest, EngineSnapshot, PoolSnapshot } from './pool-types.ts'

/** Agents of one pool. With 64 engines each, more than one actor can lease for anyway. */
export const AGENTS_PER_POOL_MAX = 64
/** Leases whose holder is remembered, for cancelling; the oldest are forgotten first. */
export const LEASE_HOLDERS_MAX = 16_384
/** Workers are sent changed loads at most this often; changes of membership at once. */
export const SNAPSHOT_REFRESH_MS = 1000
/** Reports of a silent engine are this old, or older. */
export const SILENT_AFTER_MS = STATUS_MISSED_MAX * STATUS_INTERVAL_MS

/** What survives a restart of the pool, one per agent. */
export interface AgentMembership {
  agent: string
  url: string
  engines: EngineDescription[]
}

interface EngineState {
  description: EngineDescription
  status: Omit<EngineStatus, 'id' | 'epoch' | 'leases_seen'>
  last_report_ms: number
  since: LeasesSince
}

interface AgentState {
  agent: string
  url: string
  seq: number
  engines: Map<string, EngineState>
  /** The operator drains it: its engines count as draining, whatever they report. */
  draining: boolean
}

export class PoolTable {
  readonly region: string
  readonly model: string
  readonly #balancer: Balancer
  #agents = new Map<string, AgentState>()
  #holders = new Map<string, { agent: string; engine: string }>()
  #version = 1
  #versionedAtMs = Number.NEGATIVE_INFINITY

  constructor(pool: { region: string; model: string }, balancer: Balancer = LOCALITY) {
    this.region = pool.region
    this.model = pool.model
    this.#balancer = balancer
  }

  static restore(
    pool: { region: string; model: string },
    members: readonly AgentMembership[],
    version: number,
    now_ms: number,
  ): PoolTable {
    const table = new PoolTable(pool)
    for (const member of members) table.#join(member, now_ms)
    table.#version = version
    return table
  }

  get version(): number {
    return this.#version
  }

  get agents(): string[] {
    return [...this.#agents.keys()]
  }

  /** What `restore` needs. */
  membership(): AgentMembership[] {
    return [...this.#agents.values()].map(({ agent, url, engines }) => ({
      agent,
      url,
      engines: [...engines.values()].map((engine) => ({ ...engine.description })),
    }))
  }

  /**
   * An agent opened its link. One that was here before is replaced, and its `seq` begins anew. `engine_taken`: it names an
   * engine twice or one of another agent; pins and exclusions go by the engine's id, so that id has one owner.
   */
  agentJoined(
    hello: Omit<Hello, 'type' | 'protocol' | 'now_ms'>,
    now_ms: number,
  ): 'joined' | 'wrong_pool' | 'engine_taken' | 'full' {
    if (hello.region !== this.region || hello.model !== this.model) return 'wrong_pool'
    if (hello.engines.some(({ model }) => model !== this.model)) return 'wrong_pool'
    if (this.#namesTaken(hello)) return 'engine_taken'
    if (!this.#agents.has(hello.agent) && this.#agents.size >= AGENTS_PER_POOL_MAX) return 'full'
    this.#join(hello, now_ms)
    this.#changed(now_ms)
    return 'joined'
  }

  /** A report. `old`: repeated or overtaken, dropped. Engines that the agent's hello did not name are ignored. */
  agentStatus(agent: string, status: Omit<Status, 'type'>, now_ms: number): 'applied' | 'old' | 'unknown_agent' {
    const state = this.#agents.get(agent)
    if (state === undefined) return 'unknown_agent'
    if (status.seq <= state.seq) return 'old'
    state.seq = status.seq
    let material = false
    for (const report of status.engines) {
      const engine = state.engines.get(report.id)
      if (engine !== undefined && applyReport(engine, report, now_ms)) material = true
    }
    if (material || now_ms - this.#versionedAtMs >= SNAPSHOT_REFRESH_MS) this.#changed(now_ms)
    return 'applied'
  }

  agentLeft(agent: string, now_ms: number): boolean {
    const left = this.#agents.delete(agent)
    if (left) this.#changed(now_ms)
    return left
  }

  /** The operator's word, which holds over reports and further links. False: there is no such agent. */
  setDraining(agent: string, draining: boolean, now_ms: number): boolean {
    const state = this.#agents.get(agent)
    if (state === undefined) return false
    if (state.draining !== draining) this.#changed(now_ms)
    state.draining = draining
    return true
  }

  /** By the pool's balancer; a granted lease counts from here on. The same lease again is counted once. */
  choose(request: EngineRequest, now_ms: number): EngineChoice {
    const choice = this.#balancer.choose(this.region, this.#engines(now_ms), request)
    if (choice.status === 'leased') this.#leased(choice.agent, choice.engine, request, now_ms)
    return choice
  }

  /** A lease that never reached its engine is taken back. */
  released(lease: string): boolean {
    const holder = this.#holders.get(lease)
    if (holder === undefined) return false
    this.#holders.delete(lease)
    this.#agents.get(holder.agent)?.engines.get(holder.engine)?.since.remove(lease)
    return true
  }

  leaseHolder(lease: string): { agent: string; engine: string } | null {
    return this.#holders.get(lease) ?? null
  }

  snapshot(now_ms: number): PoolSnapshot {
    const engines = this.#engines(now_ms)
    const { region, model } = this
    return {
      region,
      model,
      version: this.#version,
      taken_at_ms: now_ms,
      bytes_per_token: this.#bytesPerToken(),
      engines,
    }
  }

  /** An engine that kept its epoch kept its calls: its last report and the leases since then stand. */
  #join(member: AgentMembership, now_ms: number): void {
    const before = this.#agents.get(member.agent)
    const engines = new Map<string, EngineState>()
    for (const description of member.engines.slice(0, ENGINES_PER_AGENT_MAX)) {
      const known = before?.engines.get(description.id)
      const same = known?.description.epoch === description.epoch
      const engine = unreported(description, now_ms)
      engines.set(description.id, same ? { ...engine, status: known.status, since: known.since } : engine)
    }
    const draining = before?.draining ?? false
    this.#agents.set(member.agent, { agent: member.agent, url: member.url, seq: -1, engines, draining })
  }

  #namesTaken({ agent, engines }: Pick<Hello, 'agent' | 'engines'>): boolean {
    const ids = new Set(engines.map(({ id }) => id))
    if (ids.size < engines.length) return true
    const others = [...this.#agents.values()].filter((other) => other.agent !== agent)
    return others.some((other) => [...other.engines.keys()].some((id) => ids.has(id)))
  }

  #engines(now_ms: number): EngineSnapshot[] {
    const engines: EngineSnapshot[] = []
    for (const agent of this.#agents.values()) {
      for (const engine of agent.engines.values()) {
        engine.since.expire(now_ms)
        engines.push(engineSnapshot(agent, engine, now_ms))
      }
    }
    return engines
  }

  #leased(agent: string, engine: string, request: EngineRequest, now_ms: number): void {
    this.released(request.lease)
    const since = this.#agents.get(agent)?.engines.get(engine)?.since
    if (since === undefined) throw new Error(`engine ${engine} was chosen and is not in the pool`)
    since.add(request.lease, request.prompt_tokens_estimate, now_ms)
    this.#holders.set(request.lease, { agent, engine })
    dropOldest(this.#holders, LEASE_HOLDERS_MAX)
  }

  #bytesPerToken(): number | null {
    const known: number[] = []
    for (const agent of this.#agents.values()) {
      for (const { status } of agent.engines.values()) {
        if (status.bytes_per_token !== null) known.push(status.bytes_per_token)
      }
    }
    return known.length === 0 ? null : known.reduce((sum, ratio) => sum + ratio, 0) / known.length
  }

  #changed(now_ms: number): void {
    this.#version += 1
    this.#versionedAtMs = now_ms
  }
}

/** An engine before its first report counts as idle: its hello says that it is there. */
function unreported(description: EngineDescription, now_ms: number): EngineState {
  const status = {
    state: 'ready',
    waiting: 0,
    running: 0,
    queued_tokens: 0,
    kv_used_tokens: 0,
    bytes_per_token: null,
  } as const
  return { description: { ...description }, status, last_report_ms: now_ms, since: new LeasesSince() }
}

/** True if the report changes whether or how the engine can be used, beyond its load. */
function applyReport(engine: EngineState, report: EngineStatus, now_ms: number): boolean {
  const { id: _, epoch, leases_seen, ...status } = report
  const restarted = epoch !== engine.description.epoch
  if (restarted) {
    // Its leases died with the old epoch.
    engine.description = { ...engine.description, epoch }
    engine.since.clear()
  }
  for (const lease of leases_seen) engine.since.remove(lease)
  const returned = now_ms - engine.last_report_ms > SILENT_AFTER_MS
  const material = restarted || returned || status.state !== engine.status.state
  engine.status = status
  engine.last_report_ms = now_ms
  return material
}

function engineSnapshot(agent: AgentState, engine: EngineState, now_ms: number): EngineSnapshot {
  const { id, epoch, kind, seats, kv_capacity_tokens, context_tokens_max, speed_factor, prefill_tokens_per_s } =
    engine.description
  const { waiting, running, kv_used_tokens } = engine.status
  const queued_tokens = engine.status.queued_tokens + engine.since.prompt_tokens
  const silent = now_ms - engine.last_report_ms > SILENT_AFTER_MS
  const reported = engine.status.state === 'ready' && agent.draining ? 'draining' : engine.status.state
  return {
    engine: id,
    ...{ epoch, kind, seats, kv_capacity_tokens, context_tokens_max, speed_factor, prefill_tokens_per_s },
    ...{ waiting, running, queued_tokens, kv_used_tokens },
    agent: agent.agent,
    url: agent.url,
    state: reported !== 'down' && silent ? 'silent' : reported,
    leases_since_report: engine.since.count,
    last_report_ms: engine.last_report_ms,
  }
}

function dropOldest<V>(map: Map<string, V>, size_max: number): void {
  for (const oldest of map.keys()) {
    if (map.size <= size_max) return
    map.delete(oldest)
  }
}
