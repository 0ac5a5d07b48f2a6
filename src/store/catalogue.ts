/** Regions and models: small tables that every call reads, so each isolate holds them whole for CACHE_TTL_MS. */
import { asc } from 'drizzle-orm'
import type { Env } from '../env.ts'
import { type Database, database, fromStore } from './database.ts'
import { type Background, IsolateCache } from './isolate-cache.ts'
import { models, regions } from './schema.ts'

export const REGIONS_MAX = 256
export const MODELS_MAX = 1_000

export type Region = typeof regions.$inferSelect
export type Model = typeof models.$inferSelect

export interface Catalogue {
  /** By position, then id. */
  regions: readonly Region[]
  models: ReadonlyMap<string, Model>
}

const KEY = 'catalogue'
const EMPTY: Catalogue = { regions: [], models: new Map() }

const cache = new IsolateCache<Catalogue>()

/** Throws StoreUnavailable if D1 must be asked and does not answer. */
export async function catalogue(env: Env, now_ms: number = Date.now(), background?: Background): Promise<Catalogue> {
  return (await cache.get(KEY, now_ms, () => fromStore(() => load(env.DB)), background)) ?? EMPTY
}

/** As `catalogue`, as D1 has it at this moment: an operator who has added a region goes on with it at once. */
export async function freshCatalogue(env: Env, now_ms: number = Date.now()): Promise<Catalogue> {
  return (await cache.refresh(KEY, now_ms, () => fromStore(() => load(env.DB)))) ?? EMPTY
}

/** Whether the next call asks D1 for it. A question of another kind may bring it along. */
export function catalogueIsDue(now_ms: number): boolean {
  return cache.isDue(KEY, now_ms)
}

export function bringCatalogue(rows: Promise<CatalogueRows>, now_ms: number): void {
  const value = fromStore(async () => catalogueOf(await rows))
  cache.bring(KEY, now_ms, value)
}

/** For one batch: their rows are CatalogueRows. */
export function catalogueQueries(db: Database) {
  return [
    db.select().from(regions).orderBy(asc(regions.position), asc(regions.id)).limit(REGIONS_MAX),
    db.select().from(models).orderBy(asc(models.id)).limit(MODELS_MAX),
  ] as const
}

type CatalogueRows = readonly [readonly Region[], readonly Model[]]

async function load(d1: D1Database): Promise<Catalogue> {
  const db = database(d1)
  return catalogueOf(await db.batch(catalogueQueries(db)))
}

function catalogueOf([regionRows, modelRows]: CatalogueRows): Catalogue {
  return { regions: regionRows, models: new Map(modelRows.map((model) => [model.id, model])) }
}
