/**
 * Models and regions as the operator keeps them. They are added and changed, never deleted: programs, pools and ended
 * leases name them. Every isolate sees a change within CACHE_TTL_MS (catalogue.ts).
 */
import { and, asc, count, eq, gt, or, sql } from 'drizzle-orm'
import { PRICE_CHANGES_MAX, PRICE_LEAD_MS } from '../core/budget/price-history.ts'
import { type AuditedObject, type AuditedOutcome, type Auditor, audited } from './audit.ts'
import { MODELS_MAX, type Model, REGIONS_MAX, type Region } from './catalogue.ts'
import { database } from './database.ts'
import { models, regions } from './schema.ts'
import { builder } from './statements.ts'

type ModelChange = Partial<Omit<Model, 'id' | 'created_at_ms' | 'price_changes'>>
const PRICES = ['prompt_price', 'cached_prompt_price', 'output_price'] as const

export type Insertion = AuditedOutcome | { status: 'full'; max: number }

/** `refused`: a model of this id exists. `full`: the catalogue, which every isolate holds whole, takes no more. */
export async function insertModel(d1: D1Database, auditor: Auditor, model: Model): Promise<Insertion> {
  const rows = await database(d1).select({ rows: count() }).from(models).get()
  if ((rows?.rows ?? 0) >= MODELS_MAX) return { status: 'full', max: MODELS_MAX }
  const change = builder.insert(models).values(model).onConflictDoNothing().toSQL()
  return audited(d1, auditor, 'created', 'model.create', modelObject(model.id), change)
}

export function updateModel(
  d1: D1Database,
  auditor: Auditor,
  id: string,
  change: ModelChange,
): Promise<AuditedOutcome> {
  const statement = builder.update(models).set(withPrices(change, auditor.at_ms)).where(eq(models.id, id)).toSQL()
  return audited(d1, auditor, 'changed', 'model.update', modelObject(id), statement)
}

/**
 * A model whose prices change keeps those that it had. SQL reads them, so two changes at once lose none. Before its first
 * price it had none to keep.
 */
function withPrices(change: ModelChange, at_ms: number) {
  const { prompt_price, cached_prompt_price, output_price, price_changes } = models
  if (PRICES.every((field) => change[field] === undefined)) return change
  const was_priced = sql`${prompt_price} IS NOT NULL AND ${output_price} IS NOT NULL`
  const until_ms = sql`CASE WHEN ${was_priced} THEN ${at_ms + PRICE_LEAD_MS} ELSE ${at_ms} END`
  const before = sql`json_object('until_ms', ${until_ms}, 'prompt_price', ${prompt_price},
    'cached_prompt_price', ${cached_prompt_price}, 'output_price', ${output_price})`
  const is_full = sql`json_array_length(${price_changes}) >= ${PRICE_CHANGES_MAX}`
  const kept = sql`CASE WHEN ${is_full} THEN json_remove(${price_changes}, '$[0]') ELSE ${price_changes} END`
  const is_first = sql`NOT (${was_priced}) AND ${price_changes} = '[]'`
  return {
    ...change,
    price_changes: sql`CASE WHEN ${is_first} THEN ${price_changes} ELSE json_insert(${kept}, '$[#]', ${before}) END`,
  }
}

export async function modelById(d1: D1Database, id: string): Promise<Model | null> {
  return (await database(d1).select().from(models).where(eq(models.id, id)).get()) ?? null
}

/** In order of their ids, after `after`. */
export async function modelsPage(d1: D1Database, after: string | null, limit: number): Promise<Model[]> {
  const beyond = after === null ? undefined : gt(models.id, after)
  return database(d1).select().from(models).where(beyond).orderBy(asc(models.id)).limit(limit)
}

/** `refused`: a region of this id exists. */
export async function insertRegion(d1: D1Database, auditor: Auditor, region: Region): Promise<Insertion> {
  const rows = await database(d1).select({ rows: count() }).from(regions).get()
  if ((rows?.rows ?? 0) >= REGIONS_MAX) return { status: 'full', max: REGIONS_MAX }
  const change = builder.insert(regions).values(region).onConflictDoNothing().toSQL()
  return audited(d1, auditor, 'created', 'region.create', regionObject(region.id), change)
}

export function updateRegion(
  d1: D1Database,
  auditor: Auditor,
  id: string,
  change: Partial<Omit<Region, 'id'>>,
): Promise<AuditedOutcome> {
  const statement = builder.update(regions).set(change).where(eq(regions.id, id)).toSQL()
  return audited(d1, auditor, 'changed', 'region.update', regionObject(id), statement)
}

export async function regionById(d1: D1Database, id: string): Promise<Region | null> {
  return (await database(d1).select().from(regions).where(eq(regions.id, id)).get()) ?? null
}

/** By position, then id, after `after`. */
export async function regionsPage(
  d1: D1Database,
  after: { position: number; id: string } | null,
  limit: number,
): Promise<Region[]> {
  const { position, id } = regions
  const beyond =
    after === null ? undefined : or(gt(position, after.position), and(eq(position, after.position), gt(id, after.id)))
  return database(d1).select().from(regions).where(beyond).orderBy(asc(position), asc(id)).limit(limit)
}

function modelObject(id: string): AuditedObject {
  return { name: `model:${id}`, table: models, where: sql`${models.id} = ${id}` }
}

function regionObject(id: string): AuditedObject {
  return { name: `region:${id}`, table: regions, where: sql`${regions.id} = ${id}` }
}
