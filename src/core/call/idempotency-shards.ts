/**
 * Which of its tenant's objects has an idempotency key. There are BASE_SHARDS, and twice as many of a tenant whenever it has twice as
 * many shards (core/program/tenant-shards.ts). With twice as many, a key stays in its shard or goes to the one whose parent that is.
 * So a shard that is new to a key knows which one had it before.
 */
import { hash32 } from '../wire/hash.ts'

export const BASE_SHARDS = 8
/** A shard asks its parent for keys that it does not know so long: longer than calls take, and than keys are kept (KEPT_MS). */
export const PARENT_ASKED_MS = 60 * 60_000
/** A shard that was asked nothing for so long may have been out of use. */
export const UNUSED_MS = 60_000

export function keyShard(key: string, tenant_shards: number): number {
  const doublings = Math.floor(Math.log2(tenant_shards))
  return hash32(key) % (BASE_SHARDS * 2 ** doublings)
}

/** The shard that had this one's keys when there were fewer. Null: there never were. */
export function parentShard(shard: number): number | null {
  return shard < BASE_SHARDS ? null : shard - 2 ** Math.floor(Math.log2(shard))
}

/** Since when a shard has been in use without a pause. */
export class InUse {
  #since_ms = Number.NEGATIVE_INFINITY
  #asked_ms = Number.NEGATIVE_INFINITY

  /** Whether keys may be in use that are older than what it has seen. */
  isNew(now_ms: number): boolean {
    if (now_ms - this.#asked_ms > UNUSED_MS || now_ms < this.#since_ms) this.#since_ms = now_ms
    this.#asked_ms = now_ms
    return now_ms - this.#since_ms < PARENT_ASKED_MS
  }
}
