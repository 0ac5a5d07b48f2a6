/**
 * Applications: a row each, which the application's actor writes. Found by tenant and id alone, so another tenant's
 * application is absent, and tenants choose ids as they like.
 */
import { and, desc, eq, lt, or, sql } from 'drizzle-orm'
import { ApplicationReport, Definition } from '../core/application/application-state.ts'
import { NO_LENGTHS } from '../core/application/output-lengths.ts'
import { database } from './database.ts'
import { applications } from './schema.ts'

/** Of one tenant, at a time. */
export const APPLICATIONS_OPEN_MAX = 20

export interface StoredApplication {
  report: ApplicationReport
  definition: Definition
}

/** What the actor does not keep to itself: where outputs lie is found there, or in the files that they became. */
export async function putApplication(d1: D1Database, report: ApplicationReport, definition: Definition): Promise<void> {
  const { state, nodes } = report
  const { id, tenant, created_at_ms } = state
  const bare = state.nodes.map((node) => ({
    ...{ ...node, part_lines: [], output: { ...node.output, parts: [] } },
    // The report of the nodes has them.
    lengths: NO_LENGTHS,
  }))
  const shown: ApplicationReport = { state: { ...state, nodes: bare }, nodes }
  const set = { ended: state.ended_at_ms !== null, report: JSON.stringify(shown) }
  await database(d1)
    .insert(applications)
    .values({ id, tenant, created_at_ms, definition: JSON.stringify(definition), ...set })
    .onConflictDoUpdate({ target: [applications.tenant, applications.id], set })
}

export async function applicationById(d1: D1Database, tenant: string, id: string): Promise<StoredApplication | null> {
  const row = await database(d1)
    .select({ report: applications.report, definition: applications.definition })
    .from(applications)
    .where(and(eq(applications.tenant, tenant), eq(applications.id, id)))
    .get()
  return row === undefined ? null : storedOf(row)
}

/** The newest first, one more than `limit` where there are so many. Null: the tenant has no application `after`. */
export async function applicationsPage(
  d1: D1Database,
  tenant: string,
  after: string | null,
  limit: number,
): Promise<StoredApplication[] | null> {
  const last = after === null ? null : await applicationById(d1, tenant, after)
  if (after !== null && last === null) return null
  const state = last?.report.state
  const before =
    state === undefined
      ? undefined
      : or(
          lt(applications.created_at_ms, state.created_at_ms),
          and(eq(applications.created_at_ms, state.created_at_ms), lt(applications.id, state.id)),
        )
  const rows = await database(d1)
    .select({ report: applications.report, definition: applications.definition })
    .from(applications)
    .where(and(eq(applications.tenant, tenant), before))
    .orderBy(desc(applications.created_at_ms), desc(applications.id))
    .limit(limit + 1)
  return rows.map(storedOf)
}

export async function openApplications(d1: D1Database, tenant: string): Promise<number> {
  const open = and(eq(applications.tenant, tenant), eq(applications.ended, false))
  const counted = await database(d1).select({ number: sql<number>`count(*)` }).from(applications).where(open).get()
  return counted?.number ?? 0
}

function storedOf({ report, definition }: { report: string; definition: string }): StoredApplication {
  return { report: ApplicationReport.parse(JSON.parse(report)), definition: Definition.parse(JSON.parse(definition)) }
}
