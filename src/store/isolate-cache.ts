/**
 * What an isolate remembers of D1, so that the call path asks it seldom. Bounded in entries and in age; absence is
 * remembered too, for less time and in a budget of its own, so that guesses at keys cannot evict real entries.
 *
 * Keeps true: per key at most one question to D1 is open, and no entry older than CACHE_TTL_MS is used while D1 answers.
 *
 * From CACHE_RENEW_MS on, one request renews the entry and all go on with the old value meanwhile. So an entry in use never
 * makes a call wait. An entry that is too old and that D1 does not renew goes on for CACHE_OUTAGE_MS: serving goes on while
 * D1 is down. A key that was revoked just before may work for as long in an isolate that cannot learn of it.
 */
import { SharedWork } from '../platform/shared-work.ts'
import { inTime, StoreUnavailable } from './database.ts'

export const CACHE_TTL_MS = 10_000
/** Age from which an entry is renewed while it is used. */
export const CACHE_RENEW_MS = 5_000
export const CACHE_ABSENT_TTL_MS = 2_000
/** From the end of an entry's life, while D1 cannot be asked. */
export const CACHE_OUTAGE_MS = 5 * 60_000
/** Between two questions to a D1 that does not answer, for one entry. */
export const CACHE_RETRY_MS = 1_000
/** From the question to D1's answer, where there is an old value to go on with. */
const ANSWER_MS = 1_000
/** Wait for another request's question. Past it, that request is taken for gone. */
const QUESTION_MS = 2_000
export const CACHE_ENTRIES_MAX = 2_000
export const CACHE_ABSENT_ENTRIES_MAX = 1_000

/** Keeps the invocation alive for work that no answer waits for. */
export type Background = (work: Promise<unknown>) => void

interface Present<V> {
  value: V
  renew_ms: number
  until_ms: number
  /** While D1 is down: no question before this time. */
  retry_ms: number
}

export class IsolateCache<V> {
  private readonly present = new Map<string, Present<V>>()
  private readonly absent = new Map<string, { until_ms: number }>()
  private readonly asking = new SharedWork<V | null>()

  /**
   * The cached value, or what `load` finds; null: absent. Time runs in `now_ms`, given by the caller. Without `background`
   * the request that renews an entry waits for it.
   */
  async get(key: string, now_ms: number, load: () => Promise<V | null>, background?: Background): Promise<V | null> {
    const hit = this.present.get(key)
    if (hit !== undefined && now_ms < hit.until_ms) {
      if (now_ms < Math.max(hit.renew_ms, hit.retry_ms) || this.asking.isOpen(key)) return hit.value
      const renewal = this.renew(key, now_ms, hit, load)
      if (background === undefined) await renewal
      else background(renewal.catch(() => undefined))
      return hit.value
    }
    if (hit !== undefined && now_ms < hit.retry_ms) return hit.value
    const miss = this.absent.get(key)
    if (miss !== undefined && now_ms < miss.until_ms) return null
    const isOver = hit === undefined || now_ms >= hit.until_ms + CACHE_OUTAGE_MS
    return isOver ? this.ask(key, now_ms, load) : this.renew(key, now_ms, hit, load)
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

  /** Whether `get` would ask, or renew what it has. */
  isDue(key: string, now_ms: number): boolean {
    const hit = this.present.get(key)
    return !this.asking.isOpen(key) && (hit === undefined || now_ms >= Math.max(hit.renew_ms, hit.retry_ms))
  }

  /** A question of another kind brings the value too. Until it is answered, `get` asks no other. */
  bring(key: string, now_ms: number, value: Promise<V | null>): void {
    // The question that brings it reports its failure.
    this.ask(key, now_ms, () => value).catch(() => undefined)
  }

  private keep(key: string, now_ms: number, value: V | null): V | null {
    this.present.delete(key)
    this.absent.delete(key)
    if (value === null) put(this.absent, key, { until_ms: now_ms + CACHE_ABSENT_TTL_MS }, CACHE_ABSENT_ENTRIES_MAX)
    else {
      const times = { renew_ms: now_ms + CACHE_RENEW_MS, until_ms: now_ms + CACHE_TTL_MS, retry_ms: 0 }
      put(this.present, key, { value, ...times }, CACHE_ENTRIES_MAX)
    }
    return value
  }

  /** The new value, or the old one if D1 does not answer. */
  private async renew(key: string, now_ms: number, hit: Present<V>, load: () => Promise<V | null>): Promise<V | null> {
    try {
      return await this.ask(key, now_ms, () => inTime(load(), ANSWER_MS))
    } catch (error) {
      if (!(error instanceof StoreUnavailable)) throw error
      hit.retry_ms = Math.min(now_ms + CACHE_RETRY_MS, hit.until_ms + CACHE_OUTAGE_MS)
      return hit.value
    }
  }

  private ask(key: string, now_ms: number, load: () => Promise<V | null>): Promise<V | null> {
    return this.asking.run(key, async () => this.keep(key, now_ms, await load()), QUESTION_MS)
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
