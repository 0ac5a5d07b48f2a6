/**
 * Which classes of a tenant have an actor and a row of their own. Clients choose labels and prompts, so a client may give
 * each program a class of its own. At most CLASSES_PER_TENANT_MAX classes have their own. Programs of the others count for
 * the tenant's own class, `tenant`.
 *
 * While there is room a class gets its own at its first end. After that it takes the place of the class with the fewest
 * ends, once it has had more of them. A class that ends for the first time and never again displaces none, unless the
 * other has had no end for CLASS_IDLE_MS.
 */
import { z } from 'zod'
import { Count, Id } from '../../protocol/index.ts'

export const CLASSES_PER_TENANT_MAX = 256
/** Classes whose ends are counted while they have no place. The one that ended longest ago is forgotten first. */
export const CANDIDATES_MAX = 1024
/** A class without an end for this long gives its place to any other. */
export const CLASS_IDLE_MS = 7 * 24 * 60 * 60_000
/** Of programs without a label, a system prompt or tools, and of classes without a place. It always has its own. */
export const TENANT_CLASS = 'tenant'

/** Class, ends, and when the last one came. */
export const TenantClassRows = z.array(z.tuple([Id, Count, z.number()])).max(CLASSES_PER_TENANT_MAX)
export type TenantClassRows = z.infer<typeof TenantClassRows>

interface Known {
  ends: number
  last_end_ms: number
}

export interface ClassPlace {
  /** The class for which the program counts: its own, or TENANT_CLASS. */
  class: string
  /** The class that lost its place to it. */
  displaced: string | null
}

export class TenantClasses {
  readonly #known = new Map<string, Known>()
  /** Ends of classes without a place, the one that ended longest ago first. */
  readonly #candidates = new Map<string, number>()

  constructor(rows: TenantClassRows = []) {
    for (const [name, ends, last_end_ms] of rows) this.#known.set(name, { ends, last_end_ms })
  }

  get size(): number {
    return this.#known.size
  }

  /** A program of the class has ended. */
  ended(name: string, now_ms: number): ClassPlace {
    if (name === TENANT_CLASS) return { class: TENANT_CLASS, displaced: null }
    const known = this.#known.get(name)
    if (known !== undefined) {
      known.ends += 1
      known.last_end_ms = now_ms
      return { class: name, displaced: null }
    }
    const ends = (this.#candidates.get(name) ?? 0) + 1
    this.#candidates.delete(name)
    const displaced = this.#known.size < CLASSES_PER_TENANT_MAX ? null : this.#fewestEnds(ends, now_ms)
    if (displaced === null && this.#known.size >= CLASSES_PER_TENANT_MAX) {
      this.#keepCandidate(name, ends)
      return { class: TENANT_CLASS, displaced: null }
    }
    if (displaced !== null) this.#known.delete(displaced)
    this.#known.set(name, { ends, last_end_ms: now_ms })
    return { class: name, displaced }
  }

  rows(): TenantClassRows {
    return [...this.#known].map(([name, { ends, last_end_ms }]) => [name, ends, last_end_ms])
  }

  /** The class with the fewest ends, if they are fewer than `ends`. An idle class counts as one without ends. */
  #fewestEnds(ends: number, now_ms: number): string | null {
    let fewest: string | null = null
    let least = ends
    for (const [name, known] of this.#known) {
      const of_class = now_ms - known.last_end_ms >= CLASS_IDLE_MS ? 0 : known.ends
      if (of_class >= least) continue
      fewest = name
      least = of_class
    }
    return fewest
  }

  #keepCandidate(name: string, ends: number): void {
    this.#candidates.set(name, ends)
    if (this.#candidates.size <= CANDIDATES_MAX) return
    const [oldest] = this.#candidates.keys()
    this.#candidates.delete(oldest as string)
  }
}
