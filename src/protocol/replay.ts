/**
 * What calls of a program would have waited under first come, first served: the pool asks, and the agent replays its last
 * arrivals (gpu-agent/engine/replay/). An estimate, and where there is none, why.
 */
import { z } from 'zod'
import { CallUnknown, EngineUnknown } from './fcfs-waits.ts'
import { Id, Microseconds } from './ids.ts'

/** Calls that one answer tells of, those that came last. */
export const REPLAYED_CALLS_MAX = 256

export const ReplayedCall = z.discriminatedUnion('status', [
  z.object({
    status: z.literal('estimated'),
    id: Id,
    wait_us: Microseconds,
    fcfs_wait_us: Microseconds,
    /** A call that is still open came before it, and counts with what it was served so far. */
    at_least: z.boolean(),
  }),
  z.object({ status: z.literal('unknown'), id: Id, reason: CallUnknown }),
])
export type ReplayedCall = z.infer<typeof ReplayedCall>

export const Replay = z.discriminatedUnion('status', [
  z.object({
    status: z.literal('replayed'),
    calls: z.array(ReplayedCall).max(REPLAYED_CALLS_MAX),
  }),
  z.object({ status: z.literal('unknown'), reason: EngineUnknown }),
])
export type Replay = z.infer<typeof Replay>
