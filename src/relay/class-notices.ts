/**
 * Tells a pool of the class of a call that it leased as one of another class. Short prompts are leased while their program's
 * actor is still asked, and a program may have been started under a label that its calls do not repeat. The pool asks about
 * a class at most every ASK_INTERVAL (actors/pool-classes.ts), so it is told of one no more often.
 */

export const NOTICE_INTERVAL_MS = 2_000
/** Classes, by pool, that an isolate remembers to have told. Past it the one told longest ago is forgotten. */
export const NOTICED_CLASSES_MAX = 1024

export class ClassNotices {
  /** When each was told, the longest ago first. */
  readonly #told_ms = new Map<string, number>()

  /** Whether to tell it now. If so, it counts as told. */
  isDue(key: string, now_ms: number): boolean {
    const told_ms = this.#told_ms.get(key)
    if (told_ms !== undefined && now_ms < told_ms + NOTICE_INTERVAL_MS) return false
    this.#told_ms.delete(key)
    this.#told_ms.set(key, now_ms)
    const [oldest] = this.#told_ms.keys()
    if (this.#told_ms.size > NOTICED_CLASSES_MAX) this.#told_ms.delete(oldest as string)
    return true
  }

  get size(): number {
    return this.#told_ms.size
  }
}
