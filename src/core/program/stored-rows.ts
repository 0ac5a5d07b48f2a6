/**
 * Rows of the process table: how a lease begins, what a record changes in it, and the forms in which rows leave. All rows
 * that leave are copies, since callers keep them across an await.
 */

import { type CallRecord, NOTHING_MEASURED, storedMeasurement } from '../../protocol/index.ts'
import { chargeOf } from '../budget/charge.ts'
import type { LeaseCharge } from '../budget/run-spend.ts'
import { agentOf } from '../pool/engine-id.ts'
import type { Pin } from '../pool/pool-types.ts'
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
    reason: record.reason ?? null,
    speed_factor,
    position,
    opened_at_ms: Math.max(0, record.ended_at_ms - Math.ceil(record.duration_us / 1000)),
  }
}

/** A lease that was asked for, where its call's program is pinned to. */
export function expectedLease(call: string, lease: string, pin: Pin, position: number, now_ms: number): LeaseRow {
  const { engine, epoch, region, model } = pin
  return {
    ...UNMEASURED,
    ...{ call, lease, agent: agentOf(engine), engine, epoch, region, model },
    reason: null,
    speed_factor: 1,
    position,
    opened_at_ms: now_ms,
    expected: true,
  }
}

/** The lease is where its grant says. */
export function placeLease(lease: LeaseRow, { agent, engine, epoch, region, reason, ...grant }: LeaseGrant): void {
  const { speed_factor, now_ms } = grant
  Object.assign(lease, { agent, engine, epoch, region, reason, speed_factor, opened_at_ms: now_ms })
  delete lease.expected
}

/** The lease is where its record says, whose proof has the terms of the grant. */
function placeByRecord(lease: LeaseRow, record: ProvenRecord): void {
  const { agent, engine, epoch, region, reason = null, speed_factor = 1, granted_at_ms } = record
  Object.assign(lease, { agent, engine, epoch, region, reason, speed_factor })
  lease.opened_at_ms = granted_at_ms ?? lease.opened_at_ms
  delete lease.expected
}

/** Copies the measured part of a record onto its lease. */
export function applyRecord(lease: LeaseRow, record: ProvenRecord): void {
  if (lease.expected) placeByRecord(lease, record)
  const { outcome, error_code, finish_reason } = record
  Object.assign(lease, {
    state: 'settled',
    outcome,
    error_code,
    finish_reason,
    ...storedMeasurement(record),
  } satisfies Partial<LeaseRow>)
}

/** A tenant remembers for a week what it was told (actors/counted-leases.ts). A record that comes later is metered alone. */
const GATHERED_WITHIN_MS = 6 * 24 * 60 * 60_000

/** What the lease of such a record is charged. Undefined: not by its program. */
export function gatheredCharge(record: ProvenRecord, now_ms: number): LeaseCharge | undefined {
  const { key = null, granted_at_ms, prices } = record
  if (prices === undefined || granted_at_ms === undefined) return undefined
  if (Math.abs(now_ms - granted_at_ms) > GATHERED_WITHIN_MS) return undefined
  return { key, granted_at_ms, cost_nanos: chargeOf(record, prices).cost_nanos }
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
    gathers: _g,
    brings: _b,
    warnings,
    ...entry
  } = state
  const copies = { parents: [...entry.parents], overruled: [...entry.overruled], leases: leases.map(leaseEntry) }
  return { ...entry, ...copies, warnings: answered?.warnings ?? warnings ?? null }
}

function leaseEntry(row: LeaseRow): LeaseEntry {
  const { call: _c, position: _p, finish_reason: _f, expected: _e, charged: _h, ...entry } = row
  return entry
}

export function copied(regions: readonly string[] | null | undefined): string[] | null {
  return regions == null ? null : [...regions]
}
