/** Applications of one tenant. A tenant asks for its own, the operator for those of any tenant. The caller passes the tenant. */
import { z } from '@hono/zod-openapi'
import { applicationActor } from '../../actors/stubs.ts'
import { applicationGantt } from '../../core/application/application-gantt.ts'
import { ganttChart } from '../../core/plot/gantt.ts'
import type { Env } from '../../env.ts'
import { applicationById, applicationsPage, type StoredApplication } from '../../store/applications.ts'
import { fromStore } from '../../store/database.ts'
import { FileId } from '../files/file-schemas.ts'
import { APPLICATIONS_PAGE_MAX, type ApplicationList, applicationJson, remainingOf } from './application-json.ts'

const PAGE_DEFAULT = 20

export const ApplicationsQuery = z.object({
  after: FileId.optional(),
  limit: z.coerce.number().int().min(1).max(APPLICATIONS_PAGE_MAX).default(PAGE_DEFAULT),
})

/** The newest first. Null: there is no application `after`. */
export async function applicationsList(
  env: Env,
  tenant: string,
  after: string | null,
  limit: number,
): Promise<z.infer<typeof ApplicationList> | null> {
  const rows = await fromStore(() => applicationsPage(env.DB, tenant, after, limit))
  if (rows === null) return null
  const now_ms = Date.now()
  const data = rows.slice(0, limit).map(({ report, definition }) => applicationJson(report, definition, now_ms))
  const ids = { first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null }
  return { object: 'list', data, ...ids, has_more: rows.length > limit }
}

/** The actor has one that runs. D1 is asked first, since ids that do not exist must not make actors. */
export async function currentApplication(
  env: Env,
  tenant: string,
  id: string,
  ask: 'describe' | 'cancel',
): Promise<StoredApplication | null> {
  const stored = await fromStore(() => applicationById(env.DB, tenant, id))
  if (stored === null || stored.report.state.ended_at_ms !== null) return stored
  const report = await applicationActor(env, tenant, id)[ask]()
  return report === null ? fromStore(() => applicationById(env.DB, tenant, id)) : { ...stored, report }
}

/** When its nodes worked, as a chart. */
export function ganttResponse({ report, definition }: StoredApplication): Response {
  const ids = definition.nodes.map((node) => node.id)
  const left = report.nodes.map(({ completed, failed }, at) => {
    return (report.state.nodes[at]?.requests ?? 0) - completed - failed
  })
  const remaining_ms = report.state.status === 'running' ? remainingOf(report) : null
  const svg = ganttChart(applicationGantt(report.state, ids, left, Date.now(), remaining_ms))
  // A chart has no scripts, and a browser that opens it must not run any.
  const headers = { 'content-type': 'image/svg+xml', 'content-security-policy': "default-src 'none'" }
  return new Response(svg, { headers: { ...headers, 'cache-control': 'no-store' } })
}
