/**
 * Admit: the call gets its place in its program's process table, and the keys by which engines order it. Serving beats
 * ordering. When the ProgramActor is slow, overloaded or broken, the call goes on without a pin at the tenant's median
 * level, under a run id of its own. The actor later adds the record of such a run to the run that it has. Only a call of a
 * program with a budget, or with limits on regions, waits for its actor, or is refused.
 */
import type { AdmitReply } from '../actors/contracts.ts'
import { type BudgetState, budgetOf, NOTHING } from '../core/budget/budget.ts'
import { ProgramSpend } from '../core/budget/program-spend.ts'
import { heldBy, type Reservation } from '../core/budget/reservation.ts'
import { fieldWarnings } from '../core/call/field-warnings.ts'
import type { ServiceReading } from '../core/call/service.ts'
import type { Pin } from '../core/pool/pool-types.ts'
import { budgetRefusal } from '../core/program/run-limits.ts'
import { inShard, tenantShard } from '../core/program/tenant-shards.ts'
import { hash32 } from '../core/wire/hash.ts'
import { type ApiErrorFields, RETRY_AFTER_S } from '../platform/api-error.ts'
import { within } from '../platform/deadline.ts'
import { newRunId } from '../platform/run-id.ts'
import { isStorageFailure, STORAGE_UNAVAILABLE } from '../platform/storage-failure.ts'
import type { HeldTo } from '../store/residency.ts'
import type { RelayDeps } from './deps.ts'
import type { IdentifiedCall } from './identify.ts'
import { askActor, askTwice, type Reply } from './rpc.ts'

export interface Admission {
  run: string
  thread: string
  class: string
  /** Of the program. Of the call itself if it has no program, or if the program did not answer in time. */
  sequence: readonly [number, number]
  settled_service_us: number
  critical_path_us: number
  program_wait_us: number
  program_output_tokens: number
  /** Calls of the run before this one. Null: not known. */
  position: number | null
  /** The tool behind the call that this one goes on from. Null: none is known. */
  last_tool: string | null
  reading: ServiceReading
  /** Leases whose records are not in the sums. */
  open_leases: readonly string[]
  pin: Pin | null
  /** Regions to which the program is held. Null: any. */
  regions: readonly string[] | null
  /** What the call may use of a budget. Null: nothing limits it. */
  reserved: Reservation | null
  /** Its program's budget, with this call's share reserved. Null: there is none. */
  budget: BudgetState | null
  /** What its program weighs among those of the tenant, without its class's weight. */
  weight: number
  /** The call's lease, if its ProgramActor expects it at the pin. Null: it must be told of every lease. */
  expected_lease: string | null
  /** The run in which the ProgramActor has this call, once it is known. Null: no actor has it. */
  known_run: Promise<string | null>
}

export type Admitted =
  | { status: 'admitted'; admission: Admission }
  | { status: 'refused'; http_status: 400 | 402 | 429 | 503; error: ApiErrorFields; retry_after_s: number | null }

/** As OpenAI names errors of an account without means. */
const BUDGET_ERROR_TYPE = 'insufficient_quota'

const RESIDENCY_UNKNOWN: ApiErrorFields = {
  message: 'The regions that may serve this program are unknown at the moment. Send the call again.',
  code: 'residency_unknown',
}

const BUDGET_UNKNOWN: ApiErrorFields = {
  message: 'What is left of the budget of this program is unknown at the moment. Send the call again.',
  code: 'budget_unknown',
}

