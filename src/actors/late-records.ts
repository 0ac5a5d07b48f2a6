/**
 * Records that belong to no run in the actor's memory. D1 decides between two cases:
 * - The archive has the lease or the run. The run is restored from its rows, the record applied, and the rows upserted.
 * - No run is stored: its actor died before its first flush, and no client ended it. The record is added to the run that
 *   followed it, or opens it again.
 *
 * An applied record is found again by its lease, so repeats change nothing in either case.
 */
import { ProgramEntry, type ProgramOpening } from '../core/program/program-entry.ts'
import type { ProvenRecord } from '../core/program/program-state.ts'
import { runStartMs } from '../platform/run-id.ts'
import { archivedLeases, archivedRun, archivedRuns, archiveRun } from '../store/archive.ts'

export interface SortedRecords {
  /** By the archived run that has them or takes them. `run` of each record is that run. */
  archived: Map<string, ProvenRecord[]>
  forgotten: ProvenRecord[]
}

/** `records` are of one program. Throws if D1 does not answer; then nothing is acknowledged. */
export async function sortLateRecords(d1: D1Database, records: readonly ProvenRecord[]): Promise<SortedRecords> {
  const sorted: SortedRecords = { archived: new Map(), forgotten: [] }
  const [first] = records
  if (first === undefined) return sorted
  const { tenant, program } = first
  const [leases, runs] = await Promise.all([
    archivedLeases(
      d1,
      tenant,
      program,
      records.map((record) => record.lease),
    ),
    archivedRuns(d1, tenant, program, [...new Set(records.map((record) => record.run))]),
  ])
  for (const record of records) {
    const run = leases.get(record.lease) ?? (runs.has(record.run) ? record.run : null)
    if (run === null) sorted.forgotten.push(record)
    else sorted.archived.set(run, [...(sorted.archived.get(run) ?? []), { ...record, run }])
  }
  return sorted
}

/**
 * Applies records to one archived run. Core recomputes the sums from all of its leases. Returns the leases that were given
 * to another agent; their records were not applied.
 */
export async function settleArchived(
  d1: D1Database,
  run: string,
  records: readonly ProvenRecord[],
  now_ms: number,
): Promise<string[]> {
  const [first] = records
  if (first === undefined) return []
  const rows = await archivedRun(d1, { tenant: first.tenant, program: first.program, run })
  if (rows === null) throw new Error(`archived leases of run ${run} without its program`)
  const entry = ProgramEntry.restore(rows)
  const settlements = records.map((record) => entry.settle(record, now_ms))
  if (settlements.includes('applied')) await archiveRun(d1, entry.rows(), entry.summary())
  return records.filter((_, at) => settlements[at] === 'foreign').map(({ lease }) => lease)
}

/** The run that a forgotten record opens again. Everything known of it beyond its calls is lost. */
export function openingOfLostRun(
  record: ProvenRecord,
  regions: readonly string[] | null,
  now_ms: number,
): ProgramOpening {
  const { tenant, program, run, class: programClass } = record
  return {
    ...{ tenant, program, run, class: programClass, app: null, metadata: null, regions, reading: 'modelled' },
    now_ms: runStartMs(record.run, now_ms),
  }
}
