/**
 * Ended programs. One row per run has its sums, and R2 has the calls and leases (segments.ts). Rows of calls and leases lie
 * over those of R2: records that came after archiving, and runs that were archived before there was R2.
 *
 * Rows lie in the SQLite of the tenant's ArchiveActors, one for each shard of the tenant, and those that were archived before that in D1
 * until their retention is over. So several databases are asked, and the first that has a run has it.
 *
 * Keeps true:
 * - A row of a run is never replaced by an older copy of it: `version` only grows.
 * - Sums and the rows that they are of change in one transaction.
 * - Reads are scoped by tenant: another tenant's program is absent.
 */
import { and, asc, desc, eq, gt, gte, lt, or, type SQL, sql } from 'drizzle-orm'
import type { SQLiteColumn } from 'drizzle-orm/sqlite-core'
import { pageBounds } from '../core/program/page-bounds.ts'
import type {
  CallEntry,
  CallOrder,
  CallRow,
  LeaseRow,
  ProgramRows,
  ProgramSummary,
} from '../core/program/program-state.ts'
import type { Env } from '../env.ts'
import { callOf, leaseOf, partOf, programOf, type RunKey, summaryOf } from './archive-rows.ts'
import { adoptedLeases, endedCalls, endedLeases, endedPrograms } from './archive-schema.ts'
import { type Database, database } from './database.ts'
import type { StoredProgram } from './ended-run.ts'
import { type Chunk, type RunPart, readChunks } from './segments.ts'

export interface ArchiveStore extends Pick<Env, 'BUCKET'> {
  databases: Databases
}

export type Databases = readonly D1Database[]

/** Rows that one read of a run's calls and leases takes at a time. */
const READ_PAGE_ROWS = 2_000

/** The run of this program that ended last. */
export async function archivedProgram(
  databases: Databases,
  tenant: string,
  program: string,
): Promise<ProgramSummary | null> {
  const found = await ofEach(databases, (db) =>
    db
      .select()
      .from(endedPrograms)
      .where(and(eq(endedPrograms.tenant, tenant), eq(endedPrograms.program, program)))
      .orderBy(desc(endedPrograms.ended_at_ms), desc(endedPrograms.run))
      .limit(1),
  )
  const [last] = found.flat().sort((a, b) => b.ended_at_ms - a.ended_at_ms || compare(b.run, a.run))
  return last === undefined ? null : summaryOf(last)
}

export interface EndedPosition {
  ended_at_ms: number
  program: string
  run: string
}

/** Ended programs of a tenant, the latest first, after `position`. */
export async function archivedPrograms(
  databases: Databases,
  tenant: string,
  position: EndedPosition | null,
  limit: number,
): Promise<ProgramSummary[]> {
  const found = await ofEach(databases, (db) =>
    db
      .select()
      .from(endedPrograms)
      .where(and(eq(endedPrograms.tenant, tenant), position === null ? undefined : endedBefore(position)))
      .orderBy(desc(endedPrograms.ended_at_ms), asc(endedPrograms.program), asc(endedPrograms.run))
      .limit(limit),
  )
  return lastEnded(found, limit)
}

/** Runs of a tenant that began at `since_ms` or later and have ended, the latest first, after `position`. */
export async function archivedSince(
  databases: Databases,
  tenant: string,
  since_ms: number,
  position: EndedPosition | null,
  limit: number,
): Promise<ProgramSummary[]> {
  const { tenant: of, started_at_ms, ended_at_ms, program, run } = endedPrograms
  // A run that began then has ended after it: the index on the end bounds what is read.
  const began = and(gte(ended_at_ms, since_ms), gte(started_at_ms, since_ms))
  const found = await ofEach(databases, (db) =>
    db
      .select()
      .from(endedPrograms)
      .where(and(eq(of, tenant), began, position === null ? undefined : endedBefore(position)))
      .orderBy(desc(ended_at_ms), asc(program), asc(run))
      .limit(limit),
  )
  return lastEnded(found, limit)
}

/** What each of the databases answers. */
function ofEach<T>(databases: Databases, ask: (db: Database) => PromiseLike<T>): Promise<T[]> {
  return Promise.all(databases.map((one) => ask(database(one))))
}

