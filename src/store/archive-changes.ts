/** What is written to the archive: ended runs, records that came after them, and what is past its retention. */
import { and, eq, sql } from 'drizzle-orm'
import type { DirtyRows, ProgramRows, ProgramSummary } from '../core/program/program-state.ts'
import { ofRun } from './archive.ts'
import { type RunKey, storeCall, storeLease, storeProgram } from './archive-rows.ts'
import { adoptedLeases, endedCalls, endedLeases, endedPrograms } from './archive-schema.ts'
import { bulkUpsert } from './bulk-upsert.ts'
import { database, inOneTransaction } from './database.ts'
import type { EndedRun, StoredProgram } from './ended-run.ts'
import { encodeRun, type RunPart } from './segments.ts'
import { builder, type Statement, statementOf } from './statements.ts'

/** Runs that one statement removes. A run of 20,000 calls is 40,000 rows. */
export const EXPIRED_RUNS_AT_ONCE = 50

/** `summary` is of these rows. */
export async function endedRun(rows: ProgramRows, summary: ProgramSummary): Promise<EndedRun> {
  const calls = rows.calls.length === 0 ? null : await encodeRun(rows)
  return { row: storeProgram(rows.program, summary, null, versionOf(rows)), calls }
}

/** An older copy of a run changes nothing. */
export function storeRuns(runs: readonly { row: StoredProgram; part: RunPart | null }[]): Statement[] {
  const rows = runs.map(({ row, part }) => ({ ...row, part: part === null ? null : JSON.stringify(part) }))
  const older = 'ended_programs.version > excluded.version'
  return bulkUpsert(endedPrograms, rows, ['tenant', 'program', 'run'], { unless: older })
}

/** Grows with every record and every end of a call, and with nothing else. */
function versionOf({ calls, leases }: Pick<ProgramRows, 'calls' | 'leases'>): number {
  const ended = calls.filter(({ state }) => state === 'ended').length
  return calls.length + ended + leases.filter(({ state }) => state === 'settled').length
}

/**
 * Lays changed rows over an archived run and stores its new sums. False: the run was changed since it was read, and
 * nothing is written.
 */
export async function changeArchived(
  d1: D1Database,
  read: { key: RunKey; version: number },
  changed: DirtyRows,
  now: { rows: ProgramRows; summary: ProgramSummary },
): Promise<boolean> {
  const { key, version } = read
  const asRead = and(ofRun(endedPrograms, key), eq(endedPrograms.version, version))
  const where = statementOf(sql`EXISTS (SELECT 1 FROM ${endedPrograms} WHERE ${asRead})`)
  const calls = changed.calls.map((call) => storeCall(key, call))
  const leases = changed.leases.map((lease) => storeLease(key, lease))
  const { part: _, ...row } = storeProgram(now.rows.program, now.summary, null, versionOf(now.rows))
  const rows = await inOneTransaction<{ run: string }>(d1, [
    ...bulkUpsert(endedCalls, calls, ['tenant', 'program', 'run', 'call'], { where }),
    ...bulkUpsert(endedLeases, leases, ['lease'], { where, unless: 'ended_leases.tenant <> excluded.tenant' }),
    builder.update(endedPrograms).set(row).where(asRead).returning({ run: endedPrograms.run }).toSQL(),
  ])
  return rows.length > 0
}

/** These leases count under `run`, which their records do not name. */
export async function adoptLeases(
  d1: D1Database,
  { tenant, program, run }: RunKey,
  leases: readonly string[],
  at_ms: number,
): Promise<void> {
  const rows = leases.map((lease) => ({ lease, tenant, program, run, at_ms }))
  const unless = 'adopted_leases.tenant <> excluded.tenant'
  await inOneTransaction(d1, bulkUpsert(adoptedLeases, rows, ['lease'], { unless }))
}

/** Removes the tenant's runs that ended first, before `before_ms`, at most EXPIRED_RUNS_AT_ONCE. Returns how many. */
export async function dropRuns(d1: D1Database, tenant: string, before_ms: number): Promise<number> {
  const expired = sql`(SELECT ${sql.raw('program')}, ${sql.raw('run')} FROM ${endedPrograms}
    WHERE ${endedPrograms.tenant} = ${tenant} AND ${endedPrograms.ended_at_ms} < ${before_ms}
    ORDER BY ${endedPrograms.ended_at_ms} LIMIT ${EXPIRED_RUNS_AT_ONCE}) AS expired`
  const drop = (table: typeof endedPrograms | typeof endedCalls | typeof endedLeases): Statement =>
    // CROSS JOIN: SQLite looks up the rows of each expired run by their index.
    statementOf(sql`DELETE FROM ${table} WHERE rowid IN (SELECT ${table}.rowid FROM ${expired} CROSS JOIN ${table}
      ON ${table.tenant} = ${tenant} AND ${table.program} = expired.program AND ${table.run} = expired.run)
      RETURNING 1 AS dropped`)
  const dropped = await inOneTransaction(d1, [drop(endedCalls), drop(endedLeases), drop(endedPrograms)])
  return dropped.length
}

export async function dropAdopted(d1: D1Database, tenant: string, before_ms: number): Promise<void> {
  await database(d1)
    .delete(adoptedLeases)
    .where(and(eq(adoptedLeases.tenant, tenant), sql`${adoptedLeases.at_ms} < ${before_ms}`))
}

/** Whether the tenant has any ended program. */
export async function hasRuns(d1: D1Database, tenant: string): Promise<boolean> {
  const { run } = endedPrograms
  return (
    (await database(d1).select({ run }).from(endedPrograms).where(eq(endedPrograms.tenant, tenant)).limit(1).get()) !==
    undefined
  )
}
