/**
 * What the relay and the API may ask of the actors, as types. The actors implement these as Durable Object RPC methods on
 * their stubs. The relay depends on nothing else of the actors. All values are structured-cloneable.
 */

import type { Amounts, Budget, BudgetStated } from '../core/budget/budget.ts'
import type { BudgetAnswer, BudgetQuestion } from '../core/budget/budget-ledger.ts'
import type { TokenPrices } from '../core/budget/call-cap.ts'
import type { Charge } from '../core/budget/charge.ts'
import type { RunSpendTold } from '../core/budget/run-spend.ts'
import type { KeyVerdict } from '../core/call/idempotency-table.ts'
import type { EndedProgram } from '../core/classes/ended-program.ts'
import type { SketchBin } from '../core/classes/log-sketch.ts'
import type {
  ConversationAnswer,
  ConversationArrival,
  ConversationPlace,
} from '../core/conversation/conversation-table.ts'
import type { ShardMember, ShardsView } from '../core/pool/pool-shards.ts'
import type { CreditedLease } from '../core/pool/pool-table.ts'
import type { EngineChoice, LeaseReason, PoolSnapshot, ProgramRequest } from '../core/pool/pool-types.ts'
import type { LeaseGranted } from '../core/pool/recent-leases.ts'
import type { OpenCharge } from '../core/pool/reported-charges.ts'
import type {
  Admission,
  CallArrival,
  CallEnded,
  CallEntry,
  CallOrder,
  LeaseGrant,
  ProgramSummary,
  ProvenRecord,
} from '../core/program/process-table.ts'
import { FIRST_TENANT_SHARD } from '../core/program/tenant-shards.ts'
import type {
  ClassSketchData,
  Handle,
  MeasuredSums,
  ProgramSource,
  QueuePosition,
  Replay,
  ReplayQuestion,
} from '../protocol/index.ts'
import type { EndedRun } from '../store/ended-run.ts'
import type { SqlRows, Statement } from '../store/statements.ts'

/** Opens a call in the process table. Sent once per call, before any lease. */
export interface AdmitRequest extends CallArrival {
  tenant: string
  program: string
  app: string | null
  class: string
  metadata: Readonly<Record<string, string>> | null
  /** Regions to which a run that this call opens is held. Null or left out: any. */
  regions?: readonly string[] | null
  /** The tenant's limit, checked when the call opens a run. Null or left out: none. */
  live_programs_max?: number | null
  /** Of the tenant, for a run that this call opens (core/program/tenant-shards.ts). Left out: one. */
  tenant_shards?: number
  /** Of a run that this call opens. Left out: none. */
  budget?: BudgetStated
  /** Calls of the program whose clients have their answers, of which the actor may not know yet. Left out: none. */
  ended?: readonly CallEnded[]
}

export type AdmitReply = Admission

/** Tells which engine serves the call. Not awaited by the call path. */
export type LeaseOpened = LeaseGrant

/** RPC methods of ProgramActor; one object per tenant and program, named by `programActorName`. */
export interface ProgramRpc {
  admit(request: AdmitRequest): Promise<AdmitReply>
  leaseOpened(lease: LeaseOpened): Promise<void>
  /** The lease ended before the agent accepted it, or the agent is gone. A record that comes later overrides this. */
  leaseLost(lost: { run: string; call: string; lease: string; error_code: string; now_ms: number }): Promise<void>
  /** The Worker has answered the client. Closes the call if no record has. A record that comes later overrides this. */
  callEnded(ended: CallEnded): Promise<void>
  /**
   * Applies each record exactly once. `confirmed`: leases whose records storage has (duplicates included). `gathered`: those of
   * them whose charges the program tells its tenant. The others' records are to be metered.
   */
  settle(records: readonly ProvenRecord[]): Promise<{ confirmed: string[]; gathered: string[] }>
  /**
   * Starts a program explicitly. `exists`: one of this id is running. `full`: the tenant may have no further program.
   * `store_unavailable`: its regions could not be stored where every relay finds them.
   */
  start(request: {
    tenant: string
    program: string
    app: string | null
    metadata: Readonly<Record<string, string>> | null
    regions?: readonly string[] | null
    budget?: Budget | null
    live_programs_max?: number | null
    tenant_shards?: number
    now_ms: number
  }): Promise<
    | { status: 'started'; summary: ProgramSummary }
    | { status: 'exists'; summary: ProgramSummary }
    | { status: 'full' }
    | { status: 'store_unavailable' }
  >
  /** The running program, or one that ended and is not in the archive yet. Null: the archive may have it. */
  describe(now_ms: number): Promise<ProgramSummary | null>
  calls(page: {
    after: string | null
    limit: number
    order?: CallOrder
  }): Promise<{ calls: CallEntry[]; next: string | null } | null>
  /** Sets what the running program weighs within its tenant, from its next call on. Null: none is running. */
  weigh(weight: number, now_ms: number): Promise<ProgramSummary | null>
  /** Ends the running program. Returns its open leases, so that the caller asks their engines to cancel them. */
  end(now_ms: number): Promise<{
    status: 'ended' | 'absent'
    summary: ProgramSummary | null
    open_leases: { lease: string; region: string; model: string; agent: string; engine: string }[]
  }>
}

