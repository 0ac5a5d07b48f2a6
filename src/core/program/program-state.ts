/**
 * The vocabulary of the process table: what an entry holds, its inputs and answers, and the rows it is stored as. Types and
 * bounds only. The state machine is in program-entry.ts. Durations are integer microseconds, clocks are ms.
 */
import type {
  CallRecord,
  HandlingDecision,
  MeasuredSums,
  Outcome,
  Outlook,
  ProgramSource,
  StoredMeasurement,
  ToolResult,
  ToolTime,
} from '../../protocol/index.ts'
import type { Amounts, Budget, BudgetState } from '../budget/budget.ts'
import type { TokenPrices } from '../budget/call-cap.ts'
import type { BudgetRefusal, CallWants, Reservation } from '../budget/reservation.ts'
import type { LeaseCharge, RunSpendSums } from '../budget/run-spend.ts'
import type { FieldWarnings } from '../call/field-warnings.ts'
import type { ServiceReading } from '../call/service.ts'
import type { ConversationTurn } from '../conversation/conversation-turn.ts'
import type { LeaseReason, Pin } from '../pool/pool-types.ts'

/** Calls that one run admits. Records of agents beyond it still count: a record is never refused. */
export const CALLS_PER_RUN_MAX = 20_000
/** Calls of one program that may be open at a time. */
export const OPEN_CALLS_PER_PROGRAM_MAX = 512
/** Open leases that an admission names. Leases beyond it count as not charged yet. */
export const OPEN_LEASES_TOLD_MAX = 512
/** Parents that a call may name; the rest are ignored. */
export const PARENTS_MAX = 64
/** Leases that one call may be given, the replaced ones included. */
export const LEASES_PER_CALL_MAX = 8
/** Engines that a summary lists. */
export const ENGINES_LISTED_MAX = 16
/** Open leases that a summary lists. */
export const OPEN_LEASES_LISTED_MAX = 16
/** Pins of one program: one per model. The one unused longest goes first. */
export const PINS_PER_PROGRAM_MAX = 16
/** Calls from which on a run is stored with a checkpoint. A shorter one is loaded whole. */
export const CHECKPOINT_CALLS_MIN = 256
/** Threads that a checkpoint holds: those that were used last. */
export const CHECKPOINT_THREADS_MAX = 256
/** Calls that a checkpoint names since they go on from one that is open. */
export const CHECKPOINT_BEHIND_MAX = 64
/** Calls of one program behind which a tool may be running: those that ended last. For an earlier one no return is awaited. */
export const ACTING_CALLS_MAX = 64
/** Tools under way that a summary lists. */
export const TOOLS_LISTED_MAX = 16
/** A tool that has run for this long counts as one that does not return. */
export const TOOL_RETURN_MS_MAX = 60 * 60_000
/** Calls on one page. */
export const CALLS_PAGE_MAX = 200
/**
 * An open call without a lease for this long has lost its Worker, since leasing takes seconds. It is closed as failed,
 * `orphaned`.
 */
export const ORPHANED_CALL_MS = 120_000
/**
 * An agent is asked for an open lease without a record after this long, and again after as long. A ticket is no longer
 * valid by then, so a lease that the agent does not have open never reached it, or its record is on its way.
 */
export const LEASE_ASKED_MS = 120_000
/**
 * An open lease without a record for this long never reached its agent, and the agent does not answer, or it and that disk are gone. It is counted
 * as lost, so that its program can end. A record that comes later still counts.
 */
export const ORPHANED_LEASE_MS = 60 * 60_000
/**
 * For how long an isolate remembers to which regions an actor said that its program is held. Before that is over, the actor
 * opens no run that is held to others.
 */
export const HOLD_REMEMBERED_MS = 10_000
/** `error_code` of such a call and such a lease. */
export const ORPHANED = 'orphaned'

/** One assignment of a call to an engine. `settled` once its record was applied. */
export interface LeaseEntry extends StoredMeasurement {
  lease: string
  agent: string
  engine: string
  epoch: string
  region: string
  model: string
  /** Null when only its record is known: the message that opened it was lost with the actor's memory. */
  reason: LeaseReason | null
  speed_factor: number
  opened_at_ms: number
  state: 'open' | 'lost' | 'settled'
  outcome: Outcome | null
  error_code: string | null
}

