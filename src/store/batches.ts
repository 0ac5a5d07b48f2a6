/** Batches: a row each, which the batch's actor writes. Found by tenant and id alone, so another tenant's batch is absent. */
import { and, desc, eq, lt, or, sql } from 'drizzle-orm'
import { BatchState } from '../core/batch/batch-state.ts'
import { database } from './database.ts'
import { batches } from './schema.ts'

/** Of one tenant, at a time. */
export const BATCHES_OPEN_MAX = 50

/** What the actor of a batch does not keep to itself. */
export async function putBatch(d1: D1Database, state: BatchState): Promise<void> {
  const { id, tenant, created_at_ms } = state
  const set = { ended: state.ended_at_ms !== null, state: JSON.stringify(state) }
  await database(d1)
    .insert(batches)
    .values({ id, tenant, created_at_ms, ...set })
    .onConflictDoUpdate({ target: batches.id, set })
}

export async function batchById(d1: D1Database, tenant: string, id: string): Promise<BatchState | null> {
  const row = await database(d1)
    .select({ state: batches.state })
    .from(batches)
    .where(and(eq(batches.id, id), eq(batches.tenant, tenant)))
    .get()
  return row === undefined ? null : stateOf(row)
}

/** The newest first, one more than `limit` where there are so many. Null: the tenant has no batch `after`. */
export async function batchesPage(
  d1: D1Database,
  tenant: string,
  after: string | null,
  limit: number,
): Promise<BatchState[] | null> {
  const last = after === null ? null : await batchById(d1, tenant, after)
  if (after !== null && last === null) return null
  const before =
    last === null
      ? undefined
      : or(
          lt(batches.created_at_ms, last.created_at_ms),
          and(eq(batches.created_at_ms, last.created_at_ms), lt(batches.id, last.id)),
        )
  const rows = await database(d1)
    .select({ state: batches.state })
    .from(batches)
    .where(and(eq(batches.tenant, tenant), before))
    .orderBy(desc(batches.created_at_ms), desc(batches.id))
    .limit(limit + 1)
  return rows.map(stateOf)
}

export async function openBatches(d1: D1Database, tenant: string): Promise<number> {
  const open = and(eq(batches.tenant, tenant), eq(batches.ended, false))
  const counted = await database(d1).select({ number: sql<number>`count(*)` }).from(batches).where(open).get()
  return counted?.number ?? 0
}

function stateOf({ state }: { state: string }): BatchState {
  return BatchState.parse(JSON.parse(state))
}
