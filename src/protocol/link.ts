/**
 * The link: one outbound WebSocket per pool, opened by the agent at GET /agents/v1/link?model=…&region=… with its token
 * as bearer. JSON text frames. The agent says `hello` first and the pool answers `welcome` or closes with a code below.
 */
import { z } from 'zod'
import { ClassData } from './classes.ts'
import { Count, Id, Microseconds } from './ids.ts'
import { POSITIONS_MAX, QueuePosition } from './queue-position.ts'
import { Replay } from './replay.ts'

export const PROTOCOL_VERSION_MIN = 2
export const PROTOCOL_VERSION = 2
/** A status goes out on change and at least this often. */
export const STATUS_INTERVAL_MS = 1000
/** An engine whose pool has heard nothing for this many intervals takes no further leases. */
export const STATUS_MISSED_MAX = 3
/** A changed load goes out, but not more often than this: messages to a pool are billed, and each costs it CPU. */
export const STATUS_LOAD_INTERVAL_MS = 250
/** A changed state of an engine goes out at once, but not more often than this. Control planes hold agents to it. */
export const STATUS_INTERVAL_MIN_MS = 50
export const ENGINES_PER_AGENT_MAX = 64
export const LEASES_SEEN_MAX = 4096
/** Open leases whose charges one status tells, over all its engines; those beyond count as not reported. */
export const CHARGES_PER_STATUS_MAX = 1024
/** Charges ride on a status that goes out anyway, and not more often than this. */
export const CHARGES_INTERVAL_MS = 500
/** What is known of a class takes some kilobytes, and up to 60. */
export const CLASSES_PER_FRAME_MAX = 64
export const FRAME_BYTES_MAX = 512 * 1024

export const CLOSE = {
  protocol_version: 4001,
  malformed: 4002,
  replaced: 4003,
  unauthorised: 4004,
  /** The agent was removed, or its token was replaced: the keys that it holds sign nothing more. */
  dismissed: 4005,
  /** The agent sent more than its budget (core/pool/link-budget.ts). It opens no link for a while. */
  flooded: 4006,
} as const

export const EngineKind = z.enum(['embedded', 'emulated', 'vllm', 'openai'])
export type EngineKind = z.infer<typeof EngineKind>

/** APIs of clients that a server may speak itself, beside chat. Their calls go to it as they are, and its events come back so. */
export const NativeApi = z.enum(['messages', 'responses'])
export type NativeApi = z.infer<typeof NativeApi>

/** Routes of servers and of agents' data planes. */
export const NATIVE_PATHS = { messages: '/v1/messages', responses: '/v1/responses' } as const

export const EngineDescription = z.object({
  id: Id,
  epoch: Id,
  kind: EngineKind,
  model: Id,
  /** Calls that can be in one step. */
  seats: Count,
  kv_capacity_tokens: Count,
  context_tokens_max: Count,
  /** Prefill speed, for the balancer's cost of leaving a pin; null if not known. */
  prefill_tokens_per_s: z.number().positive().nullable(),
  /** Multiplies this engine's service so that sums over unlike engines mean something. */
  speed_factor: z.number().positive().max(1000),
  /** Absent: none. */
  native_apis: z.array(NativeApi).max(NativeApi.options.length).optional(),
  /** It goes on with answers that another engine began (resume.ts). Absent: it does not. */
  resumes: z.boolean().optional(),
})
export type EngineDescription = z.infer<typeof EngineDescription>

/** An open lease and what it has been charged so far: wall and modelled microseconds. */
export const LeaseCharge = z.tuple([Id, Microseconds, Microseconds])
export type LeaseCharge = z.infer<typeof LeaseCharge>

export const EngineStatus = z.object({
  id: Id,
  epoch: Id,
  state: z.enum(['ready', 'draining', 'down']),
  waiting: Count,
  running: Count,
  /** Prompt tokens still to be prefilled for waiting and running calls. */
  queued_tokens: Count,
  kv_used_tokens: Count,
  /** Of `waiting` and `running`: offline calls. An online call that comes takes their place. Absent: none, or this engine cannot take it. */
  offline: Count.optional(),
  /** How long a call that comes now would wait for the limits of the engine's provider. Absent: it has none. */
  limit_wait_us: Count.optional(),
  /** Leases that have reached the engine since the previous status: the pool no longer adds them to its load. */
  leases_seen: z.array(Id).max(LEASES_SEEN_MAX),
  /** All open leases of the engine that were charged. Absent: the engine's last word stands. */
  charges: z.array(LeaseCharge).max(CHARGES_PER_STATUS_MAX).optional(),
  /** Measured bytes per prompt token of this model, for the Worker's estimate; null before the first call. */
  bytes_per_token: z.number().positive().nullable(),
})
export type EngineStatus = z.infer<typeof EngineStatus>

