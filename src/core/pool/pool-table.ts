/**
 * One pool, or a shard of it (pool-shards.ts): the engines that serve one model in one region, what they last reported, and the
 * leases granted since.
 *
 * A report is old by the time it is read, and misses every lease granted since. So a lease counts toward its engine's load
 * until a report lists it (leases-since.ts), and 200 calls at once on a stale report spread evenly.
 *
 * An engine that was not heard of for STATUS_MISSED_MAX intervals is silent and takes no leases. After a restart of the
 * pool its members count as heard of at that moment, unless the caller knows better (`heardOf`): serving beats ordering,
 * and a dead one is replaced at dispatch.
 */
import {
  ENGINES_PER_AGENT_MAX,
  type EngineDescription,
  type EngineStatus,
  type Hello,
  type Status,
} from '../../protocol/link.ts'
import type { Balancer } from './balancers/balancer.ts'
import { COST_AWARE } from './balancers/cost-aware.ts'
import { engineLoad, OUTPUT_TOKENS_ASSUMED } from './engine-load.ts'
import { KvResidency } from './kv-residency.ts'
import { creditsOn } from './lease-credits.ts'
import { type Fronting, PoolEngine } from './pool-engine.ts'
import type { EngineChoice, EngineSnapshot, PoolSnapshot, ProgramRequest } from './pool-types.ts'
import { type OpenCharge, ReportedCharges } from './reported-charges.ts'

/** Agents of one table. With an engine each they fill a shard. */
export const AGENTS_PER_POOL_MAX = 64
/** Leases whose holder is remembered, for cancelling. The oldest are forgotten first. */
export const LEASE_HOLDERS_MAX = 16_384
/** Workers get changed loads at most this often. They get changes of membership at once. */
export const SNAPSHOT_REFRESH_MS = 1000
/** What survives a restart of the pool, one per agent. */
export interface AgentMembership {
  agent: string
  url: string
  engines: EngineDescription[]
}

/** A lease that an isolate has granted itself. */
export interface CreditedLease extends Pick<ProgramRequest, 'lease' | 'tenant' | 'program' | 'prompt_tokens_estimate'> {
  agent: string
  engine: string
  epoch: string
}

interface LeaseHolder {
  agent: string
  engine: string
  program: string
}

interface AgentState extends Fronting {
  seq: number
  engines: Map<string, PoolEngine>
  draining: boolean
}

export class PoolTable {
  readonly region: string
  readonly model: string
  readonly #balancer: Balancer
  #agents = new Map<string, AgentState>()
  #holders = new Map<string, LeaseHolder>()
  #charges = new ReportedCharges()
  #residency = new KvResidency()
  #version = 1
  #versionedAtMs = Number.NEGATIVE_INFINITY

  constructor(pool: { region: string; model: string }, balancer: Balancer = COST_AWARE) {
    this.region = pool.region
    this.model = pool.model
    this.#balancer = balancer
  }

