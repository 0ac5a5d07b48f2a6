/**
 * What programs of all classes of a tenant had, together. A class of which no program has ended starts from it. Taken for longer than
 * the others, it would wait behind all that are known to be short, and in an overload none of its programs would end: it would never be known.
 */
import type { Objective } from '../../protocol/objective.ts'
import { ClassSketch } from './class-sketch.ts'
import { type IndexTable, indexTable } from './index-table.ts'

/** They are joined anew once one in so many has changed, so that a change costs about as many merges. */
const CLASSES_PER_CHANGE = 8

export class ClassPool {
  readonly #sketches = new Map<string, ClassSketch>()
  #changes = 0
  #joined: ClassSketch | null = null
  /** Of a class of which nothing is known. */
  #tables: Partial<Record<Objective, IndexTable>> = {}

  get isEmpty(): boolean {
    return this.#sketches.size === 0
  }

  /** What is known of the class from here on. A sketch that has grown is set again. */
  set(program_class: string, sketch: ClassSketch): void {
    this.#sketches.set(program_class, sketch)
    this.#changes += 1
  }

  delete(program_class: string): void {
    if (this.#sketches.delete(program_class)) this.#changes += 1
  }

  /** What a class with this sketch starts from. Null: programs of it have ended, or none of the tenant has. */
  beside({ ends }: Pick<ClassSketch, 'ends'>): ClassSketch | null {
    if (ends > 0) return null
    const joined = this.#join()
    return joined.ends > 0 ? joined : null
  }

  /** The table of a class of which nothing is known. Null: no program of the tenant has ended. */
  table(objective: Objective): IndexTable | null {
    const joined = this.#join()
    if (joined.ends === 0) return null
    this.#tables[objective] ??= indexTable(null, objective, joined)
    return this.#tables[objective]
  }

  #join(): ClassSketch {
    if (this.#joined !== null && this.#changes * CLASSES_PER_CHANGE < Math.max(1, this.#sketches.size))
      return this.#joined
    const joined = new ClassSketch()
    for (const sketch of this.#sketches.values()) joined.mergeEnds(sketch)
    this.#joined = joined
    this.#changes = 0
    this.#tables = {}
    return joined
  }
}
