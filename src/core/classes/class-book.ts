/**
 * What an engine knows of classes: a sketch of each, and the table made of it. Bounded. Tables are made when they are asked
 * for, and made again when another sketch is set.
 */
import type { Objective } from '../../protocol/objective.ts'
import { ClassPool } from './class-pool.ts'
import type { ClassSketch } from './class-sketch.ts'
import { type IndexTable, indexTable } from './index-table.ts'

/** Classes kept. The one that was asked for longest ago goes first. */
export const CLASSES_MAX = 4096

interface KnownClass {
  tenant: string
  name: string
  sketch: ClassSketch
  tables: Partial<Record<Objective, IndexTable>>
}

export class ClassBook {
  /** By tenant and class, the one asked for longest ago first. */
  readonly #classes = new Map<string, KnownClass>()
  readonly #tenants = new Map<string, ClassPool>()

  /** What is known of the class from here on. */
  set(tenant: string, program_class: string, sketch: ClassSketch): void {
    const key = keyOf(tenant, program_class)
    this.#classes.delete(key)
    this.#classes.set(key, { tenant, name: program_class, sketch, tables: {} })
    this.#poolOf(tenant).set(program_class, sketch)
    if (this.#classes.size > CLASSES_MAX) this.#forgetOldest()
  }

  sketchOf(tenant: string, program_class: string): ClassSketch | null {
    return this.#classes.get(keyOf(tenant, program_class))?.sketch ?? null
  }

  /** Of a class of which nothing is known, that of its tenant's classes together. Null: nothing is known of them either. */
  tableOf(tenant: string, program_class: string, objective: Objective): IndexTable | null {
    const key = keyOf(tenant, program_class)
    const known = this.#classes.get(key)
    if (known === undefined) return this.#tenants.get(tenant)?.table(objective) ?? null
    this.#classes.delete(key)
    this.#classes.set(key, known)
    const { sketch, tables } = known
    tables[objective] ??= indexTable(sketch, objective, this.#poolOf(tenant).beside(sketch))
    return tables[objective]
  }

  #poolOf(tenant: string): ClassPool {
    const pool = this.#tenants.get(tenant) ?? new ClassPool()
    this.#tenants.set(tenant, pool)
    return pool
  }

  #forgetOldest(): void {
    const [oldest] = this.#classes
    if (oldest === undefined) return
    const [key, { tenant, name }] = oldest
    this.#classes.delete(key)
    const pool = this.#poolOf(tenant)
    pool.delete(name)
    if (pool.isEmpty) this.#tenants.delete(tenant)
  }
}

function keyOf(tenant: string, program_class: string): string {
  return JSON.stringify([tenant, program_class])
}
