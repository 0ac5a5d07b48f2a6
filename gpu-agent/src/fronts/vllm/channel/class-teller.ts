/**
 * Tells a plug-in the tables by which it orders classes of programs (docs/vllm-plugin.md). A table has 30 to 60 kB, and most of
 * what an agent knows is of no use to one engine. So a class is told when a call of it comes, and again with a call after
 * more is known. The first call of a class may reach the engine before its table. What is known of all classes of a tenant together is told
 * under one name for each class of which nothing is known.
 */
import type { ClassBook } from '../../../../../src/core/classes/class-book.ts'
import type { IndexTable } from '../../../../../src/core/classes/index-table.ts'
import type { TicketClaims } from '../../../../../src/protocol/index.ts'
import type { Objective } from '../../../../../src/protocol/objective.ts'

/** As the plug-in bounds a message (order/class_tables.py). */
export const CLASSES_PER_MESSAGE_MAX = 4
/** Between two messages: reading one takes the engine's process some milliseconds. */
export const TELL_INTERVAL_MS = 100
/** In place of a class of which nothing is known. No class has this name: all others have a prefix, or are `tenant`. */
export const ANY_CLASS = '*'
/** Past it the class told longest ago counts as not told. */
const TOLD_MAX = 4096

export interface ToldClass {
  tenant: string
  class: string
  objective: Objective
  table: IndexTable
}

interface Surroundings {
  classes: Pick<ClassBook, 'sketchOf' | 'tableOf'>
  /** False: the plug-in is not connected, or takes no more at the moment. */
  tell(classes: readonly ToldClass[]): boolean
}

export class ClassTeller {
  readonly #around: Surroundings
  /** What the engine was told, the longest ago first. */
  readonly #told = new Map<string, IndexTable>()
  readonly #waiting = new Map<string, ToldClass>()
  #timer: NodeJS.Timeout | null = null

  constructor(around: Surroundings) {
    this.#around = around
  }

  /** A call of the class goes to the engine. */
  used({ tenant, class: program_class, objective }: Pick<TicketClaims, 'tenant' | 'class' | 'objective'>): void {
    const { classes } = this.#around
    const table = classes.tableOf(tenant, program_class, objective)
    if (table === null) return
    const name = classes.sketchOf(tenant, program_class) === null ? ANY_CLASS : program_class
    const key = JSON.stringify([tenant, name, objective])
    if (this.#told.get(key) === table) return
    this.#waiting.set(key, { tenant, class: name, objective, table })
    this.#timer ??= setTimeout(() => this.#tell(), 0)
  }

  /** The engine may be another, which knows nothing. */
  forget(): void {
    this.#told.clear()
    this.#waiting.clear()
  }

  stop(): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
  }

  /** What the engine does not take is told with another call. */
  #tell(): void {
    this.#timer = null
    const some = [...this.#waiting].slice(0, CLASSES_PER_MESSAGE_MAX)
    for (const [key] of some) this.#waiting.delete(key)
    if (some.length > 0 && this.#around.tell(some.map(([, told]) => told))) {
      for (const [key, { table }] of some) this.#keep(key, table)
    }
    if (this.#waiting.size > 0) this.#timer = setTimeout(() => this.#tell(), TELL_INTERVAL_MS)
  }

  #keep(key: string, table: IndexTable): void {
    this.#told.delete(key)
    this.#told.set(key, table)
    const [oldest] = this.#told.keys()
    if (this.#told.size > TOLD_MAX) this.#told.delete(oldest as string)
  }
}
