/**
 * What an isolate remembers of D1, so that the call path asks it seldom. Bounded in entries and in age; absence is
 * remembered too, for less time and in a budget of its own, so that guesses at keys can neither evict real entries nor
 * reach D1 each time. Values only: a promise of one request must not be awaited in another (workerd ties I/O to its request).
 */

export const CACHE_TTL_MS = 10_000
export const CACHE_ABSENT_TTL_MS = 2_000
export const CACHE_ENTRIES_MAX = 2_000
export const CACHE_ABSENT_ENTRIES_MAX = 1_000

export class IsolateCache<V> {
  private readonly present = new Map<string, { value: V; until_ms: number }>()
  private readonly absent = new Map<string, { until_ms: number }>()

  /** The cached value, or what `load` finds; null: absent. Time runs in `now_ms`, given by the caller. */
  async get(key: string, now_ms: number, load: () => Promise<V | null>): Promise<V | null> {
    const hit = this.present.get(key)
    if (hit !== undefined && now_ms < hit.until_ms) return hit.value
    const miss = this.absent.get(key)
    if (miss !== undefined && now_ms < miss.until_ms) return null
    return this.keep(key, now_ms, await load())
  }

  /** As `get`, but `load` is asked first: what is remembered answers only if that fails. */
  async refresh(key: string, now_ms: number, load: () => Promise<V | null>): Promise<V | null> {
    let value: V | null
    try {
      value = await load()
    } catch (error) {
      const hit = this.present.get(key)
      if (hit !== undefined && now_ms < hit.until_ms) return hit.value
      throw error
    }
    return this.keep(key, now_ms, value)
  }

  private keep(key: string, now_ms: number, value: V | null): V | null {
    this.present.delete(key)
    this.absent.delete(key)
    if (value === null) put(this.absent, key, { until_ms: now_ms + CACHE_ABSENT_TTL_MS }, CACHE_ABSENT_ENTRIES_MAX)
    else put(this.present, key, { value, until_ms: now_ms + CACHE_TTL_MS }, CACHE_ENTRIES_MAX)
    return value
  }

  get sizes(): { present: number; absent: number } {
    return { present: this.present.size, absent: this.absent.size }
  }
}

/** Entries lie in order of insertion, which with one TTL is their order of expiry: the first is the one to give up. */
function put<E>(map: Map<string, E>, key: string, entry: E, entriesMax: number): void {
  if (map.size >= entriesMax) {
    const oldest = map.keys().next()
    if (!oldest.done) map.delete(oldest.value)
  }
  map.set(key, entry)
}
