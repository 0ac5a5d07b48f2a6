/**
 * Rows of the process table: how a lease begins, what a record changes in it, and the forms in which rows leave. All rows
 * that leave are copies, since callers keep them across an await.
 */
import { type CallRecord, NOTHING_MEASURED, storedMeasurement } from '../../protocol/index.ts'
import type { AskedTools, CallEntry, CallRow, LeaseEntry, LeaseGrant, LeaseRow, ProvenRecord } from './program-state.ts'

/** A call in memory: its row and its leases in the order in which they were opened. */
export interface CallState extends CallRow {
  leases: LeaseRow[]
  /** Another call goes on from it. */
  followed: boolean
}

const UNMEASURED = {
  state: 'open' as const,
  outcome: null,
  error_code: null,
  finish_reason: null,
  ...storedMeasurement(NOTHING_MEASURED),
}

export function leaseFromGrant(grant: LeaseGrant, position: number): LeaseRow {
  const { call, lease, agent, engine, epoch, region, model, reason, speed_factor } = grant
  return {
    ...UNMEASURED,
    ...{ call, lease, agent, engine, epoch, region, model, reason, speed_factor },
    position,
    opened_at_ms: grant.now_ms,
  }
}

/**
 * A lease of which only the record is known. The speed factor is the one that its proof carried. Its opening time is
 * computed from the agent's clock and is for people to read.
 */
export function leaseFromRecord(record: ProvenRecord, position: number): LeaseRow {
  const { call, lease, agent, engine, epoch, region, model, speed_factor = 1 } = record
  return {
    ...UNMEASURED,
    ...{ call, lease, agent, engine, epoch, region, model },
    reason: null,
    speed_factor,
    position,
    opened_at_ms: Math.max(0, record.ended_at_ms - Math.ceil(record.duration_us / 1000)),
  }
}

/** Copies the measured part of a record onto its lease. */
export function applyRecord(lease: LeaseRow, record: CallRecord): void {
  const { outcome, error_code, finish_reason } = record
  Object.assign(lease, {
    state: 'settled',
    outcome,
    error_code,
    finish_reason,
    ...storedMeasurement(record),
  } satisfies Partial<LeaseRow>)
}

/** Null: the call did not complete, or its agent does not tell. */
export function askedTools({ outcome, tools, expected_tool_us, handled }: CallRecord): AskedTools | null {
  if (outcome !== 'completed' || tools === undefined) return null
  return { names: [...tools], expected_us: expected_tool_us ?? null, handled: handled ?? null }
}

export function callRow(state: CallState): CallRow {
  const { leases: _, followed: __, ...row } = state
  return row
}

export function callEntry(state: CallState): CallEntry {
  const {
    leases,
    followed: _f,
    position: _p,
    inherited_us: _i,
    parents_known: _k,
    answered,
    reserved: _r,
    brings: _b,
    ...entry
  } = state
  const copies = { parents: [...entry.parents], overruled: [...entry.overruled], leases: leases.map(leaseEntry) }
  return { ...entry, ...copies, warnings: answered?.warnings ?? null }
}

function leaseEntry(row: LeaseRow): LeaseEntry {
  const { call: _c, position: _p, finish_reason: _f, ...entry } = row
  return entry
}

export function copied(regions: readonly string[] | null | undefined): string[] | null {
  return regions == null ? null : [...regions]
}
