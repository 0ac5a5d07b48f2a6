/** /admin/v1/pools and /admin/v1/leases: engines, their queues, and why calls went where they went. */
import { createRoute, z } from '@hono/zod-openapi'
import { poolActor } from '../../actors/stubs.ts'
import type { EngineSnapshot } from '../../core/pool/pool-types.ts'
import { RECENT_LEASES_MAX } from '../../core/pool/recent-leases.ts'
import type { Env } from '../../env.ts'
import { apiError } from '../../platform/api-error.ts'
import { logFailure } from '../../platform/log.ts'
import { Id } from '../../protocol/index.ts'
import { freshCatalogue, isLinked, type Region } from '../../store/catalogue.ts'
import { type AdminScope, refusal, router } from '../boundary.ts'
import { atOnce } from '../bounded-concurrency.ts'
import { listOf, PAGE_LIMIT_MAX } from '../program-schemas.ts'
import { failure, invalidCursor, json, pageOf, pageStart } from '../route-parts.ts'
import { absent, iso, SECURITY as security } from './answers.ts'

/** Pools that are asked at a time. */
export const POOLS_AT_ONCE_MAX = 16

export const poolRoutes = router<AdminScope>()

const Engine = z.object({
  engine: z.string(),
  epoch: z.string(),
  agent: z.string(),
  url: z.string(),
  kind: z.string(),
  state: z.enum(['ready', 'draining', 'down', 'silent']),
  seats: z.number(),
  waiting: z.number(),
  running: z.number(),
  queued_tokens: z.number(),
  kv_used_tokens: z.number(),
  kv_capacity_tokens: z.number(),
  context_tokens_max: z.number(),
  leases_since_report: z.number(),
  offline: z.number().optional().openapi({ description: 'Of waiting and running: calls of batches and applications' }),
  limit_wait_us: z.number().optional(),
  speed_factor: z.number(),
  prefill_tokens_per_s: z.number().nullable(),
  last_report_ms: z.number(),
})
const Pool = z
  .object({
    region: z.string(),
    model: z.string(),
    version: z.number(),
    taken_at_ms: z.number(),
    bytes_per_token: z.number().nullable(),
    engines: z.array(Engine),
    engines_ready: z.number(),
    seats: z.number().openapi({ description: 'Of the engines that are ready' }),
    running: z.number(),
    queue_depth: z.number().openapi({ description: 'Calls waiting, and leased since their engine’s last report' }),
    queued_tokens: z.number(),
    reachable: z.boolean(),
  })
  .openapi('Pool')

const PoolsQuery = z.object({
  region: Id.optional(),
  model: Id.optional(),
  linked: z.enum(['true', 'false']).optional().openapi({
    description: 'true: only pools to which an agent has ever opened a link. Left out: all',
  }),
  limit: z.coerce.number().int().min(1).max(PAGE_LIMIT_MAX).default(PAGE_LIMIT_MAX),
  cursor: z.string().min(1).max(1024).optional(),
})
const PoolPage = z.object({ pools: z.array(Pool), has_more: z.boolean(), next_cursor: z.string().nullable() })

poolRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/admin/v1/pools',
    security,
    request: { query: PoolsQuery },
    responses: { 200: json(PoolPage, 'Every region × model, by region and model'), 400: failure('Invalid') },
  }),
  async (c) => {
    const { limit, cursor, region, model, linked } = c.req.valid('query')
    const start = pageStart(cursor, z.tuple([Id, Id]))
    if (start.status === 'unreadable') return refusal(invalidCursor())
    const known = await freshCatalogue(c.env)
    const { regions, models } = known
    const all = regions
      .filter(({ id }) => region === undefined || id === region)
      .flatMap((place) => [...models.keys()].map((id) => ({ region: place, model: id })))
      .filter((pool) => model === undefined || pool.model === model)
      .filter((pool) => linked !== 'true' || isLinked(known, pool.region.id, pool.model))
    const { position } = start
    const last = position === null ? -1 : all.findIndex((p) => p.region.id === position[0] && p.model === position[1])
    const { data, has_more, next_cursor } = pageOf(
      all.slice(last + 1, last + 2 + limit),
      limit,
      (pool) => pool,
      (pool) => [pool.region.id, pool.model],
    )
    const pools = await atOnce(data, POOLS_AT_ONCE_MAX, (pool) => askPool(c.env, pool.region, pool.model))
    return c.json({ pools, has_more, next_cursor }, 200)
  },
)

/** A pool that does not answer is shown as such: the others are not held up by it. */
export async function askPool(env: Env, region: Region, model: string): Promise<z.infer<typeof Pool>> {
  try {
    const snapshot = await poolActor(env, region, model).describe(Date.now())
    return { ...snapshot, ...sumsOf(snapshot.engines), reachable: true }
  } catch (error) {
    logFailure('pool_unreachable', error, { region: region.id, model })
    const unknown = { version: 0, taken_at_ms: Date.now(), bytes_per_token: null, engines: [] }
    return { region: region.id, model, ...unknown, ...sumsOf([]), reachable: false }
  }
}

function sumsOf(engines: readonly EngineSnapshot[]) {
  const ready = engines.filter(({ state }) => state === 'ready')
  const sum = (of: readonly EngineSnapshot[], figure: (engine: EngineSnapshot) => number) =>
    of.reduce((total, engine) => total + figure(engine), 0)
  return {
    engines_ready: ready.length,
    seats: sum(ready, (engine) => engine.seats),
    running: sum(engines, (engine) => engine.running),
    queue_depth: sum(engines, (engine) => engine.waiting + engine.leases_since_report),
    queued_tokens: sum(engines, (engine) => engine.queued_tokens),
  }
}

const LeaseGranted = z
  .object({
    lease: z.string(),
    at: z.iso.datetime(),
    tenant: z.string(),
    program: z.string(),
    call: z.string(),
    agent: z.string(),
    engine: z.string(),
    reason: z.string().openapi({ description: 'Why this engine was chosen' }),
    pin: z.boolean(),
    load: z.number().openapi({ description: 'Queued calls per seat before this lease; negative: seats were free' }),
    prompt_tokens_estimate: z.number(),
  })
  .openapi('LeaseGranted')

const LeasesQuery = z.object({
  region: Id,
  model: Id,
  limit: z.coerce.number().int().min(1).max(RECENT_LEASES_MAX).default(50),
})

poolRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/admin/v1/leases',
    security,
    request: { query: LeasesQuery },
    responses: {
      200: json(listOf(LeaseGranted), `The latest first; a pool remembers ${RECENT_LEASES_MAX}`),
      404: failure('No such region or model'),
      503: failure('The pool does not answer'),
    },
  }),
  async (c) => {
    const { region: id, model, limit } = c.req.valid('query')
    const { regions, models } = await freshCatalogue(c.env)
    const region = regions.find((one) => one.id === id)
    if (region === undefined) return refusal(absent('region', id, 'region'))
    if (!models.has(model)) return refusal(absent('model', model, 'model'))
    try {
      const recent = await poolActor(c.env, region, model).recentLeases(limit)
      const data = recent.map(({ at_ms, ...lease }) => ({ ...lease, at: iso(at_ms) }))
      return c.json({ object: 'list' as const, data, has_more: false, next_cursor: null }, 200)
    } catch (error) {
      logFailure('pool_unreachable', error, { region: id, model })
      const message = `The pool of ${model} in ${id} does not answer.`
      return refusal(apiError(503, { message, code: 'pool_unreachable' }, { 'retry-after': '1' }))
    }
  },
)
