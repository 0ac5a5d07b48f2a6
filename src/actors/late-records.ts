/**
 * Records that belong to no run in the actor's memory, or whose run was lost. The archive decides between three cases:
 * - The lease counts under a run that is here.
 * - The archive has the lease or the run. The run is restored from its rows, the record is applied, and what changed is
 *   laid over them: one record writes three rows, of a run of any length.
 * - No run is stored: its actor died before its first flush, and no client ended it. The record is added to the run that
 *   followed it, or opens it again.
 *
 * An applied record is found again by its lease, so repeats change nothing in any case.
 */
import type { RunSpendTold } from '../core/budget/run-spend.ts'
import { ProgramEntry, type ProgramOpening } from '../core/program/program-entry.ts'
import type { ProgramRows, ProvenRecord } from '../core/program/program-state.ts'
import { logFailure } from '../platform/log.ts'
import { runStartMs } from '../platform/run-id.ts'
import { type ArchiveStore, archivedRun, archivedRuns, type Databases, knownLeases } from '../store/archive.ts'
import { changeArchived } from '../store/archive-changes.ts'
import { inTime } from '../store/database.ts'
import { deadRuns } from '../store/dead-letters.ts'
import { isUnreadable } from './broken-runs.ts'

/** Wait for a whole run from the archive. */
const READ_MS = 10_000

export interface SortedRecords {
  /** `run` of each record is the run that has its lease. */
  here: ProvenRecord[]
  /** By the archived run that has them or takes them. `run` of each record is that run. */
  archived: Map<string, ProvenRecord[]>
  forgotten: ProvenRecord[]
  /** Of runs that were set aside because they do not load. */
  dead: ProvenRecord[]
}

/** `records` are of one program, `databases` all that may have it. Throws if one does not answer; then nothing is acknowledged. */
export async function sortLateRecords(
  { d1, databases }: { d1: D1Database; databases: Databases },
  records: readonly ProvenRecord[],
  isHere: (run: string) => boolean,
): Promise<SortedRecords> {
  const sorted: SortedRecords = { here: [], archived: new Map(), forgotten: [], dead: [] }
  const [first] = records
  if (first === undefined) return sorted
  const { tenant, program } = first
  const leases = await knownLeases(
    databases,
    tenant,
    program,
    records.map((record) => record.lease),
  )
  const placed = records.map((record) => ({ ...record, run: leases.get(record.lease) ?? record.run }))
  const named = [...new Set(placed.map(({ run }) => run))]
  const [runs, dead] = await Promise.all([
    archivedRuns(databases, tenant, program, named),
    deadRuns(d1, tenant, program, named),
  ])
  for (const [at, record] of placed.entries()) {
    const { run } = record
    if (isHere(run)) sorted.here.push(record)
    else if (runs.has(run)) sorted.archived.set(run, [...(sorted.archived.get(run) ?? []), record])
    else if (dead.has(run)) sorted.dead.push(record)
    else sorted.forgotten.push(records[at] ?? record)
  }
  return sorted
}

interface SettledArchived {
  status: 'settled'
  foreign: string[]
  changed: ProgramRows | null
  gathered: string[]
  spend: RunSpendTold | null
}

const NOTHING_SETTLED: SettledArchived = {
  ...{ status: 'settled', foreign: [], changed: null, gathered: [], spend: null },
}

/**
 * Applies records to one archived run. Core recomputes the sums from all of its leases. `foreign`: leases that were given to
 * another agent; their records were not applied. `changed`: the run's rows, if any record was applied. `unreadable`: the
 * archived rows are not as they were written. A record of a run that is past its retention is taken and dropped. `gathered`: leases
 * whose charges the program tells, which `spend` has.
 */
export async function settleArchived(
  store: ArchiveStore,
  run: string,
  records: readonly ProvenRecord[],
  now_ms: number,
): Promise<SettledArchived | { status: 'unreadable' }> {
  const [first] = records
  if (first === undefined) return NOTHING_SETTLED
  const key = { tenant: first.tenant, program: first.program, run }
  const read = await inTime(archivedRun(store, key), READ_MS).catch((error: unknown) => {
    if (isUnreadable(error)) return { status: 'unreadable' as const }
    throw error
  })
  if (read.status === 'unreadable') return read
  if (read.status === 'absent') throw new Error(`run ${run} left the archive while its records were applied`)
  if (read.status === 'expired') {
    logFailure('records_past_retention', `${records.length} records`, { tenant: first.tenant, run })
    return NOTHING_SETTLED
  }
  const entry = ProgramEntry.restore(read.rows)
  const settlements = records.map((record) => entry.settle(record, now_ms))
  let changed: ProgramRows | null = null
  if (settlements.includes('applied')) {
    changed = entry.rows()
    const now = { rows: changed, summary: entry.summary() }
    const written = await changeArchived(read.d1, { key, version: read.version }, entry.takeDirty(), now)
    if (!written) throw new Error(`run ${run} was changed while its records were applied`)
  }
  const foreign = records.filter((_, at) => settlements[at] === 'foreign').map(({ lease }) => lease)
  const gathered = records.map(({ lease }) => lease).filter((lease) => !foreign.includes(lease) && entry.gathers(lease))
  return { status: 'settled', foreign, changed, gathered, spend: entry.spend }
}

/** The run that a forgotten record opens again. Everything known of it beyond its calls is lost. */
export function openingOfLostRun(
  record: ProvenRecord,
  { regions, budget }: Pick<ProgramOpening, 'regions' | 'budget'>,
  now_ms: number,
): ProgramOpening {
  const { tenant, program, run, class: programClass } = record
  return {
    ...{ tenant, program, run, class: programClass, app: null, metadata: null, reading: 'modelled' },
    ...{ regions: regions ?? null, budget: budget ?? null },
    now_ms: runStartMs(record.run, now_ms),
  }
}
