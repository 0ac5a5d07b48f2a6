/** core's entries → what the API shows: integer microseconds become seconds, milliseconds become ISO times. */
import type { ProgramListed } from '../actors/contracts.ts'
import { BUDGET_FIELDS, type BudgetField, type BudgetState } from '../core/budget/budget.ts'
import { orderingServiceUs, type ServiceReading } from '../core/call/service.ts'
import {
  type CallEntry,
  type LeaseEntry,
  type ProgramSummary,
  TOOL_RETURN_MS_MAX,
} from '../core/program/process-table.ts'
import { toolUses } from '../core/tools/tool-uses.ts'
import {
  addSums,
  type HandlingDecision,
  measuredSums,
  NOTHING_MEASURED,
  type QueuePosition,
} from '../protocol/index.ts'
import { measuredJson, seconds, waitJson } from './measured-json.ts'
import type { Call, Program, ProgramListItem } from './program-schemas.ts'

const iso = (ms: number): string => new Date(ms).toISOString()
const secondsOrNull = (us: number | null): number | null => (us === null ? null : seconds(us))
const isoOrNull = (ms: number | null): string | null => (ms === null ? null : iso(ms))

/** A tool that has run too long is left out: it does not return. */
export function programJson(summary: ProgramSummary, now_ms: number = Date.now()): Program {
  return {
    ...summaryItem(summary),
    class: summary.class,
    metadata: summary.metadata,
    regions: summary.regions,
    budget: budgetJson(summary.budget),
    weight: summary.weight,
    end_reason: summary.end_reason,
    critical_path_s: seconds(summary.critical_path_us),
    ...measuredJson(summary),
    engines: summary.engines,
    threads: summary.threads.map((thread) => ({
      thread: thread.thread,
      call: thread.call,
      arrived_at: iso(thread.arrived_at_ms),
      wait_s: seconds(thread.wait_us),
      service_s: seconds(thread.service_us),
      engine: thread.engine,
    })),
    activity: summary.activity,
    tools: summary.tools
      .filter(({ since_ms }) => now_ms - since_ms < TOOL_RETURN_MS_MAX)
      .map(({ name, call, thread, since_ms, expected_us, handled }) => ({
        ...{ name, call, thread, since: iso(since_ms) },
        expected_s: secondsOrNull(expected_us),
        kv: kvJson(handled),
      })),
    last_call_completion: isoOrNull(summary.last_completion_ms),
  }
}

function budgetJson(budget: BudgetState | null): Program['budget'] {
  if (budget === null) return null
  const { limits, used, reserved } = budget
  const standing = ({ kind, unit }: (typeof BUDGET_FIELDS)[BudgetField]) => {
    const limit = limits[kind]
    return limit === null ? null : { limit: limit / unit, used: used[kind] / unit, reserved: reserved[kind] / unit }
  }
  return {
    calls: standing(BUDGET_FIELDS.calls),
    tokens: standing(BUDGET_FIELDS.tokens),
    service_s: standing(BUDGET_FIELDS.service_s),
    cost: standing(BUDGET_FIELDS.cost),
    deadline: isoOrNull(limits.ends_at_ms),
  }
}

export function summaryItem(summary: ProgramSummary): ProgramListItem {
  return {
    object: 'program',
    id: summary.program,
    run: summary.run,
    state: summary.state,
    app: summary.app,
    source: summary.source,
    started_at: iso(summary.started_at_ms),
    ended_at: isoOrNull(summary.ended_at_ms),
    last_call_arrival: isoOrNull(summary.last_arrival_ms),
    calls: summary.calls,
    open_calls: summary.open_calls,
    service_s: seconds(summary.service_us),
  }
}

export function listedItem(listed: ProgramListed): ProgramListItem {
  return {
    object: 'program',
    id: listed.program,
    run: listed.run,
    state: 'running',
    app: listed.app,
    source: listed.source,
    started_at: iso(listed.started_at_ms),
    ended_at: null,
    last_call_arrival: listed.calls === 0 ? null : iso(listed.last_arrival_ms),
    calls: listed.calls,
    open_calls: listed.open_calls,
    service_s: seconds(listed.service_us),
  }
}