  static restore(
    pool: { region: string; model: string },
    members: readonly AgentMembership[],
    version: number,
    now_ms: number,
    balancer: Balancer = COST_AWARE,
  ): PoolTable {
    const table = new PoolTable(pool, balancer)
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
   * An agent opened its link. It replaces an earlier link of the same agent, and its `seq` begins anew. `engine_taken`: the
   * hello names an engine twice, or one of another agent. Pins and exclusions go by the engine's id, so an id has one
   * owner.
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

  /** A report. `old`: repeated or overtaken, so dropped. Engines that the agent's hello did not name are ignored. */
  agentStatus(agent: string, status: Omit<Status, 'type'>, now_ms: number): 'applied' | 'old' | 'unknown_agent' {
    const state = this.#agents.get(agent)
    if (state === undefined) return 'unknown_agent'
    if (status.seq <= state.seq) return 'old'
    state.seq = status.seq
    let material = false
    for (const report of status.engines) {
      const engine = state.engines.get(report.id)
      if (engine === undefined) continue
      if (report.epoch !== engine.description.epoch) this.#forget(report.id)
      if (engine.reported(report, now_ms)) material = true
      this.#charged(agent, engine.description, report.charges)
    }
    if (material || now_ms - this.#versionedAtMs >= SNAPSHOT_REFRESH_MS) this.#changed(now_ms)
    return 'applied'
  }

  /** When the agent was last heard of, where that is known better than by its joining. */
  heardOf(agent: string, at_ms: number): void {
    for (const engine of this.#agents.get(agent)?.engines.values() ?? []) engine.heardOf(at_ms)
  }

  agentLeft(agent: string, now_ms: number): boolean {
    const left = this.#agents.get(agent)
    if (left === undefined) return false
    for (const engine of left.engines.keys()) this.#forget(engine)
    this.#agents.delete(agent)
    this.#changed(now_ms)
    return true
  }

  /** The operator's order. It overrides reports and stays across links. False: there is no such agent. */
  setDraining(agent: string, draining: boolean, now_ms: number): boolean {
    const state = this.#agents.get(agent)
    if (state === undefined) return false
    if (state.draining !== draining) this.#changed(now_ms)
    state.draining = draining
    return true
  }

  /** Chooses by the pool's balancer. A granted lease counts from here on, and a repeated lease counts once. */
  choose(request: ProgramRequest, now_ms: number): EngineChoice {
    const resident_tokens = this.#residency.of(programKey(request))
    const endedEstimate: ProgramRequest['endedEstimate'] = ({ agent, engine }) =>
      this.#agents.get(agent)?.engines.get(engine)?.endedEstimate(now_ms) ?? 0
    const known = { ...request, resident_tokens, endedEstimate }
    const choice = this.#balancer.choose(this.region, this.#engines(now_ms), known)
    if (choice.status === 'leased') this.#leased(choice.agent, choice.engine, request, now_ms)
    return choice
  }

  /** How many more calls of programs that are at home there one isolate may send without a request. */
  creditsOn({ agent, engine }: { agent: string; engine: string }, now_ms: number): number {
    const state = this.#agents.get(agent)
    const found = state?.engines.get(engine)
    if (!this.#balancer.stays_home || state === undefined || found === undefined) return 0
    return creditsOn(found.look(state, now_ms))
  }

  /**
   * An isolate has granted itself this lease. Reports may have listed it by now, so it is no load of its own. Returns the engine's load. Null: the
   * engine is not here, or has another epoch.
   */
  leasedByCredit(request: CreditedLease, now_ms: number): number | null {
    const { agent, engine, epoch } = request
    const state = this.#agents.get(agent)
    const found = state?.engines.get(engine)
    if (state === undefined || found === undefined || found.description.epoch !== epoch) return null
    this.#holds(found, request)
    return engineLoad(found.look(state, now_ms))
  }

  /** Takes back a lease that never reached its engine. */
  released(lease: string): boolean {
    const holder = this.#holders.get(lease)
    if (holder === undefined) return false
    this.#holders.delete(lease)
    this.#agents.get(holder.agent)?.engines.get(holder.engine)?.released(lease)
    return true
  }

  leaseHolder(lease: string): { agent: string; engine: string } | null {
    const holder = this.#holders.get(lease)
    return holder === undefined ? null : { agent: holder.agent, engine: holder.engine }
  }

  /** What agents last reported for this program's open leases here. */
  chargesOf(named: Pick<ProgramRequest, 'tenant' | 'program'>): OpenCharge[] {
    return this.#charges.of(programKey(named))
  }

  snapshot(now_ms: number): PoolSnapshot {
    const engines = this.#engines(now_ms).map((engine) => ({ ...engine }))
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

  #join(member: AgentMembership, now_ms: number): void {
    const before = this.#agents.get(member.agent)
    const engines = new Map<string, PoolEngine>()
    for (const [id, { description }] of before?.engines ?? []) {
      const stays = member.engines.some((engine) => engine.id === id && engine.epoch === description.epoch)
      if (!stays) this.#forget(id)
    }
    for (const description of member.engines.slice(0, ENGINES_PER_AGENT_MAX)) {
      const { id } = description
      engines.set(id, new PoolEngine(description, before?.engines.get(id), now_ms))
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

  #engines(now_ms: number): Readonly<EngineSnapshot>[] {
    const engines: Readonly<EngineSnapshot>[] = []
    for (const agent of this.#agents.values()) {
      for (const engine of agent.engines.values()) engines.push(engine.look(agent, now_ms))
    }
    return engines
  }

  /** Takes charges only from the agent that was granted the lease. Undefined: its last report still counts. */
  #charged(agent: string, { id: engine, speed_factor }: EngineDescription, charges: EngineStatus['charges']): void {
    if (charges === undefined) return
    this.#charges.reported({ engine, speed_factor }, charges, (lease) => {
      const holder = this.#holders.get(lease)
      return holder?.agent === agent && holder.engine === engine ? holder.program : null
    })
  }

  #leased(agent: string, engine: string, request: ProgramRequest, now_ms: number): void {
    this.released(request.lease)
    const chosen = this.#agents.get(agent)?.engines.get(engine)
    if (chosen === undefined) throw new Error(`engine ${engine} was chosen and is not in the pool`)
    const program = programKey(request)
    const held_tokens = this.#residency.of(program).get(engine) ?? 0
    chosen.leased(request.lease, Math.max(0, request.prompt_tokens_estimate - held_tokens), now_ms)
    this.#holds(chosen, { ...request, agent, engine })
  }

  #holds({ description }: PoolEngine, { agent, engine, ...request }: Omit<CreditedLease, 'epoch'>): void {
    const program = programKey(request)
    const { epoch, kv_capacity_tokens } = description
    const left_tokens = request.prompt_tokens_estimate + OUTPUT_TOKENS_ASSUMED
    this.#residency.granted(program, { engine, epoch, kv_capacity_tokens }, left_tokens)
    this.#holders.set(request.lease, { agent, engine, program })
    dropOldest(this.#holders, LEASE_HOLDERS_MAX)
  }

  /** The engine's calls and its KV are gone. */
  #forget(engine: string): void {
    this.#charges.forget(engine)
    this.#residency.forget(engine)
  }

  #bytesPerToken(): number | null {
    const known: number[] = []
    for (const agent of this.#agents.values()) {
      for (const { bytes_per_token } of agent.engines.values()) {
        if (bytes_per_token !== null) known.push(bytes_per_token)
      }
    }
    return known.length === 0 ? null : known.reduce((sum, ratio) => sum + ratio, 0) / known.length
  }

  #changed(now_ms: number): void {
    this.#version += 1
    this.#versionedAtMs = now_ms
  }
}

/** The length marks the end of the tenant's name. */
function programKey({ tenant, program }: Pick<ProgramRequest, 'tenant' | 'program'>): string {
  return `${tenant.length}:${tenant}${program}`
}

function dropOldest<V>(map: Map<string, V>, size_max: number): void {
  for (const oldest of map.keys()) {
    if (map.size <= size_max) return
    map.delete(oldest)
  }
}
