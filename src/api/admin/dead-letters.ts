/** GET /admin/v1/dead-letters: what could not be applied, the latest first. */
import { createRoute, z } from '@hono/zod-openapi'
import { fromStore } from '../../store/database.ts'
import { DEAD_LETTERS_MAX, deadLettersPage } from '../../store/dead-letters.ts'
import { type AdminScope, refusal, router } from '../boundary.ts'
import { listOf, PageQuery } from '../program-schemas.ts'
import { failure, invalidCursor, json, pageOf, pageStart } from '../route-parts.ts'
import { iso, SECURITY as security } from './answers.ts'
import { DeadLetterJson } from './schemas.ts'

export const deadLetterRoutes = router<AdminScope>()

deadLetterRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/admin/v1/dead-letters',
    security,
    request: { query: PageQuery },
    responses: {
      200: json(listOf(DeadLetterJson), `The latest first; at most ${DEAD_LETTERS_MAX} are kept`),
      400: failure('Invalid'),
    },
  }),
  async (c) => {
    const { limit, cursor } = c.req.valid('query')
    const start = pageStart(cursor, z.tuple([z.number().int(), z.string()]))
    if (start.status === 'unreadable') return refusal(invalidCursor())
    const position = start.position === null ? null : { at_ms: start.position[0], id: start.position[1] }
    const rows = await fromStore(() => deadLettersPage(c.env.DB, position, limit + 1))
    return c.json(
      pageOf(
        rows,
        limit,
        ({ at_ms, ...letter }) => ({ ...letter, at: iso(at_ms) }),
        ({ at_ms, id }) => [at_ms, id],
      ),
      200,
    )
  },
)