export interface LeaseRequest extends ProgramRequest {
  call: string
  /** Of the call's program. */
  class: string
  /** Another region was too full or had no engine. Recorded with the reason of the choice. */
  spilled: boolean
  /** Version of the snapshot that the isolate holds, so that it is sent only when it changed. Null: none. */
  snapshot_version: number | null
  /** As `snapshot_version`, of the pool's shards. Left out: none. */
  shards_version?: number
}

/** A lease that an isolate has granted itself (core/pool/lease-credits.ts). */
export interface LeaseByCredit extends CreditedLease {
  call: string
  /** Of the call's program. */
  class: string
  at_ms: number
}

/** A pool as an isolate remembers it, with the ids of the keys that sign its agents' tickets. */
export interface RememberedPool extends PoolSnapshot {
  ticket_kids: Readonly<Record<string, string>>
}

export type LeaseReply = EngineChoice & {
  /** Id of the key that signs tickets for the chosen agent. Null if none was chosen. */
  ticket_kid: string | null
  snapshot: RememberedPool | null
  /** What agents last reported for the program's open leases in this pool, on all engines. Empty unless leased. */
  charges: OpenCharge[]
  /** How many more calls the isolate may send to the engine without a request. Left out: none. */
  credits?: number
  /** With `none`: the pool is still reading what agents reported while it did not run. Ask again. */
  is_reading?: boolean
  /** The pool's shards, from the first one, where the isolate does not know them. With `none`: ask again, in the pin's. */
  shards?: ShardsView
}

/**
 * RPC methods of PoolActor; one object per region, model and shard, named by `poolActorName`. The first shard speaks for the pool:
 * what concerns agents of other shards it passes on, and what it tells is of all of them. `lease`, `leasedByCredit`, `release` and `noticeClass`
 * are for the shard alone.
 */
export interface PoolRpc {
  lease(request: LeaseRequest): Promise<LeaseReply>
  /** What an isolate has granted itself. Returns how many more calls it may send to each of these engines, by name. */
  leasedByCredit(leases: readonly LeaseByCredit[]): Promise<Record<string, number>>
  /** A lease was of a call of this class, though it was asked for as one of another. */
  noticeClass(called: { tenant: string; class: string }): Promise<void>
  /** Takes back a lease that never reached its engine. */
  release(lease: string): Promise<void>
  /** Asks the agents that hold these leases to cancel them. */
  cancel(leases: readonly { lease: string; agent: string }[]): Promise<void>
  /** Tells the agent to discard what the engine keeps of a program's KV: the program goes on elsewhere or has ended. */
  discardContext(left: Omit<Handle, 'type' | 'handling'> & { agent: string }): Promise<void>
  /** Which of these leases their agents do not have open. A lease whose agent did not answer is not among them. */
  askForLost(leases: readonly { lease: string; agent: string }[]): Promise<string[]>
  /** What the calls of a program would have waited on this engine under first come, first served, as its agent estimates it. */
  replay(asked: Omit<ReplayQuestion, 'type' | 'id'> & { agent: string }): Promise<Replay>
  /** Where these leases are in their engines' orders. Those whose agent or engine did not tell are left out. */
  positions(leases: readonly { lease: string; agent: string }[]): Promise<QueuePosition[]>
  describe(now_ms: number): Promise<PoolSnapshot>
  /** The latest first. */
  recentLeases(limit: number): Promise<LeaseGranted[]>
  /** The operator's order: the pool leases nothing more on the agent, and notifies its link. */
  drainAgent(request: { agent: string; draining: boolean }): Promise<void>
  /** Closes the agent's links except those under `except_kid`, and accepts none under another key for a while. */
  refuseAgent(request: { agent: string; except_kid: string | null }): Promise<void>
  /** For metrics. */
  figures(): Promise<PoolFigures>
  /** The shard where the agent opens its link. Null: the pool is full. */
  placeAgent(agent: string): Promise<number | null>
  /** For the pool's other shards: an agent said hello there. Returns the shard where it belongs. Null: there is room in none. */
  shardJoined(member: ShardMember): Promise<number | null>
  /** For the pool's other shards: these are all agents of one. */
  shardHas(told: { shard: number; agents: readonly string[] }): Promise<void>
  /** For the first shard: the agent belongs to another one. Its link is closed, and it opens one there. */
  moveAgent(agent: string): Promise<void>
}

