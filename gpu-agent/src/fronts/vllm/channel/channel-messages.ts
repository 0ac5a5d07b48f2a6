/**
 * The side channel's messages from the plug-in (docs/vllm-plugin.md, version 1), as this side reads them. Fields that later
 * versions of the plug-in add are optional here, and unknown ones pass unread.
 */
import { z } from 'zod'
import {
  Count,
  Id,
  Measurement,
  Microseconds,
  POSITION_CHARS_MAX,
  POSITIONS_MAX,
} from '../../../../../src/protocol/index.ts'
import type { ToolCounts } from '../../../../engine/memory/handling/handling-counts.ts'
import type { HoldCounts } from '../../../../engine/memory/program-hold.ts'
import type { KvSwapCosts } from '../../engine-front.ts'

export const CHANNEL_VERSION = 1
/** vLLM's own request ids are longer than ours. */
const REQUEST_ID_CHARS_MAX = 1024
/** Leases in one `charges`. */
export const CHARGES_MAX = 1024
const TEXT_CHARS_MAX = 512

const Text = z.string().transform((text) => text.slice(0, TEXT_CHARS_MAX))

export const Hello = z.object({
  type: z.literal('hello'),
  v: z.number().int(),
  epoch: Id,
  seats: Count.nullish(),
  kv_capacity_tokens: Count.nullish(),
  context_tokens_max: Count.nullish(),
  /** It takes tables of classes of programs. */
  classes: z.boolean().nullish(),
  /** It can be told that a program goes on elsewhere or has ended. */
  handle: z.boolean().nullish(),
  /** It can be asked where open calls are in its order. */
  positions: z.boolean().nullish(),
  /** It goes on with answers that another engine began, from tokens below this. */
  vocabulary_tokens: Count.nullish(),
})
export type EngineHello = z.infer<typeof Hello>

/** One for each call of the engine: a lease with several choices has several. Times are microseconds of the engine's clock. */
export const EngineRecord = z.object({
  type: z.literal('record'),
  number: Count,
  v: z.literal(1),
  request_id: z.string().max(REQUEST_ID_CHARS_MAX),
  lease: Id.nullable(),
  outcome: z.enum(['stop', 'length', 'cancelled', 'failed']),
  ...Measurement.shape,
  computed_tokens: Count.nullish(),
  /** The engine subtracts service from duration. */
  wait_us: z
    .number()
    .int()
    .transform((wait_us) => Math.max(0, wait_us)),
})
export type EngineRecord = z.infer<typeof EngineRecord>

/** Cumulative sums of leases whose sums have changed: lease, wall, modelled, computed tokens, sampled tokens. */
export const Charges = z.object({
  type: z.literal('charges'),
  leases: z.array(z.tuple([Id, Microseconds, Microseconds, Count, Count])).max(CHARGES_MAX),
})
export type Charges = z.infer<typeof Charges>

const Cost = z.number().min(0)
const SwapCosts: z.ZodType<KvSwapCosts> = z.object({
  base_us: Cost,
  save_us_per_token: Cost,
  restore_us_per_token: Cost,
  recompute_us_per_token: Cost,
  measured: z.boolean(),
})

const Holds: z.ZodType<HoldCounts> = z.object({
  contexts: Count,
  begun: Count,
  returned: Count,
  given_up: Count,
  expired: Count,
  held_back: Count,
})

const Handled = z.object({ decided: Count, returned: Count, context_tokens: Count, cached_tokens: Count })
const Tools: z.ZodType<ToolCounts> = z.object({
  preserve: Handled,
  discard: Handled,
  swap: Handled,
  away: Count,
  relieved: Count,
  revised: Count,
  prefetched: Count,
  displaced: Count,
  expired: Count,
  swap_us: Count,
})

export const EngineReport = z.object({
  type: z.literal('status'),
  waiting: Count.default(0),
  running: Count.default(0),
  queued_tokens: Count.default(0),
  /** Of the KV cache's blocks, 0 to 1. */
  kv_used: z.number().min(0).max(1).default(0),
  /** Steps and decisions so far: they stand still in an engine that hangs. */
  steps: Count.nullish(),
  decisions: Count.nullish(),
  /** The plug-in's own code has failed: vLLM schedules by itself. */
  failed: z.boolean().nullish(),
  failed_reason: Text.nullish(),
  /** False: it does not even measure any more, and no records come. */
  measures: z.boolean().nullish(),
  /** Null: it does not swap. */
  swap_costs: SwapCosts.nullish(),
  /** Contexts that got no image since the engine started. */
  swap_declined: Count.nullish(),
  /** The swap's own code has failed: preempted calls are computed again, and no context is moved out. */
  swap_failed: z.boolean().nullish(),
  /** Of contexts of programs whose tools run. */
  holds: Holds.nullish(),
  tools: Tools.nullish(),
})
export type EngineReport = z.infer<typeof EngineReport>

const Applied = z.object({ type: z.literal('applied'), number: Count })
const Refused = z.object({ type: z.literal('refused'), number: Count, reason: Text })

const Words = z.string().transform((text) => text.slice(0, POSITION_CHARS_MAX))
/** Answers a question: lease, whether it waits, for how long in sum, open calls of its tenant before it, and the policy's words. */
const Positions = z.object({
  type: z.literal('positions'),
  number: Count,
  positions: z.array(z.tuple([Id, z.boolean(), Microseconds, Count, Words])).max(POSITIONS_MAX),
})
export type EnginePositions = z.infer<typeof Positions>

const EngineMessage = z.discriminatedUnion('type', [
  Hello,
  EngineRecord,
  Charges,
  EngineReport,
  Applied,
  Refused,
  Positions,
])
export type EngineMessage = z.infer<typeof EngineMessage>

const KNOWN = new Set(['hello', 'record', 'charges', 'status', 'applied', 'refused', 'positions'])

export type Reading =
  | { kind: 'message'; message: EngineMessage }
  /** `number`: of a record that cannot be read, so that it need not be sent again. */
  | { kind: 'ignored'; what: 'unknown' | 'malformed'; number: number | null }

export function readMessage(line: string): Reading {
  let value: unknown
  try {
    value = JSON.parse(line)
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    return { kind: 'ignored', what: 'malformed', number: null }
  }
  const parsed = EngineMessage.safeParse(value)
  if (parsed.success) return { kind: 'message', message: parsed.data }
  const { type, number } = (typeof value === 'object' && value !== null ? value : {}) as Record<string, unknown>
  if (typeof type === 'string' && !KNOWN.has(type)) return { kind: 'ignored', what: 'unknown', number: null }
  const of_record = type === 'record' ? Count.safeParse(number) : null
  return { kind: 'ignored', what: 'malformed', number: of_record?.success === true ? of_record.data : null }
}
