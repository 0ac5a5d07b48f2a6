/** /admin/v1/tenants/{id}/applications: a tenant's offline applications as the operator sees them. */
import { createRoute, z } from '@hono/zod-openapi'
import { apiError } from '../../platform/api-error.ts'
import { Id } from '../../protocol/index.ts'
import { fromStore } from '../../store/database.ts'
import { tenantById } from '../../store/tenants.ts'
import { ApplicationList, ApplicationObject, applicationJson } from '../applications/application-json.ts'
import {
  ApplicationsQuery,
  applicationsList,
  currentApplication,
  ganttResponse,
} from '../applications/application-reads.ts'
import { type AdminScope, refusal, router } from '../boundary.ts'
import { unknownAfter } from '../files/files.ts'
import { failure, json } from '../route-parts.ts'
import { absent, SECURITY as security } from './answers.ts'
import { IdParams } from './schemas.ts'

export const tenantApplicationRoutes = router<AdminScope>()

const Params = IdParams.extend({
  application: Id.openapi({ param: { name: 'application', in: 'path' } }),
})
const NOT_FOUND = failure('No such tenant or application')

tenantApplicationRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/admin/v1/tenants/{id}/applications',
    security,
    request: { params: IdParams, query: ApplicationsQuery },
    responses: {
      200: json(ApplicationList, 'The newest first'),
      400: failure('Invalid'),
      404: failure('No such tenant'),
    },
  }),
  async (c) => {
    const { id: tenant } = c.req.valid('param')
    const { after, limit } = c.req.valid('query')
    if ((await fromStore(() => tenantById(c.env.DB, tenant))) === null) return refusal(absent('tenant', tenant))
    const list = await applicationsList(c.env, tenant, after ?? null, limit)
    return list === null ? refusal(apiError(400, unknownAfter(after ?? ''))) : c.json(list, 200)
  },
)

tenantApplicationRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/admin/v1/tenants/{id}/applications/{application}',
    security,
    request: { params: Params },
    responses: { 200: json(ApplicationObject, 'The application, node by node'), 404: NOT_FOUND },
  }),
  async (c) => {
    const { id: tenant, application } = c.req.valid('param')
    const found = await currentApplication(c.env, tenant, application, 'describe')
    if (found === null) return refusal(absent('application', application, 'application'))
    return c.json(applicationJson(found.report, found.definition, Date.now()), 200)
  },
)

tenantApplicationRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/admin/v1/tenants/{id}/applications/{application}/gantt.svg',
    security,
    request: { params: Params },
    responses: {
      200: {
        description: 'When each node worked, and until when it is expected to',
        content: { 'image/svg+xml': { schema: z.string() } },
      },
      404: NOT_FOUND,
    },
  }),
  async (c) => {
    const { id: tenant, application } = c.req.valid('param')
    const found = await currentApplication(c.env, tenant, application, 'describe')
    return refusal(found === null ? absent('application', application, 'application') : ganttResponse(found))
  },
)
