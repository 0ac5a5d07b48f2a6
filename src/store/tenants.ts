/** Tenants: who pays. Created and changed by the operator, never by a client, and never deleted. */
import { asc, eq, gt, sql } from 'drizzle-orm'
import { type AuditedObject, type AuditedOutcome, type Auditor, audited } from './audit.ts'

import { database } from './database.ts'
import { tenants } from './schema.ts'
import { builder } from './statements.ts'

export type Tenant = typeof tenants.$inferSelect
export type TenantChange = Partial<Omit<Tenant, 'id' | 'created_at_ms'>>

/** `refused`: a tenant of this id exists. */
export function insertTenant(d1: D1Database, auditor: Auditor, tenant: Tenant): Promise<AuditedOutcome> {
  const change = builder.insert(tenants).values(tenant).onConflictDoNothing().toSQL()
  return audited(d1, auditor, 'created', 'tenant.create', objectOf(tenant.id), change)
}

/** `refused`: there is no such tenant. `change` names at least one field. */
export function updateTenant(
  d1: D1Database,
  auditor: Auditor,
  id: string,
  change: TenantChange,
): Promise<AuditedOutcome> {
  const statement = builder.update(tenants).set(change).where(eq(tenants.id, id)).toSQL()
  return audited(d1, auditor, 'changed', 'tenant.update', objectOf(id), statement)
}

export async function tenantById(d1: D1Database, id: string): Promise<Tenant | null> {
  return (await database(d1).select().from(tenants).where(eq(tenants.id, id)).get()) ?? null
}

/** In order of their ids, after `after`. */
export async function tenantsPage(d1: D1Database, after: string | null, limit: number): Promise<Tenant[]> {
  return database(d1)
    .select()
    .from(tenants)
    .where(after === null ? undefined : gt(tenants.id, after))
    .orderBy(asc(tenants.id))
    .limit(limit)
}

function objectOf(id: string): AuditedObject {
  return { name: `tenant:${id}`, table: tenants, where: sql`${tenants.id} = ${id}` }
}
