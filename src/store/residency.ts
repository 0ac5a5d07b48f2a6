/**
 * To which regions a program is held, for a relay that cannot ask the ProgramActor in time. The actor's own rows decide; it
 * writes this one when a run opens and takes it away when the program is held no longer.
 */
import { and, eq } from 'drizzle-orm'
import { z } from 'zod'
import { database } from './database.ts'
import { programRegions } from './schema.ts'

const Ids = z.array(z.string())

/** A run, and the regions that it may use. */
export interface HeldRun {
  tenant: string
  program: string
  run: string
  regions: readonly string[]
}

export async function putResidency(d1: D1Database, { tenant, program, run, regions: ids }: HeldRun): Promise<void> {
  const regions = JSON.stringify(ids)
  await database(d1)
    .insert(programRegions)
    .values({ tenant, program, run, regions })
    .onConflictDoUpdate({ target: [programRegions.tenant, programRegions.program], set: { run, regions } })
}

export async function dropResidency(
  d1: D1Database,
  { tenant, program }: Pick<HeldRun, 'tenant' | 'program'>,
): Promise<void> {
  await database(d1)
    .delete(programRegions)
    .where(and(eq(programRegions.tenant, tenant), eq(programRegions.program, program)))
}

/** Null: the program may be served anywhere. */
export async function residencyOf(d1: D1Database, tenant: string, program: string): Promise<string[] | null> {
  const row = await database(d1)
    .select({ regions: programRegions.regions })
    .from(programRegions)
    .where(and(eq(programRegions.tenant, tenant), eq(programRegions.program, program)))
    .get()
  return row === undefined ? null : Ids.parse(JSON.parse(row.regions))
}
