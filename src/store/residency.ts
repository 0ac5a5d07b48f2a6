/**
 * To which regions a running program is held, for a relay that cannot ask the ProgramActor in time. The actor's own row
 * decides; this one is written when the run opens and dropped when the run is archived.
 */
import { and, eq } from 'drizzle-orm'
import { z } from 'zod'
import { database } from './database.ts'
import { programRegions } from './schema.ts'

const Ids = z.array(z.string())

interface RunOf {
  tenant: string
  program: string
  run: string
}

export async function putResidency(d1: D1Database, { tenant, program, run }: RunOf, ids: readonly string[]) {
  const regions = JSON.stringify(ids)
  await database(d1)
    .insert(programRegions)
    .values({ tenant, program, run, regions })
    .onConflictDoUpdate({ target: [programRegions.tenant, programRegions.program], set: { run, regions } })
}

/** A later run under the same id keeps its own. */
export async function dropResidency(d1: D1Database, { tenant, program, run }: RunOf): Promise<void> {
  await database(d1)
    .delete(programRegions)
    .where(and(eq(programRegions.tenant, tenant), eq(programRegions.program, program), eq(programRegions.run, run)))
}

/** Null: the program may be served anywhere, or does not run. */
export async function residencyOf(d1: D1Database, tenant: string, program: string): Promise<string[] | null> {
  const row = await database(d1)
    .select({ regions: programRegions.regions })
    .from(programRegions)
    .where(and(eq(programRegions.tenant, tenant), eq(programRegions.program, program)))
    .get()
  return row === undefined ? null : Ids.parse(JSON.parse(row.regions))
}
