/** What an isolate has told others of late, so that it tells nothing of the same twice within NOTICE_INTERVAL_MS. */

export const NOTICE_INTERVAL_MS = 2_000
/** Keys that an isolate remembers. Past it the one told longest ago is forgotten. */
export const NOTICES_MAX = 1024

export class Notices {
  /** When each was told, the longest ago first. */
  readonly #told_ms = new Map<string, number>()

  /** Whether to tell it now. If so, it counts as told. */
  isDue(key: string, now_ms: number): boolean {
    const told_ms = this.#told_ms.get(key)
    if (told_ms !== undefined && now_ms < told_ms + NOTICE_INTERVAL_MS) return false
    this.#told_ms.delete(key)
    this.#told_ms.set(key, now_ms)
    const [oldest] = this.#told_ms.keys()
    if (this.#told_ms.size > NOTICES_MAX) this.#told_ms.delete(oldest as string)
    return true
  }

  get size(): number {
    return this.#told_ms.size
  }
}
