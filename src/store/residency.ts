/**
 * To which regions a program is held and whether it has a budget, for a relay that cannot ask the ProgramActor in time. The
 * actor's own rows decide; it writes this one when a run opens and takes it away when the program is held no longer.
 */
import { and, eq } from 'drizzle-orm'
import { z } from 'zod'
import { database } from './database.ts'
import { programRegions } from './schema.ts'

const Ids = z.array(z.string()).nullable()

/** What a call of a program must keep to whatever is known of it otherwise. */
export interface HeldTo {
  /** Null: any. */
  regions: readonly string[] | null
  has_budget: boolean
}

/** A run, and what it is held to. */
export interface HeldRun extends HeldTo {
  tenant: string
  program: string
  run: string
}

export const HELD_TO_NOTHING: HeldTo = { regions: null, has_budget: false }

export async function putResidency(d1: D1Database, { tenant, program, run, ...held }: HeldRun): Promise<void> {
  const regions = JSON.stringify(held.regions)
  const { has_budget } = held
  await database(d1)
    .insert(programRegions)
    .values({ tenant, program, run, regions, has_budget })
    .onConflictDoUpdate({ target: [programRegions.tenant, programRegions.program], set: { run, regions, has_budget } })
}

export async function dropResidency(
  d1: D1Database,
  { tenant, program }: Pick<HeldRun, 'tenant' | 'program'>,
): Promise<void> {
  await database(d1)
    .delete(programRegions)
    .where(and(eq(programRegions.tenant, tenant), eq(programRegions.program, program)))
}

export async function residencyOf(d1: D1Database, tenant: string, program: string): Promise<HeldTo> {
  const row = await database(d1)
    .select({ regions: programRegions.regions, has_budget: programRegions.has_budget })
    .from(programRegions)
    .where(and(eq(programRegions.tenant, tenant), eq(programRegions.program, program)))
    .get()
  if (row === undefined) return HELD_TO_NOTHING
  return { regions: Ids.parse(JSON.parse(row.regions)), has_budget: row.has_budget }
}
