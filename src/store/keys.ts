/**
 * API key → tenant, and what the key may do. The only lookup is by peppered hash; an unknown and a revoked key are one
 * answer, so that nothing is learned from it. A revoked key, a disabled tenant and a changed limit take effect within
 * CACHE_TTL_MS in every isolate.
 */
import { and, asc, eq, gt, isNull, type SQL, sql } from 'drizzle-orm'
import { z } from 'zod'
import type { LedgerLimits } from '../core/budget/budget-ledger.ts'
import { periodLimits, readPeriods, type StatedPeriods, storedPeriods } from '../core/budget/period-limits.ts'
import { shardsInUse } from '../core/program/tenant-shards.ts'
import type { Env } from '../env.ts'
import type { Objective } from '../protocol/objective.ts'
import { type AuditedObject, type AuditedOutcome, type Auditor, audited } from './audit.ts'
import { bringCatalogue, catalogueIsDue, catalogueQueries } from './catalogue.ts'
import { database, fromStore } from './database.ts'
import { type Background, IsolateCache } from './isolate-cache.ts'
import { apiKeys, tenants } from './schema.ts'
import { UNCHECKED_HASH_CHARS, UNCHECKED_LISTED_MAX, UncheckedSecrets, verifySecret } from './secret-check.ts'
import { API_KEY_PREFIX, hashSecret, KEY_ID_HASH_CHARS, KEY_ID_PREFIX, keyIdOf, presentedKey } from './secrets.ts'
import { builder } from './statements.ts'
import { classWeightsOf } from './tenants.ts'

export interface TenantIdentity {
  tenant: string
  /** Id of the key. */
  key: string
  /** Share of seats relative to other tenants. */
  weight: number
  /** What classes of its programs weigh among one another, other than 1. */
  class_weights: Readonly<Record<string, number>>
  /** Models that the key may call; null: all. */
  models: readonly string[] | null
  /** Regions that may serve the key's calls; null: all. */
  regions: readonly string[] | null
  calls_per_minute_max: number | null
  live_programs_max: number | null
  /** Shards that new runs of its programs are spread over. */
  shards: number
  /** Whether calls that name no program join one by their conversation. */
  inference: boolean
  /** What a learned order makes small for its programs; null: as the model has it. */
  objective: Objective | null
  /** Whether fields of a body that have no effect are refused. */
  strict: boolean
  /** What the tenant and the key may spend in a day and a month. Null: neither has a limit. */
  limits: LedgerLimits | null
}

/**
 * `missing`: no usable key in a header. `several`: headers hold different keys. `unknown`: no such key, or it was revoked. `disabled`: the key is good and
 * its tenant is switched off.
 */
export type AuthenticationRefusal = 'missing' | 'several' | 'unknown' | 'disabled'

export type Authentication =
  | { status: 'tenant'; identity: TenantIdentity }
  | { status: 'refused'; reason: AuthenticationRefusal }

type Known = Omit<TenantIdentity, 'key'> & { disabled: boolean }

const cache = new IsolateCache<Known>()
const unchecked = new UncheckedSecrets()

const Ids = z.array(z.string())

/**
 * Who sends this request, by the API key in one of its headers. Throws StoreUnavailable if D1 must be asked and does not
 * answer.
 */
export async function authenticate(
  request: Request,
  env: Env,
  now_ms: number = Date.now(),
  background?: Background,
): Promise<Authentication> {
  const presented = presentedKey(request.headers)
  if (presented.status === 'none') return { status: 'refused', reason: 'missing' }
  if (presented.status === 'several') return { status: 'refused', reason: 'several' }
  const { key } = presented
  if (!key.startsWith(API_KEY_PREFIX)) return { status: 'refused', reason: 'unknown' }
  const hash = await hashSecret(env.KEY_PEPPER, key)
  const known = await cache.get(hash, now_ms, () => lookUp(env, key, hash, now_ms), background)
  if (known === null) return { status: 'refused', reason: 'unknown' }
  return identified(known, keyIdOf(hash))
}

function identified({ disabled, ...identity }: Known, key: string): Authentication {
  return disabled ? { status: 'refused', reason: 'disabled' } : { status: 'tenant', identity: { ...identity, key } }
}

const byId = new IsolateCache<Known>()

/** The same of a key that is known by its id, for work that goes on without its client. */
export async function identityOfKey(
  env: Env,
  tenant: string,
  id: string,
  now_ms: number,
  background?: Background,
): Promise<Authentication> {
  const load = async () => {
    const query = keyQuery(env.DB).where(and(keyWhere(tenant, id), isNull(apiKeys.revoked_at_ms)))
    return fromStore(async () => knownOf(await query.get()))
  }
  const known = await byId.get(JSON.stringify([tenant, id]), now_ms, load, background)
  if (known === null) return { status: 'refused', reason: 'unknown' }
  return identified(known, id)
}

