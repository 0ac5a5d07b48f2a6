/**
 * Dead letters: what could not be applied and must not be lost. A run whose rows do not load is set aside here with its
 * rows, so that its program goes on without it. Records of such a run are kept here too and acknowledged, so that no agent
 * sends them for ever. The operator reads them. The table is bounded, and the oldest go first.
 */
import { and, desc, eq, lt, or, sql } from 'drizzle-orm'
import { database } from './database.ts'
import { deadLetters } from './schema.ts'

export const DEAD_LETTERS_MAX = 10_000
/** D1 takes rows of up to 2 MB. */
export const DEAD_LETTER_CHARS_MAX = 256 * 1024
/** D1 takes at most 100 parameters in a statement. */
const LETTERS_PER_STATEMENT = 10

export type DeadLetter = typeof deadLetters.$inferSelect

/** A repeat changes nothing. */
export async function keepDeadLetters(d1: D1Database, letters: readonly DeadLetter[]): Promise<void> {
  const db = database(d1)
  for (let from = 0; from < letters.length; from += LETTERS_PER_STATEMENT) {
    const some = letters.slice(from, from + LETTERS_PER_STATEMENT)
    const rows = some.map((letter) => ({ ...letter, content: letter.content.slice(0, DEAD_LETTER_CHARS_MAX) }))
    await db.insert(deadLetters).values(rows).onConflictDoNothing()
  }
  const oldest = sql`(SELECT id FROM ${deadLetters} ORDER BY at_ms DESC, id DESC LIMIT -1 OFFSET ${DEAD_LETTERS_MAX})`
  await db.delete(deadLetters).where(sql`${deadLetters.id} IN ${oldest}`)
}

/** Which of these runs were set aside. */
export async function deadRuns(
  d1: D1Database,
  tenant: string,
  program: string,
  runs: readonly string[],
): Promise<Set<string>> {
  const ids = runs.map((run) => deadRunId({ tenant, program, run }))
  const rows = await database(d1)
    .select({ run: deadLetters.run })
    .from(deadLetters)
    .where(sql`${deadLetters.id} IN (SELECT value FROM json_each(${JSON.stringify(ids)}))`)
  return new Set(rows.map(({ run }) => run))
}

/** Two tenants' runs never share an id. */
export function deadRunId({ tenant, program, run }: Pick<DeadLetter, 'tenant' | 'program' | 'run'>): string {
  return `run:${JSON.stringify([tenant, program, run])}`
}

/** The latest first, after `position`. */
export async function deadLettersPage(
  d1: D1Database,
  position: { at_ms: number; id: string } | null,
  limit: number,
): Promise<DeadLetter[]> {
  const { at_ms, id } = deadLetters
  const older =
    position === null ? undefined : or(lt(at_ms, position.at_ms), and(eq(at_ms, position.at_ms), lt(id, position.id)))
  return database(d1).select().from(deadLetters).where(older).orderBy(desc(at_ms), desc(id)).limit(limit)
}
