/**
 * Programs and calls of one tenant as pages. The actor of a running program describes it, the archive describes an ended one. A
 * tenant asks for its own programs, the operator for those of any tenant. The caller passes the tenant.
 */
import { z } from '@hono/zod-openapi'
import { archiveDatabases, archiveStoreOfRun } from '../actors/archive-store.ts'
import { encodeCursor } from '../actors/cursor.ts'
import { programActor, tenantActor } from '../actors/stubs.ts'
import type { CallEntry, CallOrder, ProgramSummary } from '../core/program/process-table.ts'
import type { OpenLeaseRef } from '../core/program/program-state.ts'
import type { Env } from '../env.ts'
import { Id } from '../protocol/index.ts'
import { archivedCalls, archivedProgram, archivedPrograms, type CallPosition } from '../store/archive.ts'
import { catalogue } from '../store/catalogue.ts'
import { fromStore } from '../store/database.ts'
import { callJson, firstToWait, listedItem, summaryItem } from './program-json.ts'
import type { Call, CallsQuery, ListQuery, ProgramListItem } from './program-schemas.ts'
import { queuePositions } from './queue-positions.ts'
import { listJson, pageOf, pageStart } from './route-parts.ts'

/** End, id and run of the last program of a page. */
const EndedPosition = z.tuple([z.number().int(), Id, Id])
/**
 * Run, id and position of the last call of a page. A page of the running program knows no position, and a run that is
 * archived between two pages goes on from the archive.
 */
const Position = z.tuple([Id, Id]).or(z.tuple([Id, Id, z.number().int().min(0)]))

type List<T> = ReturnType<typeof listJson<T>>

/** Null: the cursor is not valid. */
export async function programsPage(
  env: Env,
  tenant: string,
  { state, limit, cursor }: z.infer<typeof ListQuery>,
): Promise<List<ProgramListItem> | null> {
  if (state === 'running') {
    const page = await tenantActor(env, tenant).running({ cursor: cursor ?? null, limit })
    return page === null ? null : listJson(page.programs.map(listedItem), page.next)
  }
  const start = pageStart(cursor, EndedPosition)
  if (start.status === 'unreadable') return null
  const { position } = start
  const after = position === null ? null : { ended_at_ms: position[0], program: position[1], run: position[2] }
  const found = await fromStore(async () =>
    archivedPrograms(await archiveDatabases(env, tenant), tenant, after, limit + 1),
  )
  return pageOf(found, limit, summaryItem, ({ ended_at_ms, program, run }) => [ended_at_ms ?? 0, program, run])
}

export async function findProgram(env: Env, tenant: string, program: string): Promise<ProgramSummary | null> {
  const present = await programActor(env, tenant, program).describe(Date.now())
  return present ?? (await endedProgram(env, tenant, program))
}

/** Its last run that has ended. Null: the archive has none. */
export function endedProgram(env: Env, tenant: string, program: string): Promise<ProgramSummary | null> {
  return fromStore(async () => archivedProgram(await archiveDatabases(env, tenant), tenant, program))
}

type CallsPage = { status: 'page'; list: List<Call> } | { status: 'absent' } | { status: 'unreadable' }

export async function callsPage(
  env: Env,
  tenant: string,
  program: string,
  { limit, cursor, order, positions }: z.infer<typeof CallsQuery>,
): Promise<CallsPage> {
  const start = pageStart(cursor, Position)
  if (start.status === 'unreadable') return start
  const page = await findCalls(env, tenant, program, start.position, { limit, order })
  if (page === null) return { status: 'absent' }
  const { models } = await catalogue(env)
  const open = positions === 'true' ? page.calls.flatMap(openLeases) : []
  const known = await queuePositions(env, open)
  const data = page.calls.map((call) => {
    const reading = models.get(call.model)?.ordering_service ?? 'modelled'
    const told = openLeases(call).flatMap(({ lease }) => known.get(lease) ?? [])
    return callJson(call, page.class, reading, firstToWait(told))
  })
  return { status: 'page', list: listJson(data, page.next === null ? null : cursorOf(page.run, page.next)) }
}

function openLeases({ model, leases }: CallEntry): OpenLeaseRef[] {
  const open = leases.filter(({ state }) => state === 'open')
  return open.map(({ lease, agent, engine, region }) => ({ lease, agent, engine, region, model }))
}

function cursorOf(run: string, { call, position }: CallPosition): string {
  return encodeCursor(position === null ? [run, call] : [run, call, position])
}

async function findCalls(
  env: Env,
  tenant: string,
  program: string,
  start: z.infer<typeof Position> | null,
  { limit, order }: { limit: number; order: CallOrder },
): Promise<{ run: string; class: string; calls: CallEntry[]; next: CallPosition | null } | null> {
  const actor = programActor(env, tenant, program)
  const present = await actor.describe(Date.now())
  const [run, after, position = null] = start ?? [present?.run ?? null, null]
  if (present !== null && present.run === run) {
    const page = await actor.calls({ after, limit, order })
    if (page !== null) {
      const next = page.next === null ? null : { call: page.next, position: null }
      return { run, class: present.class, calls: page.calls, next }
    }
  }
  const archived = run ?? (await endedProgram(env, tenant, program))?.run
  if (archived === undefined) return null
  const key = { tenant, program, run: archived }
  const last = after === null ? null : { call: after, position }
  const store = archiveStoreOfRun(env, tenant, archived)
  return { run: archived, ...(await fromStore(() => archivedCalls(store, key, last, limit, order))) }
}