/** D1 is asked only for keys that may exist. */
async function lookUp(env: Env, key: string, hash: string, now_ms: number): Promise<Known | null> {
  const check = await verifySecret(env.KEY_PEPPER, API_KEY_PREFIX, key)
  if (check === 'invalid') return null
  const list = () => fromStore(() => uncheckedHashes(env.DB))
  if (check === 'unchecked' && !(await unchecked.mayExist(hash, now_ms, list))) return null
  return fromStore(() => tenantByKeyHash(env.DB, hash, now_ms))
}

async function uncheckedHashes(d1: D1Database): Promise<string[]> {
  const rows = await database(d1)
    .select({ start: sql<string>`substr(${apiKeys.hash}, 1, ${UNCHECKED_HASH_CHARS})` })
    .from(apiKeys)
    .where(and(sql`checked = 0`, isNull(apiKeys.revoked_at_ms)))
    .orderBy(asc(apiKeys.hash))
    .limit(UNCHECKED_LISTED_MAX)
  return rows.map(({ start }) => start)
}

/** A call needs the catalogue too. Where it is due, one batch brings both. */
async function tenantByKeyHash(d1: D1Database, hash: string, now_ms: number): Promise<Known | null> {
  const db = database(d1)
  const query = keyQuery(d1).where(and(eq(apiKeys.hash, hash), isNull(apiKeys.revoked_at_ms)))
  if (!catalogueIsDue(now_ms)) return knownOf(await query.get())
  const batch = db.batch([query, ...catalogueQueries(db)])
  const catalogueRows = batch.then(([_, ...rows]) => rows)
  bringCatalogue(catalogueRows, now_ms)
  const [keys] = await batch
  return knownOf(keys[0])
}

function keyQuery(d1: D1Database) {
  return database(d1)
    .select({
      ...{ tenant: tenants, models: apiKeys.models, regions: apiKeys.regions, strict: apiKeys.strict },
      // D1 gives the rows of a batch by the names of columns, and the tenant has one of this name.
      budget: sql<string | null>`${apiKeys.budget}`.as('key_budget'),
    })
    .from(apiKeys)
    .innerJoin(tenants, eq(tenants.id, apiKeys.tenant))
}

interface KeyRow extends Pick<typeof apiKeys.$inferSelect, 'models' | 'regions' | 'strict' | 'budget'> {
  tenant: typeof tenants.$inferSelect
}

function knownOf(row: KeyRow | undefined): Known | null {
  if (row === undefined) return null
  const { id, weight, calls_per_minute_max, live_programs_max, inference, objective, disabled_at_ms } = row.tenant
  const shards = shardsInUse(row.tenant.shards, live_programs_max)
  return {
    ...{ tenant: id, weight, calls_per_minute_max, live_programs_max, shards, inference, objective },
    class_weights: classWeightsOf(row.tenant),
    models: idsOf(row.models),
    regions: idsOf(row.regions),
    strict: row.strict,
    limits: limitsOf(row.tenant.budget, row.budget),
    disabled: disabled_at_ms !== null,
  }
}

function limitsOf(of_tenant: string | null, of_key: string | null): LedgerLimits | null {
  if (of_tenant === null && of_key === null) return null
  const [tenant, key] = [readPeriods(of_tenant), readPeriods(of_key)]
  return { tenant: tenant === null ? null : periodLimits(tenant), key: key === null ? null : periodLimits(key) }
}

function idsOf(stored: string | null): string[] | null {
  return stored === null ? null : Ids.parse(JSON.parse(stored))
}

export interface KeyGrant {
  hash: string
  tenant: string
  name: string
  models: readonly string[] | null
  regions: readonly string[] | null
  strict: boolean
  /** Whether the key carries a check. */
  checked: boolean
  /** Null: no limit. */
  budget: StatedPeriods | null
}

/** The tenant must be there: tenants are never deleted. */
export function insertKey(d1: D1Database, auditor: Auditor, { hash, models, regions, budget, ...rest }: KeyGrant) {
  const key = {
    ...{ hash, ...rest, created_at_ms: auditor.at_ms },
    ...{ models: storedIds(models), regions: storedIds(regions), budget: storedPeriods(budget) },
  }
  const change = builder.insert(apiKeys).values(key).onConflictDoNothing().toSQL()
  return audited(d1, auditor, 'created', 'key.create', keyObject(rest.tenant, keyIdOf(hash)), change)
}