/** One page of pages, each in this order. A run that two have is the first one's. */
function lastEnded(pages: readonly (readonly StoredProgram[])[], limit: number): ProgramSummary[] {
  const runs = new Map<string, StoredProgram>()
  for (const row of pages.flat()) {
    const key = JSON.stringify([row.program, row.run])
    if (!runs.has(key)) runs.set(key, row)
  }
  return [...runs.values()]
    .sort((a, b) => b.ended_at_ms - a.ended_at_ms || compare(a.program, b.program) || compare(a.run, b.run))
    .slice(0, limit)
    .map(summaryOf)
}

/** As SQLite orders ids, which are ASCII. */
function compare(a: string, b: string): number {
  if (a === b) return 0
  return a < b ? -1 : 1
}

interface Kept {
  row: StoredProgram
  /** That has it. */
  d1: D1Database
}

async function keptRun(databases: Databases, key: RunKey): Promise<Kept | null> {
  const rows = await ofEach(databases, (db) => db.select().from(endedPrograms).where(ofRun(endedPrograms, key)))
  for (const [at, [row]] of rows.entries()) {
    if (row !== undefined) return { row, d1: databases[at] as D1Database }
  }
  return null
}

function endedBefore({ ended_at_ms, program, run }: EndedPosition): SQL | undefined {
  const { ended_at_ms: end, program: id, run: runId } = endedPrograms
  return or(lt(end, ended_at_ms), and(eq(end, ended_at_ms), or(gt(id, program), and(eq(id, program), gt(runId, run)))))
}

/** `position` null: not known, since the page before came from the running program. */
export interface CallPosition {
  call: string
  position: number | null
}

export interface CallsPage {
  calls: CallEntry[]
  /** The call to go on after. */
  next: CallPosition | null
  /** Of the program. Empty where there is no call. */
  class: string
}

/** Calls of an archived run in order of arrival, or the other way, after the call `after`. Empty where R2 has them no longer. */
export async function archivedCalls(
  { databases, BUCKET }: ArchiveStore,
  key: RunKey,
  after: CallPosition | null,
  limit: number,
  order: CallOrder = 'asc',
): Promise<CallsPage> {
  const none: CallsPage = { calls: [], next: null, class: '' }
  const kept = await keptRun(databases, key)
  if (kept === null) return none
  const { row, d1 } = kept
  const part = partOf(row)
  const last = after === null ? null : (after.position ?? (await positionOf(d1, BUCKET, key, part, after.call)))
  if (after !== null && last === null) return none
  const { from, to, is_last } = pageBounds(order, last, limit, row.calls)
  const chunks = part === null ? [] : await chunksBetween(BUCKET, part, from, to)
  const over = await rowsBetween(d1, key, from, to)
  if (chunks === null) return none
  const { calls, leases } = overlaid([...chunks, over])
  const arrived = calls.filter(({ position }) => position >= from && position < to)
  const page = order === 'desc' ? arrived.toReversed() : arrived
  const byCall = Map.groupBy(leases, (lease) => lease.call)
  const end = page.at(-1)
  return {
    class: row.class,
    calls: page.map((call) => callEntry(call, byCall.get(call.call) ?? [])),
    next: end === undefined || is_last ? null : { call: end.call, position: end.position },
  }
}

function chunksBetween(bucket: R2Bucket, part: RunPart, from: number, to: number): Promise<Chunk[] | null> {
  const { calls_per_chunk } = part
  return readChunks(bucket, part, Math.floor(from / calls_per_chunk), Math.ceil(to / calls_per_chunk))
}

/** Null: the run has no such call. */
async function positionOf(
  d1: D1Database,
  bucket: R2Bucket,
  key: RunKey,
  part: RunPart | null,
  call: string,
): Promise<number | null> {
  const row = await database(d1)
    .select({ position: endedCalls.position })
    .from(endedCalls)
    .where(and(ofRun(endedCalls, key), eq(endedCalls.call, call)))
    .get()
  if (row !== undefined || part === null) return row?.position ?? null
  for (let chunk = 0; chunk < part.chunk_bytes.length; chunk += 1) {
    const [read] = (await readChunks(bucket, part, chunk, chunk + 1)) ?? []
    const found = read?.calls.find((one) => one.call === call)
    if (found !== undefined) return found.position
  }
  return null
}

function callEntry(row: CallRow, leases: readonly LeaseRow[]): CallEntry {
  const { position: _, inherited_us: __, parents_known: ___, answered, brings: _____b, gathers: _____g, ...call } = row
  const shown = leases
    .toSorted((a, b) => a.position - b.position)
    .map(({ call: ____, position: _____, finish_reason: ______, charged: _______, ...lease }) => lease)
  return { ...call, warnings: answered?.warnings ?? null, leases: shown }
}