export interface PoolFigures {
  snapshot: PoolSnapshot
  /** Granted since the object was last started, by reason. */
  leases: Readonly<Partial<Record<LeaseReason, number>>>
  /** Requests that got no lease since then. */
  refused: number
}

export interface ProgramListed {
  program: string
  run: string
  app: string | null
  /** Why its first call belongs to it; null: not known. */
  source: ProgramSource | null
  started_at_ms: number
  last_arrival_ms: number
  open_calls: number
  calls: number
  service_us: number
  class: string
  /** Of its settled leases. */
  output_tokens: number
}

export interface UsageListed extends MeasuredSums {
  /** UTC, `YYYY-MM-DD`. */
  day: string
  /** Null: not known. */
  key: string | null
  model: string
  calls: number
  /** Assignments of calls to engines: a call whose engine was replaced has several. */
  leases: number
}

/** A record with the prices of its model when its lease was granted. Null: the model had none. */
export interface PricedRecord extends ProvenRecord {
  prices: TokenPrices | null
}

export interface SpendAsked {
  per: 'day' | 'month'
  by: 'total' | 'key' | 'class' | 'model' | 'program'
  /** Only of this key, class, model or program. Null: all. */
  name: string | null
  /** UTC days, both included. */
  from: string
  to: string
  cursor: string | null
  limit: number
}

export interface SpendListed extends Charge {
  /** UTC: a day, or a month. */
  period: string
  /** Null: not known, or all. */
  name: string | null
}

/** What calls were charged in the day and the month that it is. `key` null: all of them. */
export interface ChargedNow {
  /** UTC. */
  day: string
  of: { key: string | null; in_day: Amounts; in_month: Amounts }[]
  /** Of the leases that were asked about: those whose charge is in these sums. */
  counted: string[]
}

/** A lease of a call under a budget that has ended, and whose charge has not come. `shard` null: it is not known where it is counted. */
export interface AwaitedLease {
  call: string
  lease: string
  shard: number | null
}

/**
 * RPC methods of TenantActor; one object per tenant and shard, named by `tenantActorName`. ProgramActors notify the shard that their
 * run's id names when they flush, never on the call path. The first shard speaks for the tenant: what it lists is of all shards, and
 * the methods of limits and classes are for it alone.
 */
export interface TenantRpc {
  /** `spend`: what storage has of the run's charges. Null or left out: none that the program tells. */
  programFlushed(program: ProgramListed, spend?: RunSpendTold | null): Promise<void>
  /**
   * The run leaves the index, and what it was charged is stored. `ended_class`: the class of which it tells; null or left out: none. Returns the class for
   * which it counts (core/classes/tenant-classes.ts).
   */
  programEnded(
    program: string,
    run: string,
    ended_class?: string | null,
    spend?: RunSpendTold | null,
  ): Promise<string | null>
  /** What a run was charged that had ended before. Stored when it resolves. */
  charged(spend: RunSpendTold): Promise<void>
  /** Running programs, newest first. `cursor` is opaque. Null: the cursor is invalid. */
  running(page: {
    cursor: string | null
    limit: number
  }): Promise<{ programs: ProgramListed[]; next: string | null } | null>
  /** Output so far of running programs of this class that have open calls. */
  goingOn(name: string): Promise<SketchBin[]>
  /** Takes up to `wanted` calls out of the tenant's minute (core/call-rate.ts). Waits for no durable write. */
  takeCalls(request: {
    calls_per_minute_max: number
    wanted: number
  }): Promise<{ granted: number; retry_after_s: number }>
  /** A class of which an ended run tells that is in another shard. Returns the class for which it counts, as `programEnded` does. */
  classEnded(ended_class: string): Promise<string>
  /** There is a shard of this number. Stored when it resolves. */
  hasShard(shard: number): Promise<void>
  /** What the shard's calls were charged, and which of these leases were. */
  chargedNow(awaited: readonly Pick<AwaitedLease, 'call' | 'lease'>[]): Promise<ChargedNow>
  /** Whether the shard may have this program beside its others that a client named. A program that was given room keeps it for a while. */
  roomForProgram(request: { program: string; live_programs_max: number }): Promise<boolean>
  /** Programs in the index of running ones. */
  runningCount(): Promise<number>
  /** Counts spend, and the usage of calls that belong to no program, each lease once. Resolves when storage has it. */
  meter(records: readonly PricedRecord[]): Promise<void>
  /** What an isolate's calls may use of the budgets of the tenant and of their key. Null: a later question was heard. */
  shareBudget(asked: BudgetQuestion): Promise<BudgetAnswer | null>
  /** What calls were charged, the latest period first. `cursor` is opaque. Null: the cursor is invalid. */
  spend(asked: SpendAsked): Promise<{ spend: SpendListed[]; next: string | null } | null>
  /** That usage by day, key and model, the newest day first. `cursor` is opaque. Null: the cursor is invalid. */
  usage(page: { cursor: string | null; limit: number }): Promise<{ usage: UsageListed[]; next: string | null } | null>
  /** How many shards the tenant has, and has had. The first one knows. */
  shardCount(): Promise<number>
  /** Median attained service over running programs: the key of a call that could not be admitted in time. */
  medianService(): Promise<{ settled_service_us: number }>
}

