/**
 * What this agent knows about classes of programs. The pools tell it over their links. It is kept on disk, so an agent that
 * starts again, or has no control plane, orders by what it knew last. Engines of this process share the book. An engine in
 * another process is told.
 */
import { ClassBook } from '../../../src/core/classes/class-book.ts'
import { ClassSketch } from '../../../src/core/classes/class-sketch.ts'
import type { ClassData } from '../../../src/protocol/index.ts'

/** Over all tenants. Past it the class that was told longest ago is forgotten. */
export const KNOWN_CLASSES_MAX = 1024

export class KnownClasses {
  /** For policies. */
  readonly book = new ClassBook()
  /** The one told longest ago first. */
  readonly #classes = new Map<string, ClassData>()

  constructor(stored: readonly ClassData[] = []) {
    this.#set(stored)
  }

  get size(): number {
    return this.#classes.size
  }

  /** Ended programs of which they tell. */
  get ends(): number {
    return [...this.#classes.values()].reduce((sum, { sketch }) => sum + sketch.ends, 0)
  }

  /** The one told longest ago first. */
  all(): ClassData[] {
    return [...this.#classes.values()]
  }

  /** Returns those that say something else than what was known. */
  take(classes: readonly ClassData[]): ClassData[] {
    const changed = classes.filter((one) => !isSame(this.#classes.get(keyOf(one)), one))
    this.#set(changed)
    return changed
  }

  #set(classes: readonly ClassData[]): void {
    for (const one of classes) {
      const key = keyOf(one)
      this.#classes.delete(key)
      this.#classes.set(key, one)
      this.book.set(one.tenant, one.class, ClassSketch.from(one.sketch))
      if (this.#classes.size <= KNOWN_CLASSES_MAX) continue
      const [oldest] = this.#classes.keys()
      this.#classes.delete(oldest as string)
    }
  }
}

function keyOf({ tenant, class: name }: ClassData): string {
  return JSON.stringify([tenant, name])
}

/** A class whose programs have ended as often, and go on as far, says the same. */
function isSame(known: ClassData | undefined, { sketch }: ClassData): boolean {
  if (known?.sketch.ends !== sketch.ends) return false
  return JSON.stringify(known.sketch.going_on ?? []) === JSON.stringify(sketch.going_on ?? [])
}
