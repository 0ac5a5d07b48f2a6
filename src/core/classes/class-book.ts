/**
 * What an engine knows of classes: a sketch of each, and the table made of it. Bounded. Tables are made when they are asked
 * for, and made again when another sketch is set.
 */
import type { Objective } from '../../protocol/objective.ts'
import type { ClassSketch } from './class-sketch.ts'
import { type IndexTable, indexTable } from './index-table.ts'

/** Classes kept. The one that was asked for longest ago goes first. */
export const CLASSES_MAX = 4096

interface KnownClass {
  sketch: ClassSketch
  /** Of the sketch as it was last published. */
  tables: Partial<Record<Objective, IndexTable>>
}

export class ClassBook {
  /** By tenant and class, the one asked for longest ago first. */
  readonly #classes = new Map<string, KnownClass>()

  /** What is known of the class from here on. */
  set(tenant: string, program_class: string, sketch: ClassSketch): void {
    const key = keyOf(tenant, program_class)
    this.#classes.delete(key)
    this.#classes.set(key, { sketch, tables: {} })
    if (this.#classes.size <= CLASSES_MAX) return
    const [oldest] = this.#classes.keys()
    this.#classes.delete(oldest as string)
  }

  sketchOf(tenant: string, program_class: string): ClassSketch | null {
    return this.#classes.get(keyOf(tenant, program_class))?.sketch ?? null
  }

  /** Null: nothing is known of the class. */
  tableOf(tenant: string, program_class: string, objective: Objective): IndexTable | null {
    const key = keyOf(tenant, program_class)
    const known = this.#classes.get(key)
    if (known === undefined) return null
    this.#classes.delete(key)
    this.#classes.set(key, known)
    known.tables[objective] ??= indexTable(known.sketch, objective)
    return known.tables[objective]
  }

  /** Tables made from here on are of the sketches as they are. */
  publish(): void {
    for (const known of this.#classes.values()) known.tables = {}
  }
}

function keyOf(tenant: string, program_class: string): string {
  return JSON.stringify([tenant, program_class])
}
