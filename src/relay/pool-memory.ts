/**
 * The isolate's last snapshot of each pool. It decides when a PoolActor cannot be asked, and holds the learned ratio of
 * bytes to prompt tokens. Lease answers carry snapshots, only when they changed. Of a pool with several shards it holds one
 * of each, and which shards there are.
 */
import type { RememberedPool } from '../actors/contracts.ts'
import { type ShardsToAsk, shardLoad, shardsToAsk } from '../core/pool/choose-shards.ts'
import { FIRST_SHARD, type ShardsView } from '../core/pool/pool-shards.ts'
import type { Pin } from '../core/pool/pool-types.ts'
import { putLast } from '../core/put-last.ts'

/** Shards of pools that an isolate remembers. Past it the one heard of longest ago is forgotten. */
export const POOLS_REMEMBERED_MAX = 1000

export class PoolMemory {
  readonly #pools = new Map<string, RememberedPool>()
  /** Of pools that have, or had, more than one. */
  readonly #shards = new Map<string, ShardsView>()

  remember(snapshot: RememberedPool): void {
    putLast(this.#pools, keyOf(snapshot.region, snapshot.model, snapshot.shard), snapshot, POOLS_REMEMBERED_MAX)
  }

  rememberShards(region: string, model: string, view: ShardsView): void {
    putLast(this.#shards, keyOf(region, model), view, POOLS_REMEMBERED_MAX)
  }

  recall(region: string, model: string, shard?: number): RememberedPool | null {
    return this.#pools.get(keyOf(region, model, shard)) ?? null
  }

  /** Null: none is known but the first. */
  shardsOf(region: string, model: string): ShardsView | null {
    return this.#shards.get(keyOf(region, model)) ?? null
  }

  /** Counts a lease in the isolate's view of a shard, until its next snapshot does. One shard has no other to be compared with. */
  leased(region: string, model: string, shard: number | undefined, { engine }: { engine: string }): void {
    if (this.shardsOf(region, model) === null) return
    const chosen = this.recall(region, model, shard)?.engines.find((one) => one.engine === engine)
    if (chosen !== undefined) chosen.leases_since_report += 1
  }

  shardsToAsk(
    region: string,
    { id, tenant, program, model }: { id: string; tenant: string; program: string | null; model: string },
    pin: Pin | null,
    now_ms: number,
  ): ShardsToAsk {
    return shardsToAsk(this.shardsOf(region, model), {
      ...{ program: `${tenant}\n${program ?? id}`, pin },
      loadOf: (shard) => {
        const seen = this.recall(region, model, shard)
        return seen === null ? null : shardLoad(seen, now_ms)
      },
    })
  }

  /** The ratio of the first of `regions` whose engines have measured one. Null: none has. */
  bytesPerToken(regions: readonly string[], model: string): number | null {
    for (const region of regions) {
      for (const { shard } of this.shardsOf(region, model)?.shards ?? [{ shard: FIRST_SHARD }]) {
        const ratio = this.recall(region, model, shard)?.bytes_per_token ?? null
        if (ratio !== null) return ratio
      }
    }
    return null
  }

  get size(): number {
    return this.#pools.size
  }
}

function keyOf(region: string, model: string, shard: number = FIRST_SHARD): string {
  return JSON.stringify([region, model, shard])
}