/** Why a call may be where its program's pin is. Of a lease granted for another reason its Worker sends a note. */
export type ExpectedReason = Extract<LeaseReason, 'pinned' | 'least_used' | 'spilled'>

export interface CallEntry {
  call: string
  thread: string
  parents: string[]
  /** Why the call belongs to the program. Null: not known, since the message that opened it was lost. */
  source: ProgramSource | null
  /** Headers and fields of the call that named another program. */
  overruled: string[]
  model: string
  opened_at_ms: number
  ended_at_ms: number | null
  state: 'open' | 'ended'
  outcome: Outcome | null
  finish_reason: string | null
  error_code: string | null
  /** Fields of its body that had no effect. Known when the client has been answered. Null: none. */
  warnings: FieldWarnings | null
  /** What its answer asked for. Null: no record says. */
  tools: AskedTools | null
  /** What came back with the next call. Null: nothing has. */
  returned: ToolReturn | null
  leases: LeaseEntry[]
}

/** What an answer asked for, as its record has it. */
export interface AskedTools {
  /** In order, at most TOOLS_PER_CALL_MAX. Empty: it named none. */
  names: string[]
  /** How long it was expected to take until the next call. Null: not known. */
  expected_us: number | null
  /** What the engine decided for the program's KV meanwhile. Null: it decided nothing. */
  handled: HandlingDecision | null
}

/** The next call of the chain, which brought what tools had returned. */
export interface ToolReturn {
  at_ms: number
  /** In the order in which they were asked for. Empty: it names none. */
  results: ToolResult[]
  /** What the client measured. */
  times: ToolTime[]
}

/** A tool that is running: its program has no call open on the same chain. */
export interface ToolUnderWay {
  call: string
  thread: string
  /** Null: the answer names none, or its record has not come. */
  name: string | null
  since_ms: number
  expected_us: number | null
  handled: HandlingDecision | null
}

/** The six metrics of Autellix §4.2.1, and what an operator wants to see as well. */
export interface ProgramSummary extends MeasuredSums {
  tenant: string
  program: string
  run: string
  state: 'running' | 'ended'
  app: string | null
  class: string
  metadata: Record<string, string>
  /** Why its first call belongs to it. Null: it has no call, or that call's is not known. */
  source: ProgramSource | null
  /** Regions to which the program is held; null: any. */
  regions: string[] | null
  /** Null: it has none. */
  budget: BudgetState | null
  /** What it weighs among those of its tenant, without its class's weight. Null: not kept of an archived program. */
  weight: number | null
  started_at_ms: number
  ended_at_ms: number | null
  end_reason: EndReason | null
  /** Service time: summed over leases, scaled by each engine's speed factor, in the ordering reading (PLAS). */
  service_us: number
  /** Longest observed critical path (ATLAS), in the ordering reading. */
  critical_path_us: number
  /** Engines that hold or held a lease, most recent first, at most ENGINES_LISTED_MAX. */
  engines: { engine: string; region: string; model: string; epoch: string }[]
  pins: Pin[]
  /** Threads metadata: the active calls with their arrival, and wait and service of their settled leases. */
  threads: ThreadSummary[]
  /** Reasoning: it has an open call. Acting: it is between calls. Null: it has ended, or had no call yet. */
  activity: 'reasoning' | 'acting' | null
  /** What is running between its calls, the latest first, at most TOOLS_LISTED_MAX. */
  tools: ToolUnderWay[]
  /** What its engine's policy said of its latest call of which a record is here. Empty: nothing. */
  outlook: Outlook
  /** Of open calls, those that were leased first, at most OPEN_LEASES_LISTED_MAX. */
  open_leases: OpenLeaseRef[]
  last_arrival_ms: number | null
  last_completion_ms: number | null
  calls: number
  open_calls: number
}

/** What it takes to ask for an open lease, or to cancel it. */
export interface OpenLeaseRef {
  lease: string
  region: string
  model: string
  agent: string
  engine: string
}

export interface ThreadSummary {
  thread: string
  call: string
  arrived_at_ms: number
  wait_us: number
  service_us: number
  engine: string | null
}

