/**
 * To which regions programs are held and which have a budget, as their actors last said. A call whose actor is slow takes it from here, so that
 * overload does not reach D1.
 *
 * Keeps true: an entry is right as long as it lives. It lives HOLD_REMEMBERED_MS from the question, and an actor waits as
 * long from its last answer before it opens a run that is held to other regions (actors/program-residency.ts).
 */
import { HOLD_REMEMBERED_MS } from '../core/program/program-state.ts'
import type { HeldTo } from '../store/residency.ts'

/** Programs that an isolate remembers. Past it the one heard of longest ago is forgotten. */
export const HOLDS_REMEMBERED_MAX = 10_000

interface Hold extends HeldTo {
  until_ms: number
}

export class HoldMemory {
  readonly #holds = new Map<string, Hold>()

  /** `asked_at_ms`: when the question was sent. */
  remember(tenant: string, program: string, { regions, has_budget }: HeldTo, asked_at_ms: number): void {
    const key = keyOf(tenant, program)
    const until_ms = asked_at_ms + HOLD_REMEMBERED_MS
    if ((this.#holds.get(key)?.until_ms ?? 0) > until_ms) return
    this.#holds.delete(key)
    if (this.#holds.size >= HOLDS_REMEMBERED_MAX) {
      const oldest = this.#holds.keys().next()
      if (!oldest.done) this.#holds.delete(oldest.value)
    }
    this.#holds.set(key, { regions, has_budget, until_ms })
  }

  /** Null: not known. */
  recall(tenant: string, program: string, now_ms: number): HeldTo | null {
    const hold = this.#holds.get(keyOf(tenant, program))
    if (hold === undefined || now_ms >= hold.until_ms) return null
    return { regions: hold.regions, has_budget: hold.has_budget }
  }

  get size(): number {
    return this.#holds.size
  }
}

function keyOf(tenant: string, program: string): string {
  return JSON.stringify([tenant, program])
}
