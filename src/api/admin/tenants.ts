/** /admin/v1/tenants: who pays, with what share and within which limits. */
import { createRoute, z } from '@hono/zod-openapi'
import { readPeriods, storedPeriods } from '../../core/budget/period-limits.ts'
import { Id } from '../../protocol/index.ts'
import { fromStore } from '../../store/database.ts'
import {
  classWeightsOf,
  insertTenant,
  type Tenant,
  tenantById,
  tenantsPage,
  updateTenant,
} from '../../store/tenants.ts'
import { type AdminScope, refusal, router } from '../boundary.ts'
import { listOf, PageQuery } from '../program-schemas.ts'
import { failure, invalidCursor, json, jsonBody, pageOf, pageStart } from '../route-parts.ts'
import { absent, exists, iso, isoOrNull, SECURITY as security } from './answers.ts'
import { definedOf } from './defined.ts'
import { IdParams, TenantCreate, TenantJson, TenantUpdate } from './schemas.ts'

export const tenantRoutes = router<AdminScope>()
const NOT_FOUND = failure('No such tenant')

tenantRoutes.openapi(
  createRoute({
    method: 'post',
    path: '/admin/v1/tenants',
    security,
    request: jsonBody(TenantCreate),
    responses: { 201: json(TenantJson, 'Created'), 409: failure('A tenant of this id exists') },
  }),
  async (c) => {
    const { id = `tenant-${crypto.randomUUID()}`, budget, ...given } = c.req.valid('json')
    const { auditor } = c.var
    const made = {
      created_at_ms: auditor.at_ms,
      disabled_at_ms: null,
      class_weights: '{}',
      budget: storedPeriods(budget),
    }
    const tenant: Tenant = { id, ...given, ...made }
    const { status } = await fromStore(() => insertTenant(c.env.DB, auditor, tenant))
    return status === 'refused' ? refusal(exists('tenant', id)) : c.json(tenantJson(tenant), 201)
  },
)

tenantRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/admin/v1/tenants',
    security,
    request: { query: PageQuery },
    responses: { 200: json(listOf(TenantJson), 'By id'), 400: failure('Invalid') },
  }),
  async (c) => {
    const { limit, cursor } = c.req.valid('query')
    const start = pageStart(cursor, z.tuple([Id]))
    if (start.status === 'unreadable') return refusal(invalidCursor())
    const rows = await fromStore(() => tenantsPage(c.env.DB, start.position?.[0] ?? null, limit + 1))
    return c.json(
      pageOf(rows, limit, tenantJson, ({ id }) => [id]),
      200,
    )
  },
)

tenantRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/admin/v1/tenants/{id}',
    security,
    request: { params: IdParams },
    responses: { 200: json(TenantJson, 'The tenant'), 404: NOT_FOUND },
  }),
  async (c) => {
    const { id } = c.req.valid('param')
    const tenant = await fromStore(() => tenantById(c.env.DB, id))
    return tenant === null ? refusal(absent('tenant', id)) : c.json(tenantJson(tenant), 200)
  },
)

tenantRoutes.openapi(
  createRoute({
    method: 'patch',
    path: '/admin/v1/tenants/{id}',
    security,
    request: { params: IdParams, ...jsonBody(TenantUpdate) },
    responses: { 200: json(TenantJson, 'As changed; calls see it within 10 s'), 404: NOT_FOUND },
  }),
  async (c) => {
    const { id } = c.req.valid('param')
    const { disabled, budget, ...fields } = c.req.valid('json')
    const { auditor } = c.var
    const disabling = disabled === undefined ? {} : { disabled_at_ms: disabled ? auditor.at_ms : null }
    const limiting = budget === undefined ? {} : { budget: storedPeriods(budget) }
    const change = definedOf({ ...fields, ...disabling, ...limiting })
    const { status } = await fromStore(() => updateTenant(c.env.DB, auditor, id, change))
    const tenant = status === 'refused' ? null : await fromStore(() => tenantById(c.env.DB, id))
    return tenant === null ? refusal(absent('tenant', id)) : c.json(tenantJson(tenant), 200)
  },
)

function tenantJson(stored: Tenant): z.infer<typeof TenantJson> {
  const { created_at_ms, disabled_at_ms, ...tenant } = stored
  const class_weights = classWeightsOf(stored)
  const budget = readPeriods(stored.budget)
  return { ...tenant, class_weights, budget, created_at: iso(created_at_ms), disabled_at: isoOrNull(disabled_at_ms) }
}