/** `lease`: the id of the lease that the call asks for first. */
export async function admit(call: IdentifiedCall, lease: string, deps: RelayDeps): Promise<Admitted> {
  const { program } = call
  if (program === null) return alone(call, deps.now())
  const asked_at_ms = deps.now()
  const ended = deps.ended.of(call.tenant, program, asked_at_ms)
  const request = { ...admitRequest(call, program, asked_at_ms), lease, ...(ended.length === 0 ? {} : { ended }) }
  const asking = askTwice(() => deps.program(call.tenant, program, call.home).admit(request))
  deps.waitUntil(
    asking.then((reply) => {
      if (reply.status === 'answered') deps.ended.told(call.tenant, program, ended)
      if (reply.status !== 'answered' || reply.value.status !== 'admitted') return
      const { regions, budget } = reply.value
      deps.holds.remember(call.tenant, program, { regions, has_budget: budget !== null }, asked_at_ms)
    }),
  )
  const waited = await within(asking, deps.times.admit_timeout_ms)
  if (waited.status === 'in_time' && waited.value.status === 'answered') return admitted(waited.value.value)
  if (waited.status === 'in_time' && waited.value.status === 'failed') deps.report('admit_failed', waited.value.error)
  return unplaced(call, program, asking, deps)
}

function admitRequest(call: IdentifiedCall, program: string, now_ms: number) {
  const {
    tenant,
    id,
    thread,
    main_thread,
    parents,
    turn,
    source,
    overruled,
    tool_results,
    tool_times,
    model,
    app,
    metadata,
    reading,
    live_programs_max,
    tenant_shards,
    budget,
    wants,
  } = call
  const limits = {
    regions: call.wanted_regions,
    live_programs_max,
    tenant_shards,
    ...(budget === null ? {} : { budget }),
  }
  return {
    tenant,
    program,
    call: id,
    thread,
    main_thread,
    parents,
    turn,
    source,
    overruled,
    tool_results,
    tool_times,
    model,
    app,
    class: call.class,
    metadata,
    reading,
    now_ms,
    wants,
    warnings: fieldWarnings(call.warnings, null),
    gathers: call.limits === null,
    ...limits,
  }
}

function admitted(reply: AdmitReply): Admitted {
  if (reply.status === 'refused') {
    return refusedAdmission(reply)
  }
  const { status: _, ...admission } = reply
  return { status: 'admitted', admission: { ...admission, known_run: Promise.resolve(reply.run) } }
}

function refusedAdmission({ code, message, retry_after_s }: Extract<AdmitReply, { status: 'refused' }>): Admitted {
  if (code === 'model_without_price') {
    return { status: 'refused', http_status: 400, error: { message, code, param: 'model' }, retry_after_s }
  }
  if (retry_after_s === null) {
    return { status: 'refused', http_status: 402, error: { message, code, type: BUDGET_ERROR_TYPE }, retry_after_s }
  }
  return { status: 'refused', http_status: 429, error: { message, code, type: 'rate_limit_error' }, retry_after_s }
}

function runOf(reply: AdmitReply): string | null {
  return reply.status === 'admitted' ? reply.run : null
}

/** A call that names no program is a program of its own and leaves no state behind. A budget is its own. */
function alone(call: IdentifiedCall, now_ms: number): Admitted {
  const budget = budgetOf(call.budget ?? {}, now_ms)
  const reserving = budget === null ? null : new ProgramSpend(budget).reserve(call.wants, now_ms)
  if (reserving?.status === 'refused') return refusedAdmission(budgetRefusal(reserving))
  const reserved = reserving?.reservation ?? null
  const limits = budget === null ? null : { limits: budget, used: { ...NOTHING }, reserved: heldBy(reserved) }
  // What a budget waits for is metered where the budget is.
  const shard = tenantShard(call.id, call.tenant_shards)
  const run = inShard(call.id, shard)
  const admission = { ...unordered(call, now_ms), run, known_run: Promise.resolve(null) }
  return { status: 'admitted', admission: { ...admission, reserved, budget: limits } }
}

/**
 * Ordering may be guessed, residency and budgets may not. So the call waits until it is known to which regions the program is
 * held. A call that names regions itself also waits if nothing is known that holds the program. It may be the call that opens
 * the program. If it were lost, later calls would leave its regions. Where the program has a budget, or the call states one,
 * only the actor may let it go on.
 */
