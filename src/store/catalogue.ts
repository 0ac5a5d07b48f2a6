/** Regions and models: small tables that every call reads, so each isolate holds them whole for CACHE_TTL_MS. */
import { asc } from 'drizzle-orm'
import type { Env } from '../env.ts'
import { database, fromStore } from './database.ts'
import { IsolateCache } from './isolate-cache.ts'
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

const cache = new IsolateCache<Catalogue>()

/** Throws StoreUnavailable if D1 must be asked and does not answer. */
export async function catalogue(env: Env, now_ms: number = Date.now()): Promise<Catalogue> {
  const found = await cache.get('catalogue', now_ms, () => fromStore(() => load(env.DB)))
  return found ?? { regions: [], models: new Map() }
}

/** As `catalogue`, as D1 has it at this moment: an operator who has added a region goes on with it at once. */
export async function freshCatalogue(env: Env, now_ms: number = Date.now()): Promise<Catalogue> {
  const found = await cache.refresh('catalogue', now_ms, () => fromStore(() => load(env.DB)))
  return found ?? { regions: [], models: new Map() }
}

async function load(d1: D1Database): Promise<Catalogue> {
  const db = database(d1)
  const [regionRows, modelRows] = await db.batch([
    db.select().from(regions).orderBy(asc(regions.position), asc(regions.id)).limit(REGIONS_MAX),
    db.select().from(models).orderBy(asc(models.id)).limit(MODELS_MAX),
  ])
  return { regions: regionRows, models: new Map(modelRows.map((model) => [model.id, model])) }
}
