/**
 * One region's pool in shards, each with engines and reports of its own. Isolates of a region choose among them by what they last
 * saw, as the relay does: a lease's answer brings a snapshot if there is a newer one.
 */
import { type ShardsToAsk, shardLoad, shardsToAsk } from '../../src/core/pool/choose-shards.ts'
import { FIRST_SHARD, type ShardsView } from '../../src/core/pool/pool-shards.ts'
import type { EngineChoice, Pin, PoolSnapshot, ProgramRequest } from '../../src/core/pool/pool-types.ts'
import type { OpenCharge } from '../../src/core/pool/reported-charges.ts'
import { SimPool, type SimPoolOptions } from './pool.ts'
import type { WorldEngine } from './world-engine.ts'

export class SimShards {
  readonly #shards = new Map<number, SimPool>()
  readonly #view: ShardsView
  readonly #seen = new Map<string, PoolSnapshot>()

  /** Engines of one agent are in one shard: see WorldEngines. */
  constructor(options: SimPoolOptions, shards: number) {
    const per_shard = Math.ceil(options.engines.length / shards)
    const agents: Record<string, number> = {}
    const seats: { shard: number; seats: number }[] = []
    for (let from = 0; from < options.engines.length; from += per_shard) {
      const engines = options.engines.slice(from, from + per_shard)
      const shard = this.#shards.size
      this.#shards.set(shard, new SimPool({ ...options, engines }))
      for (const { agent } of engines) agents[agent] = shard
      seats.push({ shard, seats: engines.reduce((sum, { sizes }) => sum + sizes.seats, 0) })
    }
    this.#view = { version: 1, shards: seats, agents }
  }

  /** `from`: the region whose isolates ask. */
  toAsk(from: string, program: string, pin: Pin | null, now_us: number): ShardsToAsk {
    return shardsToAsk(this.#view, {
      ...{ program, pin },
      loadOf: (shard) => {
        const seen = this.#seen.get(`${from}/${shard}`)
        return seen === undefined ? null : shardLoad(seen, now_us / 1000)
      },
    })
  }

  choose(
    from: string,
    shard: number,
    request: ProgramRequest,
    now_us: number,
  ): { choice: EngineChoice; charges: readonly OpenCharge[] } {
    const key = `${from}/${shard}`
    const seen = this.#seen.get(key)
    const { snapshot, ...chosen } = this.#shard(shard).choose(
      request,
      now_us,
      this.#isAlone ? null : (seen?.version ?? 0),
    )
    if (snapshot !== null) this.#seen.set(key, snapshot)
    const { choice } = chosen
    if (snapshot === null && choice.status === 'leased') {
      const engine = seen?.engines.find((one) => one.engine === choice.engine)
      if (engine !== undefined) engine.leases_since_report += 1
    }
    return chosen
  }

  engine(id: string): WorldEngine {
    const found = [...this.#shards.values()].map((pool) => pool.find(id)).find((engine) => engine !== null)
    if (found == null) throw new Error(`engine ${id} is not in this pool`)
    return found
  }

  reached(engine: WorldEngine, lease: string, now_us: number): void {
    this.#of(engine).reached(engine, lease, now_us)
  }

  changed(engine: WorldEngine, now_us: number): void {
    this.#of(engine).changed(engine, now_us)
  }

  get #isAlone(): boolean {
    return this.#shards.size === 1
  }

  #of(engine: WorldEngine): SimPool {
    return this.#shard(this.#view.agents[engine.agent] ?? FIRST_SHARD)
  }

  #shard(shard: number): SimPool {
    const pool = this.#shards.get(shard)
    if (pool === undefined) throw new Error(`there is no shard ${shard}`)
    return pool
  }
}
