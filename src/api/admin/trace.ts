/** /admin/v1/tenants/{id}/trace: a tenant's ended programs as lines of a trace, for the operator. */
import { createRoute } from '@hono/zod-openapi'
import { fromStore } from '../../store/database.ts'
import { tenantById } from '../../store/tenants.ts'
import { type AdminScope, refusal, router } from '../boundary.ts'
import { listOf } from '../program-schemas.ts'
import { failure, json } from '../route-parts.ts'
import { TracedProgram, TraceQuery, tracedPage } from '../traced-programs.ts'
import { absent, SECURITY as security } from './answers.ts'
import { IdParams } from './schemas.ts'

export const tenantTraceRoutes = router<AdminScope>()

tenantTraceRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/admin/v1/tenants/{id}/trace',
    security,
    request: { params: IdParams, query: TraceQuery },
    responses: {
      200: json(listOf(TracedProgram), 'The programs that ended last first; a capacity plan plays them'),
      400: failure('Invalid'),
      404: failure('No such tenant'),
    },
  }),
  async (c) => {
    const { id: tenant } = c.req.valid('param')
    if ((await fromStore(() => tenantById(c.env.DB, tenant))) === null) return refusal(absent('tenant', tenant))
    const page = await tracedPage(c.env, tenant, c.req.valid('query'))
    return page.status === 'refused' ? refusal(page.with) : c.json(page.list, 200)
  },
)