export const Hello = z.object({
  type: z.literal('hello'),
  protocol: z.object({ min: Count, max: Count }),
  agent: Id,
  region: Id,
  model: Id,
  /** Base URL of the data plane as Workers reach it. */
  url: z.url({ protocol: /^https?$/ }),
  engines: z.array(EngineDescription).min(1).max(ENGINES_PER_AGENT_MAX),
  /** The agent's wall clock when it wrote this, so that the pool can tell it the offset. */
  now_ms: Count,
})
export type Hello = z.infer<typeof Hello>

export const Status = z.object({
  type: z.literal('status'),
  /** Grows by one per status on a link; a repeated or older one is dropped. */
  seq: Count,
  /** The agent's wall clock, as in `hello`. Left out: its clock is not watched. */
  now_ms: Count.optional(),
  engines: z.array(EngineStatus).min(1).max(ENGINES_PER_AGENT_MAX),
})
export type Status = z.infer<typeof Status>

/** Answers `ask`: those of its leases that are open, or whose record is still being made. */
export const OpenLeases = z.object({
  type: z.literal('open'),
  id: Count,
  leases: z.array(Id).max(LEASES_SEEN_MAX),
})
export type OpenLeases = z.infer<typeof OpenLeases>

/** Answers `replay`. */
export const Replayed = z.object({ type: z.literal('replayed'), id: Count, replay: Replay })
export type Replayed = z.infer<typeof Replayed>

/** Answers `positions`: those of its leases that wait or have a seat here, where the engine tells that. */
export const Positions = z.object({
  type: z.literal('positions'),
  id: Count,
  positions: z.array(QueuePosition).max(POSITIONS_MAX),
})
export type Positions = z.infer<typeof Positions>

export const UpMessage = z.discriminatedUnion('type', [Hello, Status, OpenLeases, Replayed, Positions])
export type UpMessage = z.infer<typeof UpMessage>

export const Welcome = z.object({
  type: z.literal('welcome'),
  protocol: Count,
  /** Keys with which this agent's tickets are signed (base64url of 32 bytes), newest first. */
  ticket_keys: z
    .array(z.object({ kid: Id, key: z.string().max(64) }))
    .min(1)
    .max(8),
  /** Control plane's wall clock minus the agent's, in milliseconds. */
  clock_offset_ms: z.number().int(),
})
export type Welcome = z.infer<typeof Welcome>

/** Stop taking calls on these engines (all of the agent's if empty); finish those under way. */
export const Drain = z.object({ type: z.literal('drain'), engines: z.array(Id).max(ENGINES_PER_AGENT_MAX) })
/** Take calls again after `drain`. */
export const Undrain = z.object({ type: z.literal('undrain'), engines: z.array(Id).max(ENGINES_PER_AGENT_MAX) })
/** Cancel these leases: their program was ended. */
export const Cancel = z.object({ type: z.literal('cancel'), leases: z.array(Id).min(1).max(LEASES_SEEN_MAX) })

/** Which of these leases are open? An agent that does not know the message ignores it. */
export const Ask = z.object({
  type: z.literal('ask'),
  id: Count,
  leases: z.array(Id).min(1).max(LEASES_SEEN_MAX),
})

/** One of the two clocks was set: this offset takes the place of the one in `welcome`. Ignored like `ask`. */
export const Clock = z.object({ type: z.literal('clock'), clock_offset_ms: Welcome.shape.clock_offset_ms })

/** What is known about classes of programs. It takes the place of what was known of each. Ignored like `ask`. */
export const Classes = z.object({
  type: z.literal('classes'),
  classes: z.array(ClassData).max(CLASSES_PER_FRAME_MAX),
})
export type Classes = z.infer<typeof Classes>

/**
 * This program goes on elsewhere, or has ended: what `engine` keeps of its KV until it comes back is to be discarded. The
 * engine alone decides what it does with contexts of programs that do come back. Ignored like `ask`.
 */
export const Handle = z.object({
  type: z.literal('handle'),
  handling: z.literal('discard'),
  engine: Id,
  tenant: Id,
  program: Id,
  run: Id,
})
export type Handle = z.infer<typeof Handle>

/** What would this program's calls on this engine have waited under first come, first served? Ignored like `ask`. */
export const ReplayQuestion = z.object({
  type: z.literal('replay'),
  id: Count,
  engine: Id,
  tenant: Id,
  program: Id,
  run: Id,
})
export type ReplayQuestion = z.infer<typeof ReplayQuestion>

/** Where are these leases in their engines' orders? Asked while a person looks. Ignored like `ask`. */
export const PositionsQuestion = z.object({
  type: z.literal('positions'),
  id: Count,
  leases: z.array(Id).min(1).max(POSITIONS_MAX),
})

export const DownMessage = z.discriminatedUnion('type', [
  Welcome,
  Drain,
  Undrain,
  Cancel,
  Ask,
  Clock,
  Classes,
  Handle,
  ReplayQuestion,
  PositionsQuestion,
])
export type DownMessage = z.infer<typeof DownMessage>
