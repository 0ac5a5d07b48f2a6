/** Regions, models and where they are served: small tables that every call reads, so each isolate holds them whole for CACHE_TTL_MS. */
import { asc } from 'drizzle-orm'
import type { Env } from '../env.ts'
import { type Database, database, fromStore } from './database.ts'
import { type Background, IsolateCache } from './isolate-cache.ts'
import { linkedPools, models, regions } from './schema.ts'

export const REGIONS_MAX = 256
export const MODELS_MAX = 1_000
/** Of a region and a model each. Those beyond it count as never linked. */
export const LINKED_POOLS_MAX = 10_000

export type Region = typeof regions.$inferSelect
export type Model = typeof models.$inferSelect

export interface Catalogue {
  /** By position, then id. */
  regions: readonly Region[]
  models: ReadonlyMap<string, Model>
  /** By model: regions in which an agent has ever linked to its pool. Elsewhere no engine is to be expected. */
  linked: ReadonlyMap<string, ReadonlySet<string>>
}

const KEY = 'catalogue'
const EMPTY: Catalogue = { regions: [], models: new Map(), linked: new Map() }

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
    db.select().from(linkedPools).limit(LINKED_POOLS_MAX),
  ] as const
}

type CatalogueRows = readonly [readonly Region[], readonly Model[], readonly (typeof linkedPools.$inferSelect)[]]

async function load(d1: D1Database): Promise<Catalogue> {
  const db = database(d1)
  return catalogueOf(await db.batch(catalogueQueries(db)))
}

function catalogueOf([regionRows, modelRows, linkedRows]: CatalogueRows): Catalogue {
  const linked = new Map<string, Set<string>>()
  for (const { region, model } of linkedRows) {
    const known = linked.get(model)
    if (known === undefined) linked.set(model, new Set([region]))
    else known.add(region)
  }
  return { regions: regionRows, models: new Map(modelRows.map((model) => [model.id, model])), linked }
}

export interface Pool {
  region: Region
  model: string
}

/** Whether an agent has ever linked to the pool. */
export function isLinked({ linked }: Pick<Catalogue, 'linked'>, region: string, model: string): boolean {
  return linked.get(model)?.has(region) ?? false
}

/** Every region with every model: the pools that an agent has linked to, and the others. */
export function allPools(known: Catalogue): { linked: Pool[]; others: Pool[] } {
  const models = [...known.models.keys()]
  const all = known.regions.flatMap((region) => models.map((model) => ({ region, model })))
  const { linked = [], others = [] } = Object.groupBy(all, ({ region, model }) =>
    isLinked(known, region.id, model) ? 'linked' : 'others',
  )
  return { linked, others }
}