/** One row per call and lease, the last one that lies there, calls in order of arrival. */
function overlaid(layers: readonly Chunk[]): Chunk {
  const calls = new Map<string, CallRow>()
  const leases = new Map<string, LeaseRow>()
  for (const layer of layers) {
    for (const call of layer.calls) calls.set(call.call, call)
    for (const lease of layer.leases) leases.set(lease.lease, lease)
  }
  return { calls: [...calls.values()].sort((a, b) => a.position - b.position), leases: [...leases.values()] }
}

/** Rows of calls at these positions, and of leases of the calls at these positions. */
async function rowsBetween(d1: D1Database, key: RunKey, from: number, to: number): Promise<Chunk> {
  const db = database(d1)
  const at = and(ofRun(endedCalls, key), sql`${endedCalls.position} >= ${from}`, lt(endedCalls.position, to))
  const ids = db.select({ call: endedCalls.call }).from(endedCalls).where(at)
  const [calls, leases] = await db.batch([
    db.select().from(endedCalls).where(at),
    db
      .select()
      .from(endedLeases)
      .where(and(ofRun(endedLeases, key), sql`${endedLeases.call} IN ${ids}`)),
  ])
  return { calls: calls.map(callOf), leases: leases.map(leaseOf) }
}

export type ArchivedRun =
  /** `d1` has it, and takes what changes. */
  | { status: 'found'; rows: ProgramRows; version: number; d1: D1Database }
  /** R2 has its calls no longer. */
  | { status: 'expired' }
  | { status: 'absent' }

/** A whole archived run, for a record that comes after archiving. */
export async function archivedRun({ databases, BUCKET }: ArchiveStore, key: RunKey): Promise<ArchivedRun> {
  const kept = await keptRun(databases, key)
  if (kept === null) return { status: 'absent' }
  const { row, d1 } = kept
  const part = partOf(row)
  const layers = part === null ? [] : await readChunks(BUCKET, part, 0, part.chunk_bytes.length)
  if (layers === null) return { status: 'expired' }
  for (let from = 0; from < row.calls; from += READ_PAGE_ROWS) {
    layers.push(await rowsBetween(d1, key, from, from + READ_PAGE_ROWS))
  }
  return { status: 'found', rows: { program: programOf(row), ...overlaid(layers) }, version: row.version, d1 }
}

/** Under which run the archive, or the actor that adopted them, holds these leases of this program. */
export async function knownLeases(
  databases: Databases,
  tenant: string,
  program: string,
  leases: readonly string[],
): Promise<Map<string, string>> {
  const found = await ofEach(databases, (db) => {
    const of = (table: typeof endedLeases | typeof adoptedLeases) =>
      db
        .select({ lease: table.lease, run: table.run })
        .from(table)
        .where(and(inJson(table.lease, leases), eq(table.tenant, tenant), eq(table.program, program)))
    return db.batch([of(adoptedLeases), of(endedLeases)])
  })
  const adopted = found.flatMap(([first]) => first)
  const archived = found.flatMap(([, second]) => second)
  return new Map([...adopted, ...archived].map(({ lease, run }) => [lease, run]))
}

/** Which of these runs of a program are in the archive. */
export async function archivedRuns(
  databases: Databases,
  tenant: string,
  program: string,
  runs: readonly string[],
): Promise<Set<string>> {
  const { tenant: t, program: p, run } = endedPrograms
  const found = await ofEach(databases, (db) =>
    db
      .select({ run })
      .from(endedPrograms)
      .where(and(eq(t, tenant), eq(p, program), inJson(run, runs))),
  )
  return new Set(found.flat().map((row) => row.run))
}

type RunTable = typeof endedPrograms | typeof endedCalls | typeof endedLeases

export function ofRun(table: RunTable, { tenant, program, run }: RunKey): SQL | undefined {
  return and(eq(table.tenant, tenant), eq(table.program, program), eq(table.run, run))
}

/** `column IN (…)` over any number of values: a statement binds at most 100 parameters. */
function inJson(column: SQLiteColumn, values: readonly string[]): SQL {
  return sql`${column} IN (SELECT value FROM json_each(${JSON.stringify(values)}))`
}
