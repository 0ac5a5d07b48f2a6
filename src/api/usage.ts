/** GET /v1/usage: what a tenant's calls outside of programs have used. Programs have their own sums. */
import { createRoute } from '@hono/zod-openapi'
import { tenantActor } from '../actors/stubs.ts'
import { refusal, requireTenant, router, type TenantScope } from './boundary.ts'
import { listOf, PageQuery } from './program-schemas.ts'
import { failure, invalidCursor, json, listJson } from './route-parts.ts'
import { Usage, usageJson } from './usage-json.ts'

export const usageRoutes = router<TenantScope>()
usageRoutes.use('/v1/usage', requireTenant)

usageRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/v1/usage',
    security: [{ apiKey: [] }],
    request: { query: PageQuery },
    responses: {
      200: json(listOf(Usage), 'Calls that belong to no program, by day, key and model; the newest day first'),
      400: failure('Invalid'),
    },
  }),
  async (c) => {
    const { limit, cursor } = c.req.valid('query')
    const page = await tenantActor(c.env, c.var.identity.tenant).usage({ cursor: cursor ?? null, limit })
    if (page === null) return refusal(invalidCursor())
    return c.json(listJson(page.usage.map(usageJson), page.next), 200)
  },
)
