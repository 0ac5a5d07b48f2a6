/**
 * What the agent and its engine's child say to each other over Node's IPC channel (JSON). Both ends are this code, forked
 * from one file, so messages are typed and not validated. The channel keeps order: rows of a call arrive before its end.
 */
import type { LengthVerdict } from '../../../../src/core/tools/length-learner.ts'
import type {
  ClassData,
  EngineDescription,
  EngineStatus,
  Generated,
  QueuePosition,
  StreamError,
} from '../../../../src/protocol/index.ts'
import type { LedgerRow } from '../../../engine/types.ts'
import type { CallEnd, ContextCounts, DispatchedCall, ProgramKey } from '../engine-front.ts'
import type { FrontOptions } from '../front-options.ts'

export type FrontStatus = Omit<EngineStatus, 'leases_seen'>

export type ParentMessage =
  | { type: 'start'; options: FrontOptions }
  /** What is known about them from here on; at most CLASSES_PER_MESSAGE_MAX. */
  | { type: 'classes'; classes: readonly ClassData[] }
  | { type: 'serve'; call: DispatchedCall }
  | { type: 'cancel'; lease: string; error: StreamError | null }
  /** It goes on elsewhere or has ended. */
  | { type: 'discard'; program: ProgramKey }
  | { type: 'positions'; number: number; leases: readonly string[] }
  | { type: 'drain' }
  | { type: 'stop' }

export type ChildEvent =
  | { type: 'ready'; description: EngineDescription; status: FrontStatus; hints: readonly string[] }
  /** The engine could not be started, or the child has a bug; it ends. */
  | { type: 'failed'; message: string }
  | { type: 'refused'; lease: string; error: StreamError }
  | { type: 'accepted'; lease: string; prompt_tokens: number }
  | { type: 'chunk'; lease: string; chunk: object; tokens?: Generated }
  | { type: 'ended'; lease: string; end: CallEnd }
  | { type: 'ledger'; rows: readonly LedgerRow[] }
  | { type: 'status'; status: FrontStatus }
  | { type: 'contexts'; counts: ContextCounts }
  | { type: 'lengths'; verdict: LengthVerdict }
  | { type: 'epoch'; description: EngineDescription; status: FrontStatus }
  /** Answers `positions`. */
  | { type: 'positions'; number: number; positions: readonly QueuePosition[] }
  | { type: 'drained' }

/** All events of one turn of the child's event loop. */
export interface ChildMessage {
  events: readonly ChildEvent[]
}

/** Some kilobytes each: a message must not hold up the calls behind it. */
export const CLASSES_PER_MESSAGE_MAX = 64
/** Events that the child holds for a parent that does not read. Beyond it the parent is as good as gone, and the child ends. */
export const EVENTS_UNSENT_MAX = 65_536
