/**
 * The running programs of a tenant that called last, in memory. They are read from the index when they are first asked for, and
 * again when so many of them have ended that others of the index belong here. So the index needs no order by arrival, which
 * would be a row more each time that a program calls.
 */
import { desc } from 'drizzle-orm'
import type { ProgramListed } from './contracts.ts'
import type { ActorDb } from './storage/actor-database.ts'
import { programs } from './storage/tenant-schema.ts'

export const RECENT_PROGRAMS_MAX = 1_000

type Recent = Pick<ProgramListed, 'run' | 'class' | 'open_calls' | 'output_tokens' | 'service_us'>

export class RecentPrograms {
  /** By program, the one that called last at the end. Null: not read yet. */
  #programs: Map<string, Recent> | null = null
  /** Whether the index may have more than are here. */
  #has_more = false

  told({ program, run, class: of_class, open_calls, output_tokens, service_us }: ProgramListed): void {
    if (this.#programs === null) return
    this.#programs.delete(program)
    this.#programs.set(program, { run, class: of_class, open_calls, output_tokens, service_us })
    if (this.#programs.size <= RECENT_PROGRAMS_MAX) return
    for (const oldest of this.#programs.keys()) {
      this.#programs.delete(oldest)
      break
    }
    this.#has_more = true
  }

  ended(program: string, run: string): void {
    if (this.#programs?.get(program)?.run === run) this.#programs.delete(program)
  }

  /** Whether `all` looks into the index. */
  get isToBeRead(): boolean {
    return this.#programs === null || (this.#has_more && this.#programs.size < RECENT_PROGRAMS_MAX / 2)
  }

  /** `db` null: nothing is stored. */
  all(db: ActorDb | null): Iterable<Recent> {
    if (db === null) return []
    if (this.#programs === null || this.isToBeRead) this.#programs = this.#read(db)
    return this.#programs.values()
  }

  #read(db: ActorDb): Map<string, Recent> {
    const { program, run, class: of_class, open_calls, output_tokens, service_us, last_arrival_ms } = programs
    const rows = db
      .select({ program, run, class: of_class, open_calls, output_tokens, service_us })
      .from(programs)
      .orderBy(desc(last_arrival_ms))
      .limit(RECENT_PROGRAMS_MAX)
      .all()
    this.#has_more = rows.length === RECENT_PROGRAMS_MAX
    return new Map(rows.reverse().map(({ program, ...recent }) => [program, recent]))
  }
}
