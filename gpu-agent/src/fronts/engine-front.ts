/**
 * The interface between the daemon and what serves tokens: the embedded engine in a child process, the emulated one in
 * this process, vLLM over HTTP. A front takes one dispatched call in an OpenAI dialect and gives back OpenAI chunks. Where its
 * server speaks another API itself (`describe().native_apis`), it takes calls of that too and gives back the server's own events.
 * It knows nothing of tickets' signatures, HTTP, records or the link.
 */
import type { CallForecast } from '../../../src/core/call/forecast.ts'
import type { LengthVerdict } from '../../../src/core/tools/length-learner.ts'
import {
  type ClassData,
  type EngineDescription,
  type EngineStatus,
  type FinishReason,
  type Generated,
  type Measurement,
  NativeApi,
  type Outcome,
  type QueuePosition,
  type Resume,
  type StreamError,
  type TicketClaims,
} from '../../../src/protocol/index.ts'
import type { ToolCounts } from '../../engine/memory/handling/handling-counts.ts'
import type { HoldCounts } from '../../engine/memory/program-hold.ts'
import type { LedgerRow } from '../../engine/types.ts'

/** `NativeApi`: for servers that speak it themselves. */
export type Dialect = 'chat' | 'completions' | 'embeddings' | NativeApi
/** Those whose answer is text, and whose chunks are OpenAI's. */
export type TextDialect = Extract<Dialect, 'chat' | 'completions'>

export function isNativeApi(dialect: Dialect): dialect is NativeApi {
  return (NativeApi.options as readonly string[]).includes(dialect)
}

/** An authorised call. `body` has binding fields, and hints that the front applies (openai/accepted-fields.ts). */
export interface DispatchedCall {
  claims: TicketClaims
  dialect: Dialect
  body: unknown
  /** What is expected of it. Left out: nothing is. */
  forecast?: CallForecast
  /** Its answer began on another engine. Left out: it begins here. */
  resume?: Resume
}

/** How a call ended. `last_chunks` (finish reason, usage) must reach the client only after the record is on disk. */
export interface CallEnd {
  outcome: Outcome
  finish_reason: FinishReason | null
  error: StreamError | null
  measurement: Measurement
  last_chunks: readonly object[]
}

/** Receives one call's life: `refused` alone, or `accepted`, any number of `chunk`, then `ended` once. */
export interface CallSink {
  refused(error: StreamError): void
  accepted(prompt_tokens: number): void
  /**
   * `tokens`: what was generated since the last chunk that told of any, so that another engine can go on from here. Left out or
   * none: it cannot be told.
   */
  chunk(chunk: object, tokens?: Generated): void
  ended(end: CallEnd): void
}

/** What a front of an engine in another process counts. */
export type FrontCount =
  /** A call ended without the engine's own record of it. */
  | 'record_missing'
  /** The engine's record came after its call had ended. */
  | 'record_late'
  /** The engine's record is of a call that this agent does not know. */
  | 'record_foreign'
  /** A message of the engine that could not be used. */
  | 'message_unknown'
  | 'message_malformed'
  | 'message_repeated'

/** What an engine's choice between swapping a preempted call's KV and computing it again goes by. */
export interface KvSwapCosts {
  /** Of a transfer of any size. */
  base_us: number
  save_us_per_token: number
  restore_us_per_token: number
  recompute_us_per_token: number
  /** All of them are the operator's or were measured: none is a usual machine's. */
  measured: boolean
}

/** What became of the contexts of programs whose tools run, since the engine started. */
export interface ContextCounts {
  holds: HoldCounts
  /** Under a policy that handles them. Left out: the engine does not tell. */
  tools?: ToolCounts
}

export interface EngineFrontEvents {
  /** Rows of a call always arrive before its `ended`. */
  ledger(rows: readonly LedgerRow[]): void
  /** Queue depth or state changed. */
  status(): void
  /** The engine died or was restarted: every open call has ended as failed; `describe()` has the new epoch. */
  epoch(): void
  /** For metrics. */
  counted?(what: FrontCount): void
  /** They changed. Engines that do not swap never tell. */
  swapCosts?(costs: KvSwapCosts): void
  /** They changed. An engine that starts anew counts from 0. */
  contexts?(counts: ContextCounts): void
  /** A classifier of output lengths was trained and judged. */
  lengths?(verdict: LengthVerdict): void
}

/** One run of a program. */
export type ProgramKey = Pick<TicketClaims, 'tenant' | 'program' | 'run'>

export interface EngineFront {
  /** Hints that it applies, as protocol/request-fields.ts names them. Left out: none. */
  readonly hints?: ReadonlySet<string>
  /** Calls that it is given at once, where that is learned. Left out: as described. */
  readonly seats?: number | null
  /** An online call takes the seat of an offline one at the next decision. Left out: it waits for it. */
  readonly preempts_offline?: boolean
  describe(): EngineDescription
  status(): Omit<EngineStatus, 'leases_seen'>
  serve(call: DispatchedCall, sink: CallSink): void
  /** Ends the call as `cancelled` within one step. Unknown leases are ignored. */
  cancel(lease: string, error: StreamError | null): void
  /** Takes no further calls; resolves when those under way have ended. */
  drain(): Promise<void>
  stop(): Promise<void>
  /** Where these calls are in the order. Those that are not open, or of which nothing is known, are left out. Absent: nothing is known. */
  positions?(leases: readonly string[]): Promise<readonly QueuePosition[]>
  /** The program goes on elsewhere or has ended: what is kept of its KV until it comes back is of no use. Absent: nothing is kept. */
  discard?(program: ProgramKey): void
  /** What is known about classes of programs has changed. Engines of this process read the agent's book instead. */
  classes?(classes: readonly ClassData[]): void
  /** The record of this lease is on disk: other copies of it may be dropped. */
  recorded?(lease: string): void
}
