/** /admin/v1/hosts: agents that lend their GPUs to offline applications, to whom they are lent, and what they run. */
import { createRoute, z } from '@hono/zod-openapi'
import type { HostReport } from '../../actors/hosts-rpc.ts'
import { hostsActor } from '../../actors/stubs.ts'
import { HostEngine, LendPolicy } from '../../protocol/host.ts'
import { Id } from '../../protocol/index.ts'
import { type AdminScope, refusal, router } from '../boundary.ts'
import { listOf, PageQuery } from '../program-schemas.ts'
import { failure, invalidCursor, json, pageOf, pageStart } from '../route-parts.ts'
import { iso, SECURITY as security } from './answers.ts'

export const hostRoutes = router<AdminScope>()

const Host = z
  .object({
    agent: z.string(),
    region: z.string(),
    linked: z.boolean(),
    draining: z.boolean().openapi({ description: 'The operator drains it: it is lent no more' }),
    gpus: z.number(),
    lend: LendPolicy.openapi({ description: '`spare`: home engines only while another agent serves their models' }),
    models: z.array(z.string()).openapi({ description: 'It can start engines for them' }),
    lent_to: z
      .object({ tenant: z.string(), application: z.string(), since: z.iso.datetime() })
      .nullable()
      .openapi({ description: 'Null: it is at home' }),
    engines: z.array(HostEngine).nullable().openapi({ description: 'Null: it has not reported' }),
  })
  .openapi('Host')

hostRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/admin/v1/hosts',
    security,
    request: { query: PageQuery },
    responses: { 200: json(listOf(Host), 'By agent'), 400: failure('Invalid') },
  }),
  async (c) => {
    const { limit, cursor } = c.req.valid('query')
    const start = pageStart(cursor, z.tuple([Id]))
    if (start.status === 'unreadable') return refusal(invalidCursor())
    const after = start.position?.[0] ?? ''
    const hosts = (await hostsActor(c.env).hosts()).filter(({ agent }) => agent > after)
    return c.json(
      pageOf(hosts.slice(0, limit + 1), limit, hostJson, ({ agent }) => [agent]),
      200,
    )
  },
)

function hostJson({ lent_to, ...host }: HostReport): z.infer<typeof Host> {
  if (lent_to === null) return { ...host, lent_to }
  const { since_ms, ...borrower } = lent_to
  return { ...host, lent_to: { ...borrower, since: iso(since_ms) } }
}
