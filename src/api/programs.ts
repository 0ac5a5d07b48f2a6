/**
 * /v1/programs: a client's own programs. The actor of a running program describes it, the archive describes an ended one. Ids are
 * scoped by tenant, so another tenant's program is absent.
 */
import { createRoute } from '@hono/zod-openapi'
import type { MiddlewareHandler } from 'hono'
import { programActor } from '../actors/stubs.ts'
import { budgetOf } from '../core/budget/budget.ts'
import { liveProgramsExceeded, tooManyNewPrograms } from '../core/program/run-limits.ts'
import { apiError } from '../platform/api-error.ts'
import { fileBudget } from '../relay/deps.ts'
import { allowedRegions } from '../relay/restrictions.ts'
import { catalogue } from '../store/catalogue.ts'
import { StoreUnavailable } from '../store/database.ts'
import { limitBody, refusal, requireTenant, router, type TenantScope } from './boundary.ts'
import { endProgram } from './end-program.ts'
import { FcfsWaitsJson, fcfsWaits } from './fcfs-waits.ts'
import { programJson } from './program-json.ts'
import { callsPage, findProgram, programsPage } from './program-reads.ts'
import {
  Call,
  CallsQuery,
  ClassParams,
  ClassWeight,
  ListQuery,
  listOf,
  Program,
  ProgramListItem,
  ProgramParams,
  ProgramStart,
  WeightChange,
} from './program-schemas.ts'
import { failure, invalidCursor, json, jsonBody, tooMany } from './route-parts.ts'
import { auditorOfKey, weighProgram, weighTenantClass } from './weigh.ts'

/** Bodies here are an app, an id and at most 16 short metadata values. */
export const PROGRAM_BODY_BYTES_MAX = 64 * 1024

const security = [{ apiKey: [] }]
const NOT_FOUND = failure('No program of this id among the tenant’s own')
const NOT_RUNNING = failure('No program of this id among the tenant’s own is running')
const TOO_MANY_NEW = tooMany('Too many programs were used within seconds, and this is none of them')

export const programRoutes = router<TenantScope>()
// Hono's `/*` matches the path without it as well.
programRoutes.use('/v1/programs/*', requireTenant, limitBody(PROGRAM_BODY_BYTES_MAX))

/** A question about a program brings it into memory, as a call does. */
const inMemory: MiddlewareHandler<TenantScope, string> = async (c, next) => {
  const id = c.req.param('id')
  if (id !== undefined && !fileBudget(c.env).useProgram(c.var.identity.tenant, id, Date.now())) return noRoom()
  await next()
}
programRoutes.use('/v1/programs/:id', inMemory)
programRoutes.use('/v1/programs/:id/calls', inMemory)
programRoutes.use('/v1/programs/:id/fcfs', inMemory)

programRoutes.openapi(
  createRoute({
    method: 'post',
    path: '/v1/programs',
    security,
    request: { body: { content: { 'application/json': { schema: ProgramStart } }, required: true } },
    responses: {
      201: json(Program, 'Started'),
      400: failure('Invalid'),
      403: failure('The key may not use these regions'),
      409: failure('A program of this id is running'),
      429: tooMany('The tenant has as many running programs as it may, or too many were used within seconds'),
    },
  }),
  async (c) => {
    const { tenant, live_programs_max, shards, regions: granted } = c.var.identity
    const { id, app, metadata, regions, budget } = c.req.valid('json')
    const now_ms = Date.now()
    const program = id ?? `program-${crypto.randomUUID()}`
    if (regions !== undefined) {
      const allowed = allowedRegions((await catalogue(c.env)).regions, granted, regions)
      if (allowed.status === 'refused') {
        return refusal(apiError(allowed.http_status, { ...allowed.error, param: 'regions' }))
      }
    }
    if (!fileBudget(c.env).useProgram(tenant, program, now_ms)) return refusal(noRoom())
    const started = await programActor(c.env, tenant, program).start({
      ...{ tenant, program },
      app: app ?? null,
      metadata: metadata ?? null,
      regions: regions ?? null,
      budget: budgetOf(budget ?? {}, now_ms),
      live_programs_max,
      tenant_shards: shards,
      now_ms,
    })
    if (started.status === 'store_unavailable') throw new StoreUnavailable('the regions of a program could not be kept')
    if (started.status === 'full') {
      const { message, code, retry_after_s } = liveProgramsExceeded(live_programs_max ?? 0)
      return refusal(apiError(429, { message, code }, { 'retry-after': String(retry_after_s) }))
    }
    if (started.status === 'exists') {
      const message = `A program with the id "${program}" is running.`
      return refusal(apiError(409, { message, param: 'id', code: 'program_exists' }))
    }
    return c.json(programJson(started.summary), 201)
  },
)

programRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/v1/programs',
    security,
    request: { query: ListQuery },
    responses: { 200: json(listOf(ProgramListItem), 'The newest first'), 400: failure('Invalid') },
  }),
  async (c) => {
    const { tenant } = c.var.identity
    const page = await programsPage(c.env, tenant, c.req.valid('query'))
    if (page === null) return refusal(invalidCursor())
    return c.json(page, 200)
  },
)

programRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/v1/programs/{id}',
    security,
    request: { params: ProgramParams },
    responses: { 200: json(Program, 'Its process-table entry'), 404: NOT_FOUND, 429: TOO_MANY_NEW },
  }),
  async (c) => {
    const { id } = c.req.valid('param')
    const summary = await findProgram(c.env, c.var.identity.tenant, id)
    return summary === null ? refusal(notFound(id)) : c.json(programJson(summary), 200)
  },
)

programRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/v1/programs/{id}/calls',
    security,
    request: { params: ProgramParams, query: CallsQuery },
    responses: {
      200: json(listOf(Call), 'In the order asked for'),
      400: failure('Invalid'),
      404: NOT_FOUND,
      429: TOO_MANY_NEW,
    },
  }),
  async (c) => {
    const { id } = c.req.valid('param')
    const page = await callsPage(c.env, c.var.identity.tenant, id, c.req.valid('query'))
    if (page.status === 'unreadable') return refusal(invalidCursor())
    if (page.status === 'absent') return refusal(notFound(id))
    return c.json(page.list, 200)
  },
)

programRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/v1/programs/{id}/fcfs',
    security,
    request: { params: ProgramParams },
    responses: {
      200: json(FcfsWaitsJson, 'What its calls would have waited under first come, first served: an estimate'),
      404: NOT_FOUND,
      429: TOO_MANY_NEW,
    },
  }),
  async (c) => {
    const { id } = c.req.valid('param')
    const summary = await findProgram(c.env, c.var.identity.tenant, id)
    return summary === null ? refusal(notFound(id)) : c.json(await fcfsWaits(c.env, summary), 200)
  },
)

programRoutes.openapi(
  createRoute({
    method: 'patch',
    path: '/v1/programs/{id}',
    security,
    request: { params: ProgramParams, ...jsonBody(WeightChange) },
    responses: { 200: json(Program, 'As changed, from its next call on'), 404: NOT_RUNNING, 429: TOO_MANY_NEW },
  }),
  async (c) => {
    const { id } = c.req.valid('param')
    const { identity } = c.var
    const asked = { tenant: identity.tenant, program: id, ...c.req.valid('json') }
    const summary = await weighProgram(c.env, auditorOfKey(identity), asked)
    return summary === null ? refusal(notRunning(id)) : c.json(programJson(summary), 200)
  },
)

programRoutes.use('/v1/classes/*', requireTenant, limitBody(PROGRAM_BODY_BYTES_MAX))
programRoutes.openapi(
  createRoute({
    method: 'patch',
    path: '/v1/classes/{class}',
    security,
    request: { params: ClassParams, ...jsonBody(WeightChange) },
    responses: {
      200: json(ClassWeight, 'As changed; calls see it within 10 s'),
      409: failure('Too many classes of the tenant weigh other than 1'),
    },
  }),
  async (c) => {
    const { identity } = c.var
    const { class: name } = c.req.valid('param')
    const weighed = { tenant: identity.tenant, class: name, ...c.req.valid('json') }
    const done = await weighTenantClass(c.env, auditorOfKey(identity), weighed)
    return done.status === 'full' ? refusal(done.response) : c.json({ object: 'class' as const, ...weighed }, 200)
  },
)

programRoutes.openapi(
  createRoute({
    method: 'delete',
    path: '/v1/programs/{id}',
    security,
    request: { params: ProgramParams },
    responses: { 200: json(Program, 'Ended; its open calls are cancelled'), 404: NOT_FOUND, 429: TOO_MANY_NEW },
  }),
  async (c) => {
    const { tenant } = c.var.identity
    const { id } = c.req.valid('param')
    const summary = await endProgram(c.env, tenant, id)
    return summary === null ? refusal(notFound(id)) : c.json(programJson(summary), 200)
  },
)

function noRoom(): Response {
  const { retry_after_s, ...error } = tooManyNewPrograms()
  return apiError(429, error, { 'retry-after': String(retry_after_s) })
}

function notRunning(id: string): Response {
  return apiError(404, { message: `No program "${id}" is running.`, param: 'id', code: 'program_not_found' })
}

function notFound(id: string): Response {
  return apiError(404, { message: `There is no program "${id}".`, param: 'id', code: 'program_not_found' })
}
