/** /admin/v1: the operator's own routes, behind ADMIN_KEY. A key is shown once, when it is made; only its hash is kept. */
import { createRoute, z } from '@hono/zod-openapi'
import { logFailure } from '../actors/log.ts'
import { poolActor } from '../actors/stubs.ts'
import { Id } from '../protocol/index.ts'
import { catalogue } from '../store/catalogue.ts'
import { fromStore } from '../store/database.ts'
import { insertKey } from '../store/keys.ts'
import { API_KEY_PREFIX, hashSecret, newSecret } from '../store/secrets.ts'
import { insertTenant, tenantById } from '../store/tenants.ts'
import { atOnce } from './at-once.ts'
import { type AdminScope, limitBody, refusal, requireAdmin, router } from './boundary.ts'
import { apiError, ErrorResponse } from './errors.ts'

export const ADMIN_BODY_BYTES_MAX = 16 * 1024
export const WEIGHT_MAX = 1000
/** Pools that are asked at a time. */
export const POOLS_AT_ONCE_MAX = 16

const Name = z.string().min(1).max(128)
const Weight = z.number().positive().max(WEIGHT_MAX)

const TenantCreate = z
  .strictObject({ id: Id.optional(), name: Name, weight: Weight.default(1) })
  .openapi('TenantCreate')
const Tenant = z
  .object({ id: z.string(), name: z.string(), weight: z.number(), created_at: z.iso.datetime() })
  .openapi('Tenant')
const KeyCreate = z.strictObject({ name: Name.default('default') }).openapi('KeyCreate')
const Key = z
  .object({
    key: z.string().openapi({ description: 'Shown this once' }),
    tenant: z.string(),
    name: z.string(),
    created_at: z.iso.datetime(),
  })
  .openapi('Key')

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
    reachable: z.boolean(),
  })
  .openapi('Pool')

const json = <T extends z.ZodType>(schema: T, description: string) => ({
  description,
  content: { 'application/json': { schema } },
})
const security = [{ adminKey: [] }]

export const adminRoutes = router<AdminScope>()
adminRoutes.use('/admin/v1/*', requireAdmin, limitBody(ADMIN_BODY_BYTES_MAX))

adminRoutes.openapi(
  createRoute({
    method: 'post',
    path: '/admin/v1/tenants',
    security,
    request: { body: { content: { 'application/json': { schema: TenantCreate } }, required: true } },
    responses: { 201: json(Tenant, 'Created'), 409: json(ErrorResponse, 'A tenant of this id exists') },
  }),
  async (c) => {
    const { name, weight, id = `tenant-${crypto.randomUUID()}` } = c.req.valid('json')
    const created_at_ms = Date.now()
    const isNew = await fromStore(() => insertTenant(c.env.DB, { id, name, weight, created_at_ms }))
    if (!isNew) {
      return refusal(apiError(409, { message: `There is a tenant "${id}".`, param: 'id', code: 'tenant_exists' }))
    }
    return c.json({ id, name, weight, created_at: new Date(created_at_ms).toISOString() }, 201)
  },
)

adminRoutes.openapi(
  createRoute({
    method: 'post',
    path: '/admin/v1/tenants/{id}/keys',
    security,
    request: {
      params: z.object({ id: Id.openapi({ param: { name: 'id', in: 'path' } }) }),
      body: { content: { 'application/json': { schema: KeyCreate } }, required: true },
    },
    responses: { 201: json(Key, 'Created'), 404: json(ErrorResponse, 'No such tenant') },
  }),
  async (c) => {
    const { id: tenant } = c.req.valid('param')
    const { name } = c.req.valid('json')
    if ((await fromStore(() => tenantById(c.env.DB, tenant))) === null) {
      const message = `There is no tenant "${tenant}".`
      return refusal(apiError(404, { message, param: 'id', code: 'tenant_not_found' }))
    }
    const key = newSecret(API_KEY_PREFIX)
    const created_at_ms = Date.now()
    const hash = await hashSecret(c.env.KEY_PEPPER, key)
    await fromStore(() => insertKey(c.env.DB, { hash, tenant, name, created_at_ms }))
    return c.json({ key, tenant, name, created_at: new Date(created_at_ms).toISOString() }, 201)
  },
)

adminRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/admin/v1/pools',
    security,
    responses: { 200: json(z.object({ pools: z.array(Pool) }), 'Every region × model') },
  }),
  async (c) => {
    const { regions, models } = await catalogue(c.env)
    const wanted = regions.flatMap((region) => [...models.keys()].map((model) => ({ region, model })))
    const pools = await atOnce(wanted, POOLS_AT_ONCE_MAX, async ({ region, model }): Promise<z.infer<typeof Pool>> => {
      try {
        return { ...(await poolActor(c.env, region, model).describe(Date.now())), reachable: true }
      } catch (error) {
        logFailure('pool_unreachable', error, { region: region.id, model })
        const unknown = { version: 0, taken_at_ms: Date.now(), bytes_per_token: null, engines: [] }
        return { region: region.id, model, ...unknown, reachable: false }
      }
    })
    return c.json({ pools }, 200)
  },
)
