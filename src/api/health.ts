/**
 * GET /healthz, /health and /: the Worker runs. Clients probe all three, the last with HEAD. It asks no actor and no database, so
 * a probe wakes nothing and costs no query. A browser, which asks for HTML, gets the page at /.
 */
import { createRoute, OpenAPIHono, z } from '@hono/zod-openapi'
import type { Env } from '../env.ts'
import { pageDocument, wantsHtml } from './page/document.ts'

export const healthRoutes = new OpenAPIHono<{ Bindings: Env }>()

healthRoutes.use('/', async (c, next) => {
  if (c.req.path === '/' && wantsHtml(c.req.header('accept'))) return pageDocument()
  await next()
})

for (const path of ['/healthz', '/health', '/']) {
  healthRoutes.openapi(
    createRoute({
      method: 'get',
      path,
      responses: {
        200: {
          description: 'The control plane answers',
          content: { 'application/json': { schema: z.object({ status: z.literal('ok') }) } },
        },
      },
    }),
    (c) => c.json({ status: 'ok' as const }, 200),
  )
}
