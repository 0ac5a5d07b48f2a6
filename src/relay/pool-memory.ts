/**
 * The isolate's last snapshot of each pool: what decides when a PoolActor cannot be asked, and where the learned ratio of
 * bytes to prompt tokens comes from. Snapshots ride on lease answers, and only when they changed.
 */
import type { RememberedPool } from '../actors/contracts.ts'

/** Pools that an isolate remembers; past it the one heard of longest ago is forgotten. */
export const POOLS_REMEMBERED_MAX = 1000

export class PoolMemory {
  readonly #pools = new Map<string, RememberedPool>()

  remember(snapshot: RememberedPool): void {
    const key = keyOf(snapshot.region, snapshot.model)
    this.#pools.delete(key)
    if (this.#pools.size >= POOLS_REMEMBERED_MAX) {
      const oldest = this.#pools.keys().next()
      if (!oldest.done) this.#pools.delete(oldest.value)
    }
    this.#pools.set(key, snapshot)
  }

  recall(region: string, model: string): RememberedPool | null {
    return this.#pools.get(keyOf(region, model)) ?? null
  }

  /** As measured by the engines of the first of `regions` that has measured it; null: none has. */
  bytesPerToken(regions: readonly string[], model: string): number | null {
    for (const region of regions) {
      const ratio = this.recall(region, model)?.bytes_per_token ?? null
      if (ratio !== null) return ratio
    }
    return null
  }

  get size(): number {
    return this.#pools.size
  }
}

function keyOf(region: string, model: string): string {
  return JSON.stringify([region, model])
}
