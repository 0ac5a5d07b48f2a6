/** Tenants: who pays. Created by the operator, never by a client. */
import { eq } from 'drizzle-orm'
import { database } from './database.ts'
import { tenants } from './schema.ts'

export type Tenant = typeof tenants.$inferSelect

/** False if a tenant of this id exists. */
export async function insertTenant(d1: D1Database, tenant: Tenant): Promise<boolean> {
  const inserted = await database(d1).insert(tenants).values(tenant).onConflictDoNothing().returning({ id: tenants.id })
  return inserted.length === 1
}

export async function tenantById(d1: D1Database, id: string): Promise<Tenant | null> {
  return (await database(d1).select().from(tenants).where(eq(tenants.id, id)).get()) ?? null
}
