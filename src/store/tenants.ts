/** Tenants: who pays. Created and changed by the operator, never by a client, and never deleted. */
import { and, asc, eq, gt, lt, sql } from 'drizzle-orm'
import { z } from 'zod'
import { TENANT_SHARDS_MAX } from '../core/program/tenant-shards.ts'
import { CLASS_WEIGHTS_MAX } from '../protocol/index.ts'
import { type AuditedObject, type AuditedOutcome, type Auditor, audited } from './audit.ts'

import { database } from './database.ts'
import { tenants } from './schema.ts'
import { builder } from './statements.ts'

export type Tenant = typeof tenants.$inferSelect
export type TenantChange = Partial<Omit<Tenant, 'id' | 'created_at_ms' | 'class_weights'>>

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

/** Spreads new runs of the tenant's programs over twice as many shards. Null: over no more, it has as many as it may. */
export async function doubleShards(d1: D1Database, id: string): Promise<number | null> {
  const { shards } = tenants
  const [row] = await database(d1)
    .update(tenants)
    .set({ shards: sql`min(2 * ${shards}, ${TENANT_SHARDS_MAX})` })
    .where(and(eq(tenants.id, id), lt(shards, TENANT_SHARDS_MAX)))
    .returning({ shards })
  return row?.shards ?? null
}

const ClassWeights = z.record(z.string(), z.number())

/** Classes that weigh other than 1. */
export function classWeightsOf({ class_weights }: Pick<Tenant, 'class_weights'>): Record<string, number> {
  return ClassWeights.parse(JSON.parse(class_weights))
}

/** `refused`: there is no such tenant, or CLASS_WEIGHTS_MAX other classes of it weigh other than 1. */
export function weighClass(
  d1: D1Database,
  auditor: Auditor,
  { tenant, name, weight }: { tenant: string; name: string; weight: number },
): Promise<AuditedOutcome> {
  const others = sql`(SELECT count(*) FROM json_each(${tenants.class_weights}) WHERE key <> ${name})`
  const has_room = weight === 1 ? sql`1` : sql`${others} < ${CLASS_WEIGHTS_MAX}`
  const where = and(eq(tenants.id, tenant), has_room)
  // RFC 7396: null takes a name out.
  const kept = weight === 1 ? null : weight
  const class_weights = sql`json_patch(${tenants.class_weights}, json_object(${name}, ${kept}))`
  const change = builder.update(tenants).set({ class_weights }).where(where).toSQL()
  const object = { ...objectOf(tenant), name: `class:${tenant}/${name}`, guard: sql`${where}` }
  return audited(d1, auditor, 'changed', 'class.weight', object, change)
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