async function unplaced(
  call: IdentifiedCall,
  program: string,
  asking: ReturnType<typeof askTwice<AdmitReply>>,
  deps: RelayDeps,
): Promise<Admitted> {
  const [asked, held, placed] = await Promise.all([
    askActor(() => deps.tenant(call.tenant).medianService(), deps.times.median_timeout_ms),
    heldTo(call.tenant, program, deps),
    within(asking, call.wanted_regions === null && call.budget === null ? 0 : deps.times.residency_timeout_ms),
  ])
  if (asked.status === 'failed') deps.report('median_failed', asked.error)
  if (held.status === 'failed') deps.report('residency_failed', held.error)
  if (placed.status === 'in_time' && placed.value.status === 'answered') return admitted(placed.value.value)
  const is_unknown = held.status !== 'answered' || (held.value.regions === null && call.wanted_regions !== null)
  const is_budgeted = call.budget !== null || (held.status === 'answered' && held.value.has_budget)
  if (is_budgeted && !is_unknown) {
    const late = await within(asking, deps.times.residency_timeout_ms)
    if (late.status === 'in_time' && late.value.status === 'answered') return admitted(late.value.value)
  }
  if (is_unknown || is_budgeted) {
    const reason = is_unknown ? RESIDENCY_UNKNOWN : BUDGET_UNKNOWN
    giveBack(call, program, asking, reason, deps)
    return unavailable((await hasFailedStorage(asking)) ? STORAGE_UNAVAILABLE : reason)
  }
  const settled_service_us = asked.status === 'answered' ? asked.value.settled_service_us : 0
  const admission: Admission = {
    ...unordered(call, deps.now()),
    run: newRunId(deps.now(), tenantShard(program, call.tenant_shards)),
    settled_service_us,
    critical_path_us: settled_service_us,
    regions: held.value.regions,
    known_run: asking.then((reply) => (reply.status === 'answered' ? runOf(reply.value) : null)),
  }
  return { status: 'admitted', admission }
}

/** An admission that comes after its call was refused must not hold a share of the budget. */
function giveBack(
  call: IdentifiedCall,
  program: string,
  asking: ReturnType<typeof askTwice<AdmitReply>>,
  { code = null }: ApiErrorFields,
  deps: RelayDeps,
): void {
  const given = asking.then(async (reply) => {
    if (reply.status !== 'answered' || reply.value.status !== 'admitted') return
    const { run } = reply.value
    const ended = { run, call: call.id, outcome: 'failed' as const, error_code: code, is_unleased: true as const }
    await deps.program(call.tenant, program).callEnded({ ...ended, now_ms: deps.now() })
  })
  deps.waitUntil(given.catch((error: unknown) => deps.report('note_failed', error)))
}

/** D1 is asked only if no actor has told this isolate lately. */
async function heldTo(tenant: string, program: string, deps: RelayDeps): Promise<Reply<HeldTo>> {
  const remembered = deps.holds.recall(tenant, program, deps.now())
  if (remembered !== null) return { status: 'answered', value: remembered }
  return askActor(() => deps.residency(tenant, program), deps.times.residency_timeout_ms)
}

function unavailable(error: ApiErrorFields): Admitted {
  return { status: 'refused', http_status: 503, error, retry_after_s: RETRY_AFTER_S }
}

/** Whether the actor has failed because its storage takes nothing, which tells more than that its regions are unknown. */
async function hasFailedStorage(asking: ReturnType<typeof askTwice<AdmitReply>>): Promise<boolean> {
  const asked = await within(asking, 0)
  return asked.status === 'in_time' && asked.value.status === 'failed' && isStorageFailure(asked.value.error)
}

function unordered(call: IdentifiedCall, now_ms: number): Omit<Admission, 'run' | 'known_run'> {
  return {
    thread: call.thread ?? call.id,
    class: call.class,
    sequence: [Math.floor(now_ms), hash32(call.id)],
    settled_service_us: 0,
    critical_path_us: 0,
    program_wait_us: 0,
    program_output_tokens: 0,
    position: null,
    last_tool: null,
    reading: call.reading,
    open_leases: [],
    pin: null,
    expected_lease: null,
    regions: null,
    reserved: null,
    budget: null,
    weight: 1,
  }
}