/** RPC methods of ArchiveActor; one object per tenant and shard, named as TenantActors are (`tenantActorName`). */
export interface ArchiveRpc {
  /**
   * Keeps an ended run: its calls in a segment of R2, then its row. Returns once both are stored, and rejects if either is refused. An older
   * copy of the run changes nothing.
   */
  keep(ended: EndedRun): Promise<void>
  /** Statements on the rows of the tenant's ended programs, all or none (store/archive.ts). */
  run(statements: readonly Statement[]): Promise<SqlRows[]>
}

/** RPC methods of ClassActor; one object per tenant and class, named by `classActorName`. */
export interface ClassRpc {
  /** Counts what an ended run had, once however often it is told. */
  ended(end: { run: string; program: EndedProgram }): Promise<void>
  /**
   * What is known, programs that go on included. `revision` names it. Null: nothing is, or nothing else than at
   * `known_revision`.
   */
  sketch(known_revision: string | null): Promise<{ sketch: ClassSketchData; revision: string } | null>
  /** Forgets all that is known. */
  forget(): Promise<void>
}

/** RPC methods of ConversationActor; one object per tenant and shard of its conversations, named by `conversationActorName`. */
export interface ConversationRpc {
  /** Finds the program of a call that names none, and remembers the call. A repeated call gets the same answer. */
  place(arrival: ConversationArrival): Promise<ConversationPlace>
  /** What the call's client was answered. Not awaited by the call path. */
  answered(told: { call: string; answer: ConversationAnswer }): Promise<void>
}

/** RPC methods of IdempotencyActor; one object per tenant and shard of its keys, named by `idempotencyActorName`. */
export interface IdempotencyRpc {
  /** What a claim is told of a key that stands for a call. Null: it stands for none. */
  known(claim: KeyClaim): Promise<KeyVerdict | null>
  claim(claim: KeyClaim): Promise<KeyVerdict>
  /** The call is open. Not awaited by the call path. */
  heard(claim: KeyClaim): Promise<void>
  /** How the call ended. Not awaited by the call path. */
  ended(ended: { claim: KeyClaim; end: KeyEnd }): Promise<void>
}

/** `fingerprint`: of the body, to detect another body under the same key. */
export interface KeyClaim {
  key: string
  fingerprint: string
  call: string
}

/** `failed`: the client got nothing, or only a part. `answer` null: the answer is not kept. */
export type KeyEnd = { status: 'answered'; answer: string | null } | { status: 'failed' }

export function classActorName(tenant: string, name: string): string {
  return JSON.stringify([tenant, name])
}

export function conversationActorName(tenant: string, shard: number): string {
  return JSON.stringify([tenant, shard])
}

export function idempotencyActorName(tenant: string, shard: number): string {
  return JSON.stringify([tenant, shard])
}

/** The first shard has the tenant's name. No id begins with a space, so no tenant has the name of another's shard. */
export function tenantActorName(tenant: string, shard: number): string {
  return shard === FIRST_TENANT_SHARD ? tenant : ` ${JSON.stringify([tenant, shard])}`
}

export function programActorName(tenant: string, program: string): string {
  return JSON.stringify([tenant, program])
}

export function poolActorName(region: string, model: string, shard: number): string {
  return JSON.stringify([region, model, shard])
}
