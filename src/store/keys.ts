/**
 * API key → tenant. The only lookup is by peppered hash; an unknown and a revoked key are one answer, so that nothing is
 * learned from it. A revoked key stops working within CACHE_TTL_MS in every isolate.
 */
import { and, eq, isNull } from 'drizzle-orm'
import type { Env } from '../env.ts'
import { database, fromStore } from './database.ts'
import { IsolateCache } from './isolate-cache.ts'
import { apiKeys, tenants } from './schema.ts'
import { API_KEY_PREFIX, bearer, hashSecret } from './secrets.ts'

export interface TenantIdentity {
  tenant: string
  /** Share of seats relative to other tenants. */
  weight: number
}

export type Authentication =
  | { status: 'tenant'; identity: TenantIdentity }
  /** `missing`: no usable Authorization header. `unknown`: no such key, or it was revoked. */
  | { status: 'refused'; reason: 'missing' | 'unknown' }

const cache = new IsolateCache<TenantIdentity>()

/** Who sends this request, by `Authorization: Bearer sk-sy-…`. Throws StoreUnavailable if D1 must be asked and does not answer. */
export async function authenticate(request: Request, env: Env, now_ms: number = Date.now()): Promise<Authentication> {
  const key = bearer(request.headers)
  if (key === null) return { status: 'refused', reason: 'missing' }
  if (!key.startsWith(API_KEY_PREFIX)) return { status: 'refused', reason: 'unknown' }
  const hash = await hashSecret(env.KEY_PEPPER, key)
  const identity = await cache.get(hash, now_ms, () => fromStore(() => tenantByKeyHash(env.DB, hash)))
  return identity === null ? { status: 'refused', reason: 'unknown' } : { status: 'tenant', identity }
}

async function tenantByKeyHash(d1: D1Database, hash: string): Promise<TenantIdentity | null> {
  const row = await database(d1)
    .select({ tenant: tenants.id, weight: tenants.weight })
    .from(apiKeys)
    .innerJoin(tenants, eq(tenants.id, apiKeys.tenant))
    .where(and(eq(apiKeys.hash, hash), isNull(apiKeys.revoked_at_ms)))
    .get()
  return row ?? null
}

export async function insertKey(
  d1: D1Database,
  key: { hash: string; tenant: string; name: string; created_at_ms: number },
): Promise<void> {
  await database(d1).insert(apiKeys).values(key)
}
