/** GET /v1/trends: how the tenant's own programs went, by class and day. */
import { createRoute } from '@hono/zod-openapi'
import { requireTenant, router, type TenantScope } from './boundary.ts'
import { failure, json } from './route-parts.ts'
import { TrendsJson, TrendsQuery, trendsJson } from './trends-json.ts'

export const trendRoutes = router<TenantScope>()
trendRoutes.use('/v1/trends', requireTenant)

trendRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/v1/trends',
    security: [{ apiKey: [] }],
    request: { query: TrendsQuery },
    responses: { 200: json(TrendsJson, 'Ended programs by class and day'), 400: failure('Invalid') },
  }),
  async (c) => c.json(await trendsJson(c.env, c.var.identity.tenant, c.req.valid('query'), Date.now()), 200),
)
