/** /admin/v1/tenants/{id}/programs and …/trends: a tenant's programs and calls as the operator sees them, and their end. */
import { createRoute } from '@hono/zod-openapi'
import { Id } from '../../protocol/index.ts'
import { auditAct } from '../../store/audit.ts'
import { fromStore } from '../../store/database.ts'
import { tenantById } from '../../store/tenants.ts'
import { type AdminScope, refusal, router } from '../boundary.ts'
import { endProgram } from '../end-program.ts'
import { FcfsWaitsJson, fcfsWaits } from '../fcfs-waits.ts'
import { programJson } from '../program-json.ts'
import { callsPage, findProgram, programsPage } from '../program-reads.ts'
import { Call, CallsQuery, ListQuery, listOf, Program, ProgramListItem, WeightChange } from '../program-schemas.ts'
import { failure, invalidCursor, json, jsonBody } from '../route-parts.ts'
import { TrendsJson, TrendsQuery, trendsJson } from '../trends-json.ts'
import { weighProgram } from '../weigh.ts'
import { absent, SECURITY as security } from './answers.ts'
import { IdParams } from './schemas.ts'

export const tenantProgramRoutes = router<AdminScope>()

const ProgramParams = IdParams.extend({ program: Id.openapi({ param: { name: 'program', in: 'path' } }) })
const NOT_FOUND = failure('No such tenant or program')

tenantProgramRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/admin/v1/tenants/{id}/programs',
    security,
    request: { params: IdParams, query: ListQuery },
    responses: {
      200: json(listOf(ProgramListItem), 'The newest first'),
      400: failure('Invalid'),
      404: failure('No such tenant'),
    },
  }),
  async (c) => {
    const { id: tenant } = c.req.valid('param')
    if ((await fromStore(() => tenantById(c.env.DB, tenant))) === null) return refusal(absent('tenant', tenant))
    const page = await programsPage(c.env, tenant, c.req.valid('query'))
    return page === null ? refusal(invalidCursor()) : c.json(page, 200)
  },
)

tenantProgramRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/admin/v1/tenants/{id}/trends',
    security,
    request: { params: IdParams, query: TrendsQuery },
    responses: {
      200: json(TrendsJson, 'Ended programs by class and day'),
      400: failure('Invalid'),
      404: failure('No such tenant'),
    },
  }),
  async (c) => {
    const { id: tenant } = c.req.valid('param')
    if ((await fromStore(() => tenantById(c.env.DB, tenant))) === null) return refusal(absent('tenant', tenant))
    return c.json(await trendsJson(c.env, tenant, c.req.valid('query'), Date.now()), 200)
  },
)

tenantProgramRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/admin/v1/tenants/{id}/programs/{program}',
    security,
    request: { params: ProgramParams },
    responses: { 200: json(Program, 'Its process-table entry'), 404: NOT_FOUND },
  }),
  async (c) => {
    const { id: tenant, program } = c.req.valid('param')
    const summary = await findProgram(c.env, tenant, program)
    return summary === null ? refusal(absent('program', program, 'program')) : c.json(programJson(summary), 200)
  },
)

tenantProgramRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/admin/v1/tenants/{id}/programs/{program}/calls',
    security,
    request: { params: ProgramParams, query: CallsQuery },
    responses: { 200: json(listOf(Call), 'In the order asked for'), 400: failure('Invalid'), 404: NOT_FOUND },
  }),
  async (c) => {
    const { id: tenant, program } = c.req.valid('param')
    const page = await callsPage(c.env, tenant, program, c.req.valid('query'))
    if (page.status === 'unreadable') return refusal(invalidCursor())
    if (page.status === 'absent') return refusal(absent('program', program, 'program'))
    return c.json(page.list, 200)
  },
)

tenantProgramRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/admin/v1/tenants/{id}/programs/{program}/fcfs',
    security,
    request: { params: ProgramParams },
    responses: {
      200: json(FcfsWaitsJson, 'What its calls would have waited under first come, first served: an estimate'),
      404: NOT_FOUND,
    },
  }),
  async (c) => {
    const { id: tenant, program } = c.req.valid('param')
    const summary = await findProgram(c.env, tenant, program)
    return summary === null
      ? refusal(absent('program', program, 'program'))
      : c.json(await fcfsWaits(c.env, summary), 200)
  },
)

tenantProgramRoutes.openapi(
  createRoute({
    method: 'patch',
    path: '/admin/v1/tenants/{id}/programs/{program}',
    security,
    request: { params: ProgramParams, ...jsonBody(WeightChange) },
    responses: { 200: json(Program, 'As changed, from its next call on'), 404: NOT_FOUND },
  }),
  async (c) => {
    const { id: tenant, program } = c.req.valid('param')
    const summary = await weighProgram(c.env, c.var.auditor, { tenant, program, ...c.req.valid('json') })
    return summary === null ? refusal(absent('program', program, 'program')) : c.json(programJson(summary), 200)
  },
)

tenantProgramRoutes.openapi(
  createRoute({
    method: 'delete',
    path: '/admin/v1/tenants/{id}/programs/{program}',
    security,
    request: { params: ProgramParams },
    responses: { 200: json(Program, 'Ended; its open calls are cancelled'), 404: NOT_FOUND },
  }),
  async (c) => {
    const { id: tenant, program } = c.req.valid('param')
    if ((await findProgram(c.env, tenant, program)) === null) return refusal(absent('program', program, 'program'))
    await fromStore(() => auditAct(c.env.DB, c.var.auditor, 'program.end', `program:${tenant}/${program}`))
    const summary = await endProgram(c.env, tenant, program)
    return summary === null ? refusal(absent('program', program, 'program')) : c.json(programJson(summary), 200)
  },
)
