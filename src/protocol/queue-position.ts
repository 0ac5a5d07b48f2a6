/**
 * Where an open call is in its engine's order: the pool asks, and the agent's engine answers. Its policy says in words by what it
 * is ordered (gpu-agent/engine/order/policy.ts). It tells nothing of other tenants: calls before it are those of its own.
 */
import { z } from 'zod'
import { Count, Id, Microseconds } from './ids.ts'

/** Leases that one question names. */
export const POSITIONS_MAX = 128
export const POSITION_CHARS_MAX = 160

export const QueuePosition = z.object({
  lease: Id,
  /** It has no seat now, whether or not it had one before. */
  waits: z.boolean(),
  /** Time on the engine in which it was not scheduled, so far. */
  waited_us: Microseconds,
  /** Open calls of its tenant on this engine that run before it. */
  before: Count,
  /** By what its policy orders it, in words and numbers. */
  order: z.string().max(POSITION_CHARS_MAX),
})
export type QueuePosition = z.infer<typeof QueuePosition>
