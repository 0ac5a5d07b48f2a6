/** GET /v1/trace: a tenant's own ended programs as lines of a trace. */
import { createRoute } from '@hono/zod-openapi'
import { refusal, requireTenant, router, type TenantScope } from './boundary.ts'
import { listOf } from './program-schemas.ts'
import { failure, json } from './route-parts.ts'
import { TracedProgram, TraceQuery, tracedPage } from './traced-programs.ts'

export const traceRoutes = router<TenantScope>()
traceRoutes.use('/v1/trace', requireTenant)

traceRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/v1/trace',
    security: [{ apiKey: [] }],
    request: { query: TraceQuery },
    responses: {
      200: json(listOf(TracedProgram), 'The programs that ended last first; a capacity plan plays them'),
      400: failure('Invalid'),
    },
  }),
  async (c) => {
    const page = await tracedPage(c.env, c.var.identity.tenant, c.req.valid('query'))
    return page.status === 'refused' ? refusal(page.with) : c.json(page.list, 200)
  },
)
