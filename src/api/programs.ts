/**
 * /v1/programs: programs as a client sees its own. A running program is told by its actor, an ended one by D1; ids are
 * scoped by tenant, so another tenant's program is absent.
 */
import { createRoute, z } from '@hono/zod-openapi'
import { cancelLeases } from '../actors/cancel-leases.ts'
import { decodeCursor, encodeCursor } from '../actors/cursor.ts'
import { poolActor, programActor, tenantActor } from '../actors/stubs.ts'
import type { CallEntry, ProgramSummary } from '../core/process-table.ts'
import type { Env } from '../env.ts'
import { Id } from '../protocol/index.ts'
import { archivedCalls, archivedProgram, archivedPrograms } from '../store/archive.ts'
import { catalogue } from '../store/catalogue.ts'
import { fromStore } from '../store/database.ts'
import { limitBody, refusal, requireTenant, router, type TenantScope } from './boundary.ts'
import { apiError, ErrorResponse } from './errors.ts'
import { callJson, listedItem, programJson, summaryItem } from './program-json.ts'
import {
  Call,
  ListQuery,
  listOf,
  PageQuery,
  Program,
  ProgramListItem,
  ProgramParams,
  ProgramStart,
} from './program-schemas.ts'

/** Bodies here are an app, an id and at most 16 short metadata values. */
export const PROGRAM_BODY_BYTES_MAX = 64 * 1024

const json = <T extends z.ZodType>(schema: T, description: string) => ({
  description,
  content: { 'application/json': { schema } },
})
const failure = (description: string) => json(ErrorResponse, description)
const security = [{ apiKey: [] }]
const NOT_FOUND = failure('No program of this id among the tenant’s own')

export const programRoutes = router<TenantScope>()
// Hono's `/*` matches the path without it as well.
programRoutes.use('/v1/programs/*', requireTenant, limitBody(PROGRAM_BODY_BYTES_MAX))

programRoutes.openapi(
  createRoute({
    method: 'post',
    path: '/v1/programs',
    security,
    request: { body: { content: { 'application/json': { schema: ProgramStart } }, required: true } },
    responses: {
      201: json(Program, 'Started'),
      400: failure('Invalid'),
      409: failure('A program of this id is running'),
    },
  }),
  async (c) => {
    const { tenant } = c.var.identity
    const { id, app, metadata } = c.req.valid('json')
    const program = id ?? `program-${crypto.randomUUID()}`
    const started = await programActor(c.env, tenant, program).start({
      ...{ tenant, program },
      app: app ?? null,
      metadata: metadata ?? null,
      now_ms: Date.now(),
    })
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
    const { state, limit, cursor = null } = c.req.valid('query')
    const page =
      state === 'running'
        ? await runningPage(c.env, tenant, cursor, limit)
        : await endedPage(c.env, tenant, cursor, limit)
    if (page === null) return refusal(invalidCursor())
    return c.json(listJson(page.data, page.next), 200)
  },
)

programRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/v1/programs/{id}',
    security,
    request: { params: ProgramParams },
    responses: { 200: json(Program, 'Its process-table entry'), 404: NOT_FOUND },
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
    request: { params: ProgramParams, query: PageQuery },
    responses: { 200: json(listOf(Call), 'In order of arrival'), 400: failure('Invalid'), 404: NOT_FOUND },
  }),
  async (c) => {
    const { id } = c.req.valid('param')
    const { limit, cursor = null } = c.req.valid('query')
    const position = cursor === null ? null : decodeCursor(cursor, CallPosition)
    if (cursor !== null && position === null) return refusal(invalidCursor())
    const page = await callsPage(c.env, c.var.identity.tenant, id, position, limit)
    if (page === null) return refusal(notFound(id))
    const { models } = await catalogue(c.env)
    const data = page.calls.map((call) => callJson(call, models.get(call.model)?.ordering_service ?? 'modelled'))
    return c.json(listJson(data, page.next === null ? null : encodeCursor([page.run, page.next])), 200)
  },
)

programRoutes.openapi(
  createRoute({
    method: 'delete',
    path: '/v1/programs/{id}',
    security,
    request: { params: ProgramParams },
    responses: { 200: json(Program, 'Ended; its open calls are cancelled'), 404: NOT_FOUND },
  }),
  async (c) => {
    const { tenant } = c.var.identity
    const { id } = c.req.valid('param')
    const ended = await programActor(c.env, tenant, id).end(Date.now())
    await cancelLeases(ended.open_leases, (region, model) =>
      poolActor(c.env, { id: region, location_hint: null }, model),
    )
    const summary = ended.summary ?? (await fromStore(() => archivedProgram(c.env.DB, tenant, id)))
    return summary === null ? refusal(notFound(id)) : c.json(programJson(summary), 200)
  },
)

/** End, id and run of the last program of a page. */
const EndedPosition = z.tuple([z.number().int(), Id, Id])
/** Run and id of the last call of a page: a run that is archived between two pages goes on from D1. */
const CallPosition = z.tuple([Id, Id])

async function runningPage(env: Env, tenant: string, cursor: string | null, limit: number) {
  const page = await tenantActor(env, tenant).running({ cursor, limit })
  return page === null ? null : { data: page.programs.map(listedItem), next: page.next }
}

async function endedPage(env: Env, tenant: string, cursor: string | null, limit: number) {
  const position = cursor === null ? null : decodeCursor(cursor, EndedPosition)
  if (cursor !== null && position === null) return null
  const after = position === null ? null : { ended_at_ms: position[0], program: position[1], run: position[2] }
  const found = await fromStore(() => archivedPrograms(env.DB, tenant, after, limit + 1))
  const page = found.slice(0, limit)
  const last = page.at(-1)
  const more = found.length > limit && last !== undefined
  return {
    data: page.map(summaryItem),
    next: more ? encodeCursor([last.ended_at_ms ?? 0, last.program, last.run]) : null,
  }
}

async function findProgram(env: Env, tenant: string, program: string): Promise<ProgramSummary | null> {
  const present = await programActor(env, tenant, program).describe(Date.now())
  return present ?? (await fromStore(() => archivedProgram(env.DB, tenant, program)))
}

async function callsPage(
  env: Env,
  tenant: string,
  program: string,
  position: readonly [run: string, after: string] | null,
  limit: number,
): Promise<{ run: string; calls: CallEntry[]; next: string | null } | null> {
  const actor = programActor(env, tenant, program)
  const present = await actor.describe(Date.now())
  const [run, after] = position ?? [present?.run ?? null, null]
  if (present !== null && present.run === run) {
    const page = await actor.calls({ after, limit })
    if (page !== null) return { run, ...page }
  }
  const archived = run ?? (await fromStore(() => archivedProgram(env.DB, tenant, program)))?.run
  if (archived === undefined) return null
  const key = { tenant, program, run: archived }
  return { run: archived, ...(await fromStore(() => archivedCalls(env.DB, key, after, limit))) }
}

function listJson<T>(data: T[], next_cursor: string | null) {
  return { object: 'list' as const, data, has_more: next_cursor !== null, next_cursor }
}

function notFound(id: string): Response {
  return apiError(404, { message: `There is no program "${id}".`, param: 'id', code: 'program_not_found' })
}

function invalidCursor(): Response {
  return apiError(400, { message: 'The cursor is not one of ours.', param: 'cursor', code: 'invalid_cursor' })
}
