/**
 * What this agent knows about classes of programs. The pools tell it over their links. It is kept on disk, so an agent that
 * starts again, or has no control plane, orders by what it knew last. Engines of this process share the book. An engine in
 * another process is told.
 */
import { ClassBook } from '../../../src/core/classes/class-book.ts'
import { ClassSketch } from '../../../src/core/classes/class-sketch.ts'
import type { KnownTools } from '../../../src/core/tools/forecast.ts'
import { ToolBook } from '../../../src/core/tools/tool-book.ts'
import type { ClassData } from '../../../src/protocol/index.ts'

/** Over all tenants. Past it the class that was told longest ago is forgotten. */
export const KNOWN_CLASSES_MAX = 1024
/** Classes of a tenant that say what its tools take where a class does not know: those that were told last. */
export const TENANT_CLASSES_JOINED_MAX = 16

export class KnownClasses {
  /** For policies. */
  readonly book = new ClassBook()
  /** The one told longest ago first. */
  readonly #classes = new Map<string, ClassData>()
  /** Of classes of a tenant together, made when it is asked for. */
  readonly #tenants = new Map<string, ToolBook | null>()

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

  /** What is known of tools that programs of the class call. Of the tenant alone. */
  tools(tenant: string, program_class: string): KnownTools {
    const of_class = this.book.sketchOf(tenant, program_class)?.tools ?? null
    return { of_class: of_class?.isEmpty === false ? of_class : null, of_tenant: () => this.#toolsOf(tenant) }
  }

  #toolsOf(tenant: string): ToolBook | null {
    const known = this.#tenants.get(tenant)
    if (known !== undefined) return known
    const books = [...this.#classes.values()]
      .filter((one) => one.tenant === tenant)
      .slice(-TENANT_CLASSES_JOINED_MAX)
      .map((one) => this.book.sketchOf(tenant, one.class)?.tools)
    const joined = new ToolBook()
    for (const book of books.reverse()) if (book !== undefined) joined.merge(book)
    const tools = joined.isEmpty ? null : joined
    // Of tenants without classes there may be any number.
    if (this.#tenants.size >= KNOWN_CLASSES_MAX) this.#tenants.clear()
    this.#tenants.set(tenant, tools)
    return tools
  }

  #set(classes: readonly ClassData[]): void {
    for (const one of classes) {
      const key = keyOf(one)
      this.#tenants.delete(one.tenant)
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
