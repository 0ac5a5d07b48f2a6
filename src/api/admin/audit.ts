/** GET /admin/v1/audit: every change that an operator made, the latest first. */
import { createRoute, z } from '@hono/zod-openapi'
import { Id } from '../../protocol/index.ts'
import { auditPage } from '../../store/audit.ts'
import { fromStore } from '../../store/database.ts'
import { type AdminScope, refusal, router } from '../boundary.ts'
import { listOf, PageQuery } from '../program-schemas.ts'
import { failure, invalidCursor, json, pageOf, pageStart } from '../route-parts.ts'
import { iso, SECURITY as security } from './answers.ts'
import { AuditJson } from './schemas.ts'

const OBJECT_CHARS_MAX = 160

export const auditRoutes = router<AdminScope>()

const AuditQuery = PageQuery.extend({
  object: z
    .string()
    .min(1)
    .max(OBJECT_CHARS_MAX)
    .optional()
    .openapi({ description: 'Kind and id, `tenant:acme`', example: 'tenant:acme' }),
})

auditRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/admin/v1/audit',
    security,
    request: { query: AuditQuery },
    responses: { 200: json(listOf(AuditJson), 'The latest first'), 400: failure('Invalid') },
  }),
  async (c) => {
    const { limit, cursor, object = null } = c.req.valid('query')
    const start = pageStart(cursor, z.tuple([Id]))
    if (start.status === 'unreadable') return refusal(invalidCursor())
    const filter = { object, after: start.position?.[0] ?? null }
    const rows = await fromStore(() => auditPage(c.env.DB, filter, limit + 1))
    return c.json(
      pageOf(
        rows,
        limit,
        ({ at_ms, ...entry }) => ({ ...entry, at: iso(at_ms) }),
        ({ id }) => [id],
      ),
      200,
    )
  },
)
