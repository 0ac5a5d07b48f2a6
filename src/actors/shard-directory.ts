/**
 * A PoolActor among the shards of its pool (core/pool/pool-shards.ts). The first shard holds the table of all, with the agents of
 * other shards in its SQLite. The others tell it who joined and who they have.
 *
 * Keeps true:
 * - A pool of one shard asks and stores nothing.
 * - A shard that cannot reach the first one keeps its agents. What it could not tell it tells later.
 */
import { eq } from 'drizzle-orm'
import { FIRST_SHARD, PoolShards, type ShardMember, type ShardsView } from '../core/pool/pool-shards.ts'
import type { Env } from '../env.ts'
import { logFailure } from '../platform/log.ts'
import type { PoolRpc } from './contracts.ts'
import type { ActorDatabase } from './storage/actor-database.ts'
import { shardMembers } from './storage/pool-schema.ts'
import { poolActor } from './stubs.ts'

export interface ShardDirectoryOptions {
  env: Env
  pool: { region: string; model: string; shard: number }
  storage: ActorDatabase
  waitUntil(work: Promise<unknown>): void
  /** What this shard's table holds. */
  agents(): readonly string[]
}

export class ShardDirectory {
  readonly #options: ShardDirectoryOptions
  #shards: PoolShards
  /** By agent of another shard: the row that is stored. */
  readonly #rows = new Map<string, string>()
  /** The first shard did not hear which agents this one has. */
  #isUntold = false

  constructor(options: ShardDirectoryOptions) {
    this.#options = options
    this.#shards = new PoolShards(enginesMax(options.env))
  }

  get isFirst(): boolean {
    return this.#options.pool.shard === FIRST_SHARD
  }

  /** `here`: this shard's own. Isolates compare versions for equality, so `version` is one that no earlier table had. */
  async restore(here: readonly ShardMember[], version: number): Promise<void> {
    if (!this.isFirst) {
      this.#isUntold = true
      return
    }
    const db = await this.#options.storage.stored()
    const elsewhere = db?.select().from(shardMembers).all() ?? []
    for (const member of elsewhere) this.#rows.set(member.agent, JSON.stringify(member))
    this.#shards = new PoolShards(enginesMax(this.#options.env), version, [...here, ...elsewhere])
  }

  /** Where the agent opens its link. Null: nowhere, the pool is full. */
  place(agent: string): number | null {
    return this.#shards.place(agent, Date.now())
  }

  /** Whether the agent belongs into this shard. */
  async takes(member: ShardMember): Promise<boolean> {
    if (this.isFirst) return (await this.joined(member)) === FIRST_SHARD
    try {
      return (await this.#first().shardJoined(member)) === member.shard
    } catch (error) {
      logFailure('shard_not_joined', error, { agent: member.agent })
      return true
    }
  }

  async joined(member: ShardMember): Promise<number | null> {
    const shard = this.#shards.joined(member, Date.now())
    await this.#save()
    this.#moveOne()
    return shard
  }

  /** This shard's agents have changed, or were not told yet. */
  tell(isChanged: boolean): void {
    const { pool, agents, waitUntil } = this.#options
    if (!isChanged && !this.#isUntold) return
    this.#isUntold = false
    const told = { shard: pool.shard, agents: agents() }
    const telling = this.isFirst ? this.has(told) : this.#first().shardHas(told)
    waitUntil(
      telling.catch((error: unknown) => {
        this.#isUntold = true
        logFailure('shard_not_told', error, pool)
      }),
    )
  }

  async has({ shard, agents }: { shard: number; agents: readonly string[] }): Promise<void> {
    this.#shards.has(shard, agents)
    await this.#save()
    this.#moveOne()
  }

  /** For an isolate that knows `known`. Null: nothing else than that. */
  view(known: number | undefined): ShardsView | null {
    if (!this.isFirst || known === this.#shards.version) return null
    if (known === undefined && this.#shards.shards.length === 1) return null
    return this.#shards.view()
  }

  /** The agent's shard. Null: it is in this shard, or in none. */
  elsewhere(agent: string): PoolRpc | null {
    const shard = this.isFirst ? this.#shards.shardOf(agent) : null
    return shard === null || shard === FIRST_SHARD ? null : this.#shard(shard)
  }

  /** From the first shard, the others. */
  get others(): PoolRpc[] {
    if (!this.isFirst) return []
    return this.#shards.shards.filter((shard) => shard !== FIRST_SHARD).map((shard) => this.#shard(shard))
  }

  /** Asks other shards about what names their agents. Returns the rest, which is this shard's. One that does not answer is left out. */
  async passOn<T extends { agent: string }, R>(
    named: readonly T[],
    ask: (shard: PoolRpc, theirs: T[]) => Promise<readonly R[]>,
  ): Promise<{ here: readonly T[]; told: R[] }> {
    if (!this.isFirst || this.#shards.shards.length === 1) return { here: named, told: [] }
    const { here = [], ...elsewhere } = Object.groupBy(named, ({ agent }) => this.#shards.shardOf(agent) || 'here')
    const asked = Object.entries(elsewhere).map(([shard, theirs = []]) => ask(this.#shard(Number(shard)), theirs))
    return { here, told: (await this.#answered(asked)).flat() }
  }

  /** From the first shard, each other one's answer. One that does not answer is left out. */
  fromOthers<R>(ask: (shard: PoolRpc) => Promise<R>): Promise<R[]> {
    return this.#answered(this.others.map(ask))
  }

  async #answered<R>(asked: readonly Promise<R>[]): Promise<R[]> {
    const answers = await Promise.allSettled(asked)
    return answers.flatMap((answer) => {
      if (answer.status === 'fulfilled') return [answer.value]
      logFailure('shard_silent', answer.reason, this.#options.pool)
      return []
    })
  }

  /** So that a shard can be given up. The next one moves when this one has joined. */
  #moveOne(): void {
    const move = this.#shards.move(Date.now())
    if (move === null) return
    const { agent, from } = move
    const moving = this.#shard(from).moveAgent(agent)
    this.#options.waitUntil(moving.catch((error: unknown) => logFailure('agent_not_moved', error, { agent })))
  }

  #first(): PoolRpc {
    return this.#shard(FIRST_SHARD)
  }

  #shard(shard: number): PoolRpc {
    const { env, pool } = this.#options
    return poolActor(env, { id: pool.region, location_hint: null }, pool.model, shard)
  }

  async #save(): Promise<void> {
    const elsewhere = this.#shards.members().filter(({ shard }) => shard !== FIRST_SHARD)
    const changed = elsewhere.filter((member) => this.#rows.get(member.agent) !== JSON.stringify(member))
    const kept = new Set(elsewhere.map(({ agent }) => agent))
    const gone = [...this.#rows.keys()].filter((agent) => !kept.has(agent))
    if (changed.length === 0 && gone.length === 0) return
    const db = await this.#options.storage.writable()
    for (const member of changed) {
      this.#rows.set(member.agent, JSON.stringify(member))
      db.insert(shardMembers).values(member).onConflictDoUpdate({ target: shardMembers.agent, set: member }).run()
    }
    for (const agent of gone) {
      this.#rows.delete(agent)
      db.delete(shardMembers).where(eq(shardMembers.agent, agent)).run()
    }
  }
}

/** Throws if the variable is no count: undefined means the default. */
function enginesMax({ POOL_SHARD_ENGINES: text }: Env): number | undefined {
  if (text === undefined) return undefined
  const count = Number(text)
  if (!Number.isInteger(count) || count < 1)
    throw new Error(`POOL_SHARD_ENGINES must be a whole number above 0, not ${text}`)
  return count
}
