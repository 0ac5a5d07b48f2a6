/**
 * Which shard of a pool each agent belongs to. One actor leases for at most SHARD_ENGINES_MAX engines: it looks at each of them
 * for every lease. A larger pool has more such actors, its shards, numbered from 0. Shard 0 keeps this table.
 *
 * - An agent's engines are in one shard. An agent with more engines than a shard may have gets one of its own.
 * - An agent goes to the first shard with room, and stays there. So the last shards empty first when agents leave.
 * - When the engines would leave every other shard some room, the agents of the emptiest shard move, one at a time.
 * - Shard 0 is always there. A pool of one shard has no others to tell about.
 */

export const FIRST_SHARD = 0
export const SHARD_ENGINES_MAX = 64
/** Shards of one pool. Another agent is refused until one leaves. */
export const SHARDS_MAX = 64
/** A shard is given up when the engines would fill the others to at most this share. Below 1, so that none is opened again at once. */
export const SHARDS_FULL_MAX = 0.75
/** An agent that was given a place and has not taken it for this long has none. */
export const PLACE_KEPT_MS = 60_000

export interface ShardMember {
  agent: string
  shard: number
  engines: number
  /** Of all its engines. Calls are spread over shards by their seats. */
  seats: number
}

/** The shards as a Worker remembers them. `version`: compared for equality. */
export interface ShardsView {
  version: number
  shards: readonly { shard: number; seats: number }[]
  /** By agent. */
  agents: Readonly<Record<string, number>>
}

interface Placed extends ShardMember {
  /** Null: it has said hello there. */
  placed_at_ms: number | null
}

export class PoolShards {
  readonly #engines_max: number
  readonly #agents = new Map<string, Placed>()
  #version: number

  /** `version` must not be one of an earlier table. */
  constructor(engines_max: number = SHARD_ENGINES_MAX, version = 1, members: readonly ShardMember[] = []) {
    this.#engines_max = engines_max
    this.#version = version
    for (const member of members) this.#agents.set(member.agent, { ...member, placed_at_ms: null })
  }

  /** Where an agent opens its link. How many engines it has is known from its last hello; a new one counts as one. Null: full. */
  place(agent: string, now_ms: number): number | null {
    this.#dropUntaken(now_ms)
    const known = this.#agents.get(agent)
    if (known !== undefined) return known.shard
    return this.#put({ agent, engines: 1, seats: 0 }, now_ms)
  }

  /**
   * An agent has said hello in a shard. Returns the shard where it belongs: another one, if it has more engines than there is
   * room for. Null: no shard has room.
   */
  joined(member: ShardMember, now_ms: number): number | null {
    this.#dropUntaken(now_ms)
    const { agent, shard } = member
    const known = this.#agents.get(agent)
    if (known !== undefined && known.shard !== shard) return known.shard
    if (!this.#fits(shard, member)) {
      this.#agents.delete(agent)
      this.#version += 1
      return this.#put(member, now_ms)
    }
    const isSame = known?.placed_at_ms === null && known.engines === member.engines && known.seats === member.seats
    this.#agents.set(agent, { ...member, placed_at_ms: null })
    if (!isSame) this.#version += 1
    return shard
  }

  /** The shard has these agents and no others. */
  has(shard: number, agents: readonly string[]): void {
    const there = new Set(agents)
    for (const member of this.#agents.values()) {
      if (member.shard !== shard || member.placed_at_ms !== null || there.has(member.agent)) continue
      this.#agents.delete(member.agent)
      this.#version += 1
    }
  }

  /** Null: the agent is not known. */
  shardOf(agent: string): number | null {
    return this.#agents.get(agent)?.shard ?? null
  }

  /** By number. */
  get shards(): number[] {
    const shards = new Set([FIRST_SHARD, ...[...this.#agents.values()].map(({ shard }) => shard)])
    return [...shards].sort((a, b) => a - b)
  }

  get version(): number {
    return this.#version
  }

  view(): ShardsView {
    const members = [...this.#agents.values()]
    const seatsOf = (shard: number) => sum(members.filter((one) => one.shard === shard).map(({ seats }) => seats))
    return {
      version: this.#version,
      shards: this.shards.map((shard) => ({ shard, seats: seatsOf(shard) })),
      agents: Object.fromEntries(members.map(({ agent, shard }) => [agent, shard])),
    }
  }

  /** Gives an agent its place in another shard, so that its shard can be given up. Null: nothing is to move, or an agent still does. */
  move(now_ms: number): { agent: string; from: number } | null {
    this.#dropUntaken(now_ms)
    const members = [...this.#agents.values()]
    if (members.some(({ placed_at_ms }) => placed_at_ms !== null)) return null
    const given_up = this.#emptiest()
    if (given_up === null) return null
    const room = (this.shards.length - 1) * this.#engines_max * SHARDS_FULL_MAX
    if (sum(members.map(({ engines }) => engines)) > room) return null
    const leaving = members.filter(({ shard }) => shard === given_up).sort((a, b) => a.engines - b.engines)
    for (const member of leaving) {
      const shard = this.shards.find((one) => one !== given_up && this.#fits(one, member))
      if (shard === undefined) continue
      this.#agents.set(member.agent, { ...member, shard, placed_at_ms: now_ms })
      this.#version += 1
      return { agent: member.agent, from: given_up }
    }
    return null
  }

  /** What a later table needs. */
  members(): ShardMember[] {
    const joined = [...this.#agents.values()].filter(({ placed_at_ms }) => placed_at_ms === null)
    return joined.map(({ placed_at_ms: _, ...member }) => member)
  }

  #put(member: Omit<ShardMember, 'shard'>, now_ms: number): number | null {
    for (let shard = FIRST_SHARD; shard < SHARDS_MAX; shard += 1) {
      if (!this.#fits(shard, member)) continue
      this.#agents.set(member.agent, { ...member, shard, placed_at_ms: now_ms })
      this.#version += 1
      return shard
    }
    return null
  }

  #fits(shard: number, { agent, engines }: Pick<ShardMember, 'agent' | 'engines'>): boolean {
    const others = [...this.#agents.values()].filter((one) => one.shard === shard && one.agent !== agent)
    return others.length === 0 || sum(others.map((one) => one.engines)) + engines <= this.#engines_max
  }

  /** Null: there is only the first, which is never given up. */
  #emptiest(): number | null {
    const engines = new Map<number, number>()
    for (const one of this.#agents.values()) engines.set(one.shard, (engines.get(one.shard) ?? 0) + one.engines)
    engines.delete(FIRST_SHARD)
    let least: [number, number] | null = null
    for (const entry of engines) if (least === null || entry[1] <= least[1]) least = entry
    return least === null ? null : least[0]
  }

  #dropUntaken(now_ms: number): void {
    for (const { agent, placed_at_ms } of this.#agents.values()) {
      if (placed_at_ms === null || now_ms - placed_at_ms < PLACE_KEPT_MS) continue
      this.#agents.delete(agent)
      this.#version += 1
    }
  }
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, one) => total + one, 0)
}