/** `of_class`: its program's. `position`: where it is on its engine; null: not known. `reading`: which of the two readings of service orders calls on the call's model. */
export function callJson(
  call: CallEntry,
  of_class: string,
  reading: ServiceReading,
  position: QueuePosition | null = null,
): Call {
  const leases = call.leases.map((lease) => leaseJson(lease, reading))
  const sums = measuredSums(NOTHING_MEASURED)
  let service_us = 0
  for (const lease of call.leases) {
    addSums(sums, lease)
    service_us += orderingServiceUs(lease, reading, lease.speed_factor)
  }
  const outlook = call.leases.findLast(({ rank }) => rank !== undefined)
  return {
    object: 'program.call',
    id: call.call,
    class: of_class,
    rank: outlook?.rank ?? null,
    expected_remaining_tokens: outlook?.expected_remaining_tokens ?? null,
    position: position === null ? null : positionJson(position),
    thread: call.thread,
    parents: call.parents,
    source: call.source,
    overruled: call.overruled,
    model: call.model,
    state: call.state,
    outcome: call.outcome,
    finish_reason: call.finish_reason,
    error_code: call.error_code,
    warnings: warningsJson(call.warnings),
    opened_at: iso(call.opened_at_ms),
    ended_at: isoOrNull(call.ended_at_ms),
    ...toolsJson(call),
    service_s: seconds(service_us),
    ...measuredJson(sums),
    ...waitJson(call.leases),
    leases,
  }
}

/** The one that says why its program waits: that of the call that has waited longest, otherwise of one that has a seat. */
export function firstToWait(positions: readonly QueuePosition[]): QueuePosition | null {
  const waiting = positions.filter(({ waits }) => waits).sort((a, b) => b.waited_us - a.waited_us)
  return waiting[0] ?? positions[0] ?? null
}

export function positionJson({ waits, waited_us, before, order }: QueuePosition): NonNullable<Call['position']> {
  return { waits, waited_s: seconds(waited_us), before, order }
}

function kvJson(handled: HandlingDecision | null): Call['kv'] {
  if (handled === null) return null
  const { handling, reason, waste } = handled
  return { handling, reason, waste_byte_s: waste }
}

function toolsJson(call: CallEntry): Pick<Call, 'tools' | 'tool_s' | 'expected_tool_s' | 'kv'> {
  const { tools, duration_us } = toolUses(call)
  return {
    tools: tools.map((tool) => ({
      name: tool.name,
      returned: tool.returned,
      duration_s: secondsOrNull(tool.duration_us),
      answer_tokens: tool.answer_tokens,
    })),
    tool_s: secondsOrNull(duration_us),
    expected_tool_s: secondsOrNull(call.tools?.expected_us ?? null),
    kv: kvJson(call.tools?.handled ?? null),
  }
}

function warningsJson(warnings: CallEntry['warnings']): Call['warnings'] {
  if (warnings === null) return null
  return { ...warnings, ignored: [...warnings.ignored], not_applied: [...warnings.not_applied] }
}

function leaseJson(lease: LeaseEntry, reading: ServiceReading): Call['leases'][number] {
  return {
    id: lease.lease,
    agent: lease.agent,
    engine: lease.engine,
    epoch: lease.epoch,
    region: lease.region,
    reason: lease.reason,
    state: lease.state,
    outcome: lease.outcome,
    error_code: lease.error_code,
    opened_at: iso(lease.opened_at_ms),
    service_s: seconds(orderingServiceUs(lease, reading, lease.speed_factor)),
    ...measuredJson(lease),
    ...waitJson([lease]),
    first_token_s: lease.first_token_us === null ? null : seconds(lease.first_token_us),
    pauses: (lease.pauses ?? []).map(([from_us, to_us, moved]) => ({
      ...{ from_s: seconds(from_us), to_s: seconds(to_us), moved },
    })),
  }
}