export type EndReason = 'explicit' | 'stale'

/** Opens a call. */
export interface CallArrival {
  call: string
  /** Null: inferred (Autellix: a call that arrives while another of its program is open starts a thread). */
  thread: string | null
  /** `thread` is the session's main one: while it has an open call, this call starts a thread. */
  main_thread?: boolean
  /** Where the call stands in its conversation, of a call whose session names the program. Null or left out: not known. */
  turn?: ConversationTurn | null
  source?: ProgramSource
  overruled?: readonly string[]
  /** Ids of calls of the same program that this one depends on; unknown ones are ignored. Null: inferred from the thread. */
  parents: readonly string[] | null
  /** What tools returned, as the call's messages have it. Left out: nothing. */
  tool_results?: readonly ToolResult[]
  /** What the client measured of them. Left out: nothing. */
  tool_times?: readonly ToolTime[]
  model: string
  /** The ordering reading of the call's model; absent: `modelled`. The run's first call fixes it. */
  reading?: ServiceReading
  /** What it may use of a budget. Left out: nothing is known of it. */
  wants?: CallWants
  /** Neither its tenant nor its key has a budget, so its program tells the tenant of its charge. Left out: a budget waits for it. */
  gathers?: boolean
  /**
   * The lease that the call asks for. It is expected on the engine that its program is pinned to, until the Worker or the
   * record says otherwise. Left out or null: the Worker will tell of every lease.
   */
  lease?: string | null
  /** Fields of its body that have no effect, as far as they are known before its engine is. */
  warnings?: FieldWarnings | null
  now_ms: number
}

export type Admission =
  | {
      status: 'admitted'
      run: string
      thread: string
      /** The program's class as fixed by its first call. */
      class: string
      /** The program's place in the order of its tenant's programs: when its run opened (ms), then a tie of 32 bits. */
      sequence: readonly [number, number]
      /** Sums over settled leases, in the ordering reading. Only agents know what open leases cost so far. */
      settled_service_us: number
      critical_path_us: number
      program_wait_us: number
      program_output_tokens: number
      /** Calls of the run before this one. */
      position: number
      /** The tool behind the call that this one goes on from. Null: nothing names it, or this call begins a chain. */
      last_tool: string | null
      /** The reading of the sums, which the run's first call fixed. */
      reading: ServiceReading
      /** Leases without a record, at most OPEN_LEASES_TOLD_MAX. What agents report for other leases is in the sums already. */
      open_leases: string[]
      /** Where the program's KV cache for this model lives, if anywhere. */
      pin: Pin | null
      /** The call's lease, if it is expected at `pin`. Then only a lease elsewhere must be told. Null: every lease must. */
      expected_lease: string | null
      /** Regions to which the program is held; null: any. */
      regions: string[] | null
      /** What the call may use of its program's budget. Null: the program has none. */
      reserved: Reservation | null
      /** With this call's share reserved. */
      budget: BudgetState | null
      /** What the program weighs among those of its tenant, without its class's weight. */
      weight: number
    }
  | {
      status: 'refused'
      code: 'program_calls_exceeded' | 'program_open_calls_exceeded' | 'live_programs_exceeded' | BudgetRefusal['code']
      message: string
      /** Null: a retry cannot succeed. */
      retry_after_s: number | null
    }

/** A lease that a pool granted. `pin`: whether the program is pinned to the engine from here on. */
export interface LeaseGrant {
  run: string
  call: string
  lease: string
  agent: string
  engine: string
  epoch: string
  region: string
  model: string
  reason: LeaseReason
  speed_factor: number
  pin: boolean
  now_ms: number
}

/** A record whose lease was granted as it says (relay/lease-proof.ts). */
export interface ProvenRecord extends CallRecord {
  /** The engine's, as it was granted. Left out: an earlier version granted the lease, and the factor counts as 1. */
  speed_factor?: number
  /** Id of the API key that the call came with. Null or left out: not known. */
  key?: string | null
  /** Wall clock of the control plane. Left out: not known. */
  granted_at_ms?: number
  /** Left out: not known. */
  reason?: ExpectedReason
  /** Of its model when the lease was granted. Null: it had none. Left out: not known. */
  prices?: TokenPrices | null
}

