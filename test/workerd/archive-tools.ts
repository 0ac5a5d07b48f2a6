/** What tests read of the archive, and what they do to it. */
import { env } from 'cloudflare:workers'
import { archiveDatabases, archiveStoreOfRun } from '../../src/actors/archive-store.ts'
import { archiveActor } from '../../src/actors/stubs.ts'
import type { ProgramRows, ProgramSummary } from '../../src/core/program/process-table.ts'
import { runShard } from '../../src/core/program/tenant-shards.ts'
import { archivedCalls, archivedProgram, archivedRun, type CallPosition } from '../../src/store/archive.ts'
import { endedRun, storeRuns } from '../../src/store/archive-changes.ts'
import type { RunKey } from '../../src/store/archive-rows.ts'
import { segmentKey } from '../../src/store/segments.ts'
import { databaseOver } from '../../src/store/sql-database.ts'
import { replaceBindings } from './actor-tools.ts'
import { programStub } from './fixtures.ts'

export async function lastEnded(tenant: string, program: string): Promise<ProgramSummary | null> {
  return archivedProgram(await archiveDatabases(env, tenant), tenant, program)
}

export function endedCallsOf(key: RunKey, after: CallPosition | null, limit: number) {
  return archivedCalls(archiveStoreOfRun(env, key.tenant, key.run), key, after, limit)
}

export function endedRowsOf(key: RunKey) {
  return archivedRun(archiveStoreOfRun(env, key.tenant, key.run), key)
}

/** The rows that a tenant's archive has itself. */
export function ownRows(tenant: string, shard = 0): D1Database {
  const actor = archiveActor(env, tenant, shard)
  return databaseOver((statements) => actor.run(statements))
}

export async function keepRun(rows: ProgramRows, summary: ProgramSummary): Promise<void> {
  await archiveActor(env, rows.program.tenant, runShard(rows.program.run)).keep(await endedRun(rows, summary))
}

/** As versions kept it whose rows were all in D1. */
export async function keepRunInD1(rows: ProgramRows, summary: ProgramSummary): Promise<void> {
  const { row, calls } = await endedRun(rows, summary)
  let part = null
  if (calls !== null) {
    const { body, ...lengths } = calls
    part = { segment: segmentKey(row.tenant, Date.now(), crypto.randomUUID()), offset: 0, ...lengths }
    await env.BUCKET.put(part.segment, body)
  }
  await env.DB.batch(storeRuns([{ row, part }]).map(({ sql, params }) => env.DB.prepare(sql).bind(...params)))
}

/** For this program, until its object is evicted. */
export async function breakArchive(program: string): Promise<void> {
  const down = async () => {
    throw new Error('the archive is down')
  }
  await replaceBindings(programStub(program), { ARCHIVE: { getByName: () => ({ keep: down, run: down }) } })
}
