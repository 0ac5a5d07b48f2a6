/** Stored rows ⇄ core's rows and summaries of an ended program. JSON columns are checked when read. */
import { z } from 'zod'
import type { BudgetState } from '../core/budget/budget.ts'
import type { CallRow, LeaseRow, ProgramRow, ProgramSummary } from '../core/program/program-state.ts'
import { Id, measuredSums, outlookOf, Pause, queueWaitOf } from '../protocol/index.ts'
import type { endedCalls, endedLeases } from './archive-schema.ts'
import type { StoredProgram } from './ended-run.ts'
import {
  AnsweredJson,
  AskedToolsJson,
  BringsJson,
  BudgetStateJson,
  EngineJson,
  LeaseChargeJson,
  LeaseReasonJson,
  MetadataJson,
  OverruledJson,
  PinJson,
  RegionsJson,
  ToolReturnJson,
} from './program-row-schemas.ts'
import { RunPart } from './segments.ts'

type StoredCall = typeof endedCalls.$inferSelect
type StoredLease = typeof endedLeases.$inferSelect

/** Which run of which program the rows belong to. */
export interface RunKey {
  tenant: string
  program: string
  run: string
}

/** Throws if the program has not ended: a defect of the caller. */
export function storeProgram(
  row: ProgramRow,
  summary: ProgramSummary,
  part: RunPart | null,
  version: number,
): StoredProgram {
  const { weight: _, ...kept } = row
  const { ended_at_ms, end_reason } = kept
  if (ended_at_ms === null || end_reason === null) throw new Error(`run ${row.run} is archived before its end`)
  return {
    ...kept,
    ended_at_ms,
    end_reason,
    metadata: JSON.stringify(row.metadata),
    pins: JSON.stringify(row.pins),
    regions: row.regions === null ? null : JSON.stringify(row.regions),
    budget: jsonOrNull(summary.budget),
    engines: JSON.stringify(summary.engines),
    service_us: summary.service_us,
    critical_path_us: summary.critical_path_us,
    calls: summary.calls,
    ...measuredSums(summary),
    part: part === null ? null : JSON.stringify(part),
    version,
  }
}

/** Where R2 has the run's calls. Null: it has none of them. */
export function partOf({ part }: Pick<StoredProgram, 'part'>): RunPart | null {
  return part === null ? null : RunPart.parse(JSON.parse(part))
}

export function summaryOf(stored: StoredProgram): ProgramSummary {
  const { reading: _, part: __, version: ___, ...rest } = stored
  return {
    ...rest,
    state: 'ended',
    metadata: MetadataJson.parse(JSON.parse(stored.metadata)),
    pins: z.array(PinJson).parse(JSON.parse(stored.pins)),
    regions: regionsOf(stored),
    budget: budgetOf(stored),
    weight: null,
    engines: z.array(EngineJson).parse(JSON.parse(stored.engines)),
    threads: [],
    activity: null,
    tools: [],
    outlook: {},
    open_leases: [],
    open_calls: 0,
  }
}

export function programOf(stored: StoredProgram): ProgramRow {
  return {
    tenant: stored.tenant,
    program: stored.program,
    run: stored.run,
    app: stored.app,
    class: stored.class,
    metadata: MetadataJson.parse(JSON.parse(stored.metadata)),
    source: stored.source,
    reading: stored.reading,
    started_at_ms: stored.started_at_ms,
    ended_at_ms: stored.ended_at_ms,
    end_reason: stored.end_reason,
    pins: z.array(PinJson).parse(JSON.parse(stored.pins)),
    regions: regionsOf(stored),
    budget: budgetOf(stored)?.limits ?? null,
    weight: 1,
    last_arrival_ms: stored.last_arrival_ms,
    last_completion_ms: stored.last_completion_ms,
  }
}

function regionsOf({ regions }: StoredProgram): string[] | null {
  return regions === null ? null : RegionsJson.parse(JSON.parse(regions))
}

function budgetOf({ budget }: StoredProgram): BudgetState | null {
  return budget === null ? null : BudgetStateJson.parse(JSON.parse(budget))
}

export function storeCall(key: RunKey, row: CallRow): StoredCall {
  const { parents, answered, reserved: _, gathers = null, overruled, tools, returned, brings, ...rest } = row
  return {
    ...key,
    ...rest,
    parents: JSON.stringify(parents),
    answered: answered === null ? null : JSON.stringify(answered),
    overruled: overruled.length === 0 ? null : JSON.stringify(overruled),
    tools: jsonOrNull(tools),
    returned: jsonOrNull(returned),
    brings: jsonOrNull(brings),
    gathers,
  }
}

export function callOf(stored: StoredCall): CallRow {
  const { tenant: _, program: __, run: ___, parents, answered, overruled, tools, returned, brings, ...more } = stored
  const { gathers, ...rest } = more
  return {
    ...rest,
    reserved: null,
    ...(gathers ? { gathers } : {}),
    parents: z.array(Id).parse(JSON.parse(parents)),
    answered: answered === null ? null : AnsweredJson.parse(JSON.parse(answered)),
    overruled: overruled === null ? [] : OverruledJson.parse(JSON.parse(overruled)),
    tools: tools === null ? null : AskedToolsJson.parse(JSON.parse(tools)),
    returned: returned === null ? null : ToolReturnJson.parse(JSON.parse(returned)),
    brings: brings === null ? null : BringsJson.parse(JSON.parse(brings)),
  }
}

function jsonOrNull(value: object | null): string | null {
  return value === null ? null : JSON.stringify(value)
}

export function storeLease(key: RunKey, row: LeaseRow): StoredLease {
  const { rank = null, expected_remaining_tokens = null, queue_wait_us = null, pauses = null, ...more } = row
  const { charged = null, ...rest } = more
  const json = { pauses: jsonOrNull(pauses), charged: jsonOrNull(charged) }
  return { ...key, ...rest, rank, expected_remaining_tokens, queue_wait_us, ...json }
}

export function leaseOf(stored: StoredLease): LeaseRow {
  const { tenant: _, program: __, run: ___, reason, ...more } = stored
  const { rank, expected_remaining_tokens, queue_wait_us, pauses, charged, ...rest } = more
  const known = {
    ...outlookOf({ rank, expected_remaining_tokens }),
    ...queueWaitOf({ queue_wait_us }),
    ...(pauses === null ? {} : { pauses: z.array(Pause).parse(JSON.parse(pauses)) }),
    ...(charged === null ? {} : { charged: LeaseChargeJson.parse(JSON.parse(charged)) }),
  }
  return { ...rest, ...known, reason: LeaseReasonJson.nullable().parse(reason) }
}