/** The program itself, as stored. Sums are not stored but recomputed from the leases. */
export interface ProgramRow {
  tenant: string
  program: string
  run: string
  app: string | null
  class: string
  metadata: Record<string, string>
  source: ProgramSource | null
  regions: string[] | null
  /** Null: none. */
  budget: Budget | null
  /** What the run weighs among the tenant's programs. */
  weight: number
  reading: ServiceReading
  started_at_ms: number
  ended_at_ms: number | null
  end_reason: EndReason | null
  pins: Pin[]
  last_arrival_ms: number | null
  last_completion_ms: number | null
}

/** A call without its leases, and what repairs the critical path after a restart. */
export interface CallRow extends Omit<CallEntry, 'leases' | 'warnings'> {
  /** How many calls of the run were opened before it. */
  position: number
  /** The program's critical path when the call was admitted. */
  inherited_us: number
  /** True if the parents were declared or follow from the thread; false if they are unknown. */
  parents_known: boolean
  /** The Worker's note on how it answered the client. Null until then. */
  answered: Answered | null
  /** Told when the call was admitted. Left out: none. */
  warnings?: FieldWarnings | undefined
  /** Its share of the program's budget. Null: the program has none. */
  reserved: Reservation | null
  /** Its program tells the tenant what it was charged (core/budget/run-spend.ts). Left out: its records are metered one by one. */
  gathers?: true | undefined
  /** What the call itself brought, and of which call's tools. Null: it goes on from none. */
  brings: ({ of: string } & Omit<ToolReturn, 'at_ms'>) | null
}

/** Calls of a run: those that were opened first, or those that were opened last. */
export type CallOrder = 'asc' | 'desc'

/** A Worker's note on a call that is over. */
export interface CallEnded extends Answered {
  run: string
  call: string
  /** It was never leased. Left out: it was. */
  is_unleased?: true | undefined
  now_ms: number
}

/** How the Worker answered a call's client. */
export interface Answered {
  outcome: Outcome
  error_code: string | null
  /** Left out: none. */
  warnings?: FieldWarnings | undefined
}

export interface LeaseRow extends LeaseEntry {
  call: string
  /** How many leases of the call were opened before it. */
  position: number
  /** finish_reason of its record. */
  finish_reason: string | null
  /** Nobody has said where it is. It is taken to be at its program's pin. */
  expected?: true | undefined
  /** Of a settled lease whose program tells the tenant of its charge. */
  charged?: LeaseCharge | undefined
}

/** Everything that `ProgramEntry.restore` needs, rows in any order. */
export interface ProgramRows {
  program: ProgramRow
  calls: readonly CallRow[]
  leases: readonly LeaseRow[]
}

/**
 * What a run needs to go on without its history: the calls that are over and have no open lease. It is stored with the rows
 * that it is of.
 */
export interface Checkpoint {
  /** Calls of the run. */
  calls: number
  totals: MeasuredSums & { service_us: number }
  /** What the history has used of the budget. Left out: there is none. */
  spent?: Amounts | undefined
  /** What all calls were charged, of those whose charges the program tells. Left out: none is. */
  gathered?: RunSpendSums | undefined
  critical_path_us: number
  threads: ThreadTails
  /** In order of use. */
  engines: ProgramSummary['engines']
  /** The calls that are not history. `start_us`: where the call begins on the critical path. `followed`: another call of its thread, or one that joins it, has come. */
  live: { position: number; start_us: number; leases: string[]; followed?: boolean | undefined }[]
}

export interface ThreadTails {
  /** In order of use, the latest last. */
  tails: { thread: string; last_call: string; last_ended: string | null }[]
  /** Whether there are threads beside these. */
  more: boolean
  last_ended: string | null
  /** The next inferred thread's number. */
  number: number
}

/** Rows that changed since the last take; upsert each by its id. */
export interface DirtyRows {
  /** Only when more changed than the times of the last arrival and completion, which follow from the calls. */
  program: ProgramRow | null
  /** Belongs to `program`. Left out: the run is loaded whole. */
  checkpoint?: Checkpoint
  calls: CallRow[]
  /** All leases of those calls. */
  leases: LeaseRow[]
}
