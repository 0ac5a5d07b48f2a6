/** /admin/v1/tenants/{id}/usage: what a tenant's calls outside of programs have used, for the operator. */
import { createRoute } from '@hono/zod-openapi'
import { tenantActor } from '../../actors/stubs.ts'
import { fromStore } from '../../store/database.ts'
import { tenantById } from '../../store/tenants.ts'
import { type AdminScope, refusal, router } from '../boundary.ts'
import { listOf, PageQuery } from '../program-schemas.ts'
import { failure, invalidCursor, json, listJson } from '../route-parts.ts'
import { Usage, usageJson } from '../usage-json.ts'
import { absent, SECURITY as security } from './answers.ts'
import { IdParams } from './schemas.ts'

export const tenantUsageRoutes = router<AdminScope>()

tenantUsageRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/admin/v1/tenants/{id}/usage',
    security,
    request: { params: IdParams, query: PageQuery },
    responses: {
      200: json(listOf(Usage), 'Calls that belong to no program, by day, key and model; the newest day first'),
      400: failure('Invalid'),
      404: failure('No such tenant'),
    },
  }),
  async (c) => {
    const { id: tenant } = c.req.valid('param')
    const { limit, cursor } = c.req.valid('query')
    if ((await fromStore(() => tenantById(c.env.DB, tenant))) === null) return refusal(absent('tenant', tenant))
    const page = await tenantActor(c.env, tenant).usage({ cursor: cursor ?? null, limit })
    if (page === null) return refusal(invalidCursor())
    return c.json(listJson(page.usage.map(usageJson), page.next), 200)
  },
)