/** `refused`: the tenant has no such key, or it was revoked before. */
export function revokeKey(d1: D1Database, auditor: Auditor, tenant: string, id: string): Promise<AuditedOutcome> {
  return changeKey(d1, auditor, 'key.revoke', { tenant, id }, { revoked_at_ms: auditor.at_ms })
}

/** What is left out stays. */
export interface KeyChange {
  name?: string | undefined
  models?: readonly string[] | null | undefined
  regions?: readonly string[] | null | undefined
  strict?: boolean | undefined
  budget?: StatedPeriods | null | undefined
}

/** `refused`: the tenant has no such key, or it was revoked. */
export function updateKey(
  d1: D1Database,
  auditor: Auditor,
  key: { tenant: string; id: string },
  { models, regions, name, strict, budget }: KeyChange,
): Promise<AuditedOutcome> {
  const set = {
    ...(name === undefined ? {} : { name }),
    ...(strict === undefined ? {} : { strict }),
    ...(models === undefined ? {} : { models: storedIds(models) }),
    ...(regions === undefined ? {} : { regions: storedIds(regions) }),
    ...(budget === undefined ? {} : { budget: storedPeriods(budget) }),
  }
  return changeKey(d1, auditor, 'key.update', key, set)
}

function changeKey(
  d1: D1Database,
  auditor: Auditor,
  action: string,
  { tenant, id }: { tenant: string; id: string },
  set: Partial<typeof apiKeys.$inferInsert>,
): Promise<AuditedOutcome> {
  const object = keyObject(tenant, id)
  const valid = and(object.where, isNull(apiKeys.revoked_at_ms))
  const change = builder.update(apiKeys).set(set).where(valid).toSQL()
  return audited(d1, auditor, 'changed', action, { ...object, guard: sql`${valid}` }, change)
}

function storedIds(ids: readonly string[] | null): string | null {
  return ids === null ? null : JSON.stringify(ids)
}

function keyObject(tenant: string, id: string): AuditedObject {
  const extra = { id: keyIdSql() }
  return { name: `key:${id}`, table: apiKeys, where: sql`(${keyWhere(tenant, id)})`, extra }
}

/** A range of hashes, so that the primary key finds it; an id that is not one of ours finds nothing. */
function keyWhere(tenant: string, id: string): SQL | undefined {
  const prefix = id.startsWith(KEY_ID_PREFIX) ? id.slice(KEY_ID_PREFIX.length) : ''
  const isOurs = /^[0-9a-f]+$/.test(prefix) && prefix.length === KEY_ID_HASH_CHARS
  const from = isOurs ? prefix : 'none'
  return and(eq(apiKeys.tenant, tenant), sql`${apiKeys.hash} >= ${from}`, sql`${apiKeys.hash} < ${`${from}g`}`)
}

function keyIdSql(): SQL<string> {
  return sql<string>`${KEY_ID_PREFIX} || substr(${apiKeys.hash}, 1, ${KEY_ID_HASH_CHARS})`
}

export interface KeyListed {
  id: string
  tenant: string
  name: string
  created_at_ms: number
  revoked_at_ms: number | null
  models: string[] | null
  regions: string[] | null
  strict: boolean
  budget: StatedPeriods | null
}

/** In order of their ids, after `after`. */
export async function keysOfTenant(
  d1: D1Database,
  tenant: string,
  after: string | null,
  limit: number,
): Promise<KeyListed[]> {
  const beyond = after === null ? undefined : gt(apiKeys.hash, `${after.slice(KEY_ID_PREFIX.length)}g`)
  return selectKeys(d1, and(eq(apiKeys.tenant, tenant), beyond), limit)
}

export async function keyById(d1: D1Database, tenant: string, id: string): Promise<KeyListed | null> {
  return (await selectKeys(d1, keyWhere(tenant, id), 1))[0] ?? null
}

async function selectKeys(d1: D1Database, where: SQL | undefined, limit: number): Promise<KeyListed[]> {
  const { hash, ...columns } = { ...apiKeysColumns() }
  const rows = await database(d1)
    .select({ ...columns, id: keyIdSql() })
    .from(apiKeys)
    .where(where)
    .orderBy(asc(hash))
    .limit(limit)
  return rows.map((row) => ({
    ...{ ...row, models: idsOf(row.models), regions: idsOf(row.regions) },
    budget: readPeriods(row.budget),
  }))
}

function apiKeysColumns() {
  const { hash, tenant, name, created_at_ms, revoked_at_ms, models, regions, strict, budget } = apiKeys
  return { hash, tenant, name, created_at_ms, revoked_at_ms, models, regions, strict, budget }
}
