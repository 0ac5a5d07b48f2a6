/**
 * What an isolate remembers of D1, so that the call path asks it seldom. Bounded in entries and in age; absence is
 * remembered too, for less time and in a budget of its own, so that guesses at keys can neither evict real entries nor
 * reach D1 each time. Values only: a promise of one request must not be awaited in another (workerd ties I/O to its request).
 *
 * An entry that is too old and that D1 does not renew goes on for CACHE_OUTAGE_MS: serving goes on while D1 is down. A key
 * that was revoked just before may work for as long in an isolate that cannot learn of it.
 */
import { StoreUnavailable } from './database.ts'

export const CACHE_TTL_MS = 10_000
export const CACHE_ABSENT_TTL_MS = 2_000
/** From the end of an entry's life, while D1 cannot be asked. */
export const CACHE_OUTAGE_MS = 5 * 60_000
/** Between two questions to a D1 that does not answer, for one entry. */
export const CACHE_RETRY_MS = 1_000
/** From the question to D1's answer, where there is an old value to go on with. */
const CACHE_RENEW_MS = 1_000
export const CACHE_ENTRIES_MAX = 2_000
export const CACHE_ABSENT_ENTRIES_MAX = 1_000

interface Present<V> {
  value: V
  until_ms: number
  /** While D1 is down: no question before this time. */
  retry_ms: number
}

export class IsolateCache<V> {
  private readonly present = new Map<string, Present<V>>()
  private readonly absent = new Map<string, { until_ms: number }>()

  /** The cached value, or what `load` finds; null: absent. Time runs in `now_ms`, given by the caller. */
  async get(key: string, now_ms: number, load: () => Promise<V | null>): Promise<V | null> {
    const hit = this.present.get(key)
    if (hit !== undefined && now_ms < Math.max(hit.until_ms, hit.retry_ms)) return hit.value
    const miss = this.absent.get(key)
    if (miss !== undefined && now_ms < miss.until_ms) return null
    if (hit === undefined || now_ms >= hit.until_ms + CACHE_OUTAGE_MS) return this.keep(key, now_ms, await load())
    try {
      return this.keep(key, now_ms, await inTime(load()))
    } catch (error) {
      if (!(error instanceof StoreUnavailable)) throw error
      hit.retry_ms = Math.min(now_ms + CACHE_RETRY_MS, hit.until_ms + CACHE_OUTAGE_MS)
      return hit.value
    }
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
    else put(this.present, key, { value, until_ms: now_ms + CACHE_TTL_MS, retry_ms: 0 }, CACHE_ENTRIES_MAX)
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

/** A D1 that does not answer counts as one that fails. */
async function inTime<T>(work: Promise<T>): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new StoreUnavailable(`no answer in ${CACHE_RENEW_MS} ms`)), CACHE_RENEW_MS)
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}
