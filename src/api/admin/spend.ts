/** /admin/v1/spend and /admin/v1/tenants/{id}/spend: what tenants' calls were charged, for the operator. */
import { createRoute, z } from '@hono/zod-openapi'
import { tenantActor } from '../../actors/stubs.ts'
import { addCharge, type Charge, NO_CHARGE } from '../../core/budget/charge.ts'
import type { Env } from '../../env.ts'
import { Id } from '../../protocol/index.ts'
import { fromStore } from '../../store/database.ts'
import { tenantById, tenantsPage } from '../../store/tenants.ts'
import { type AdminScope, refusal, router } from '../boundary.ts'
import { atOnce } from '../bounded-concurrency.ts'
import { listOf, PageQuery } from '../program-schemas.ts'
import { failure, invalidCursor, json, listJson, pageOf, pageStart } from '../route-parts.ts'
import { Charges, daysOf, Spend, SpendPeriod, SpendQuery, spendAsked, spendJson } from '../spend-json.ts'
import { absent, SECURITY as security } from './answers.ts'
import { IdParams } from './schemas.ts'

export const spendAdminRoutes = router<AdminScope>()

const TENANTS_AT_ONCE_MAX = 16
const DAYS_MAX = 100

spendAdminRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/admin/v1/tenants/{id}/spend',
    security,
    request: { params: IdParams, query: SpendQuery },
    responses: {
      200: json(listOf(Spend), 'The latest day or month first, then by name'),
      400: failure('Invalid'),
      404: failure('No such tenant'),
    },
  }),
  async (c) => {
    const { id: tenant } = c.req.valid('param')
    const asked = spendAsked(c.req.valid('query'), Date.now())
    if (asked instanceof Response) return refusal(asked)
    if ((await fromStore(() => tenantById(c.env.DB, tenant))) === null) return refusal(absent('tenant', tenant))
    const page = await tenantActor(c.env, tenant).spend(asked)
    if (page === null) return refusal(invalidCursor())
    return c.json(listJson(page.spend.map(spendJson), page.next), 200)
  },
)

const TenantSpend = z
  .object({ object: z.literal('tenant_spend'), tenant: z.string(), from: z.string(), to: z.string(), ...Charges })
  .openapi('TenantSpend')

spendAdminRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/admin/v1/spend',
    security,
    request: { query: PageQuery.extend({ from: SpendPeriod.shape.from, to: SpendPeriod.shape.to }) },
    responses: { 200: json(listOf(TenantSpend), 'Each tenant’s sum over the days, by id'), 400: failure('Invalid') },
  }),
  async (c) => {
    const { limit, cursor, from, to } = c.req.valid('query')
    const days = daysOf({ from, to }, Date.now())
    const start = pageStart(cursor, z.tuple([Id]))
    if (start.status === 'unreadable') return refusal(invalidCursor())
    const listed = await fromStore(() => tenantsPage(c.env.DB, start.position?.[0] ?? null, limit + 1))
    const rows = await atOnce(listed, TENANTS_AT_ONCE_MAX, async ({ id }) => ({
      ...{ object: 'tenant_spend' as const, tenant: id, ...days },
      ...(await totalOf(c.env, id, days)),
    }))
    return c.json(
      pageOf(
        rows,
        limit,
        (row) => row,
        ({ tenant }) => [tenant],
      ),
      200,
    )
  },
)

export async function totalOf(env: Env, tenant: string, days: { from: string; to: string }): Promise<Charge> {
  const total = { ...NO_CHARGE }
  const asked = { per: 'month', by: 'total', name: null, limit: DAYS_MAX } as const
  const page = await tenantActor(env, tenant).spend({ ...asked, ...days, cursor: null })
  for (const { period: _, name: __, ...month } of page?.spend ?? []) addCharge(total, month)
  return total
}
