/** What is known about classes of programs, one row each. The class's actor writes it, at most once a minute. */
import { and, asc, eq, gt } from 'drizzle-orm'
import { ClassSketchData } from '../protocol/index.ts'
import { database } from './database.ts'
import { classes } from './schema.ts'

export interface KnownClass {
  tenant: string
  class: string
  /** Programs that have ended since the class is known. */
  ends: number
  updated_at_ms: number
  sketch: ClassSketchData
}

type Row = typeof classes.$inferSelect

export async function putClass(d1: D1Database, { sketch, ...row }: KnownClass): Promise<void> {
  const set = { ends: row.ends, updated_at_ms: row.updated_at_ms, sketch: JSON.stringify(sketch) }
  await database(d1)
    .insert(classes)
    .values({ ...row, ...set })
    .onConflictDoUpdate({ target: [classes.tenant, classes.class], set })
}

export async function dropClass(d1: D1Database, tenant: string, name: string): Promise<void> {
  await database(d1).delete(classes).where(named(tenant, name))
}

/** Null: nothing is known of the class. */
export async function knownClass(d1: D1Database, tenant: string, name: string): Promise<KnownClass | null> {
  const row = await database(d1).select().from(classes).where(named(tenant, name)).get()
  return row === undefined ? null : readRow(row)
}

/** Of one tenant, in order of their names, after `after`. */
export async function classesPage(
  d1: D1Database,
  tenant: string,
  after: string | null,
  limit: number,
): Promise<KnownClass[]> {
  const of_tenant = eq(classes.tenant, tenant)
  const rows = await database(d1)
    .select()
    .from(classes)
    .where(after === null ? of_tenant : and(of_tenant, gt(classes.class, after)))
    .orderBy(asc(classes.class))
    .limit(limit)
  return rows.map(readRow)
}

function named(tenant: string, name: string) {
  return and(eq(classes.tenant, tenant), eq(classes.class, name))
}

function readRow({ sketch, ...row }: Row): KnownClass {
  return { ...row, sketch: ClassSketchData.parse(JSON.parse(sketch)) }
}
