/** GET /v1/spend: what a tenant's calls were charged, those of programs and those of none. */
import { createRoute } from '@hono/zod-openapi'
import { tenantActor } from '../actors/stubs.ts'
import { refusal, requireTenant, router, type TenantScope } from './boundary.ts'
import { listOf } from './program-schemas.ts'
import { failure, invalidCursor, json, listJson } from './route-parts.ts'
import { Spend, SpendQuery, spendAsked, spendJson } from './spend-json.ts'

export const spendRoutes = router<TenantScope>()
spendRoutes.use('/v1/spend', requireTenant)

spendRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/v1/spend',
    security: [{ apiKey: [] }],
    request: { query: SpendQuery },
    responses: {
      200: json(listOf(Spend), 'The latest day or month first, then by name. Programs that run are seconds behind'),
      400: failure('Invalid'),
    },
  }),
  async (c) => {
    const asked = spendAsked(c.req.valid('query'), Date.now())
    if (asked instanceof Response) return refusal(asked)
    const page = await tenantActor(c.env, c.var.identity.tenant).spend(asked)
    if (page === null) return refusal(invalidCursor())
    return c.json(listJson(page.spend.map(spendJson), page.next), 200)
  },
)
