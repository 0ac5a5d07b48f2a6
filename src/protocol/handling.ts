/**
 * What an engine decided for a program's KV when a call of it ended, as it travels with the call's record: the handling, why,
 * and the waste of each that it was compared with (LAMPS, equations 1 to 3; gpu-agent/engine/memory/handling/waste.ts).
 */
import { z } from 'zod'

export const Handling = z.enum(['preserve', 'discard', 'swap'])

/**
 * `least_waste`: of those that the policy chooses from. `only_choice`: it has no other. `not_foreseen`: nothing says how long
 * the tool takes, so the context is kept at first and decided again as the tool lasts.
 */
export const HandlingReason = z.enum(['least_waste', 'only_choice', 'not_foreseen'])
export type HandlingReason = z.infer<typeof HandlingReason>

const ByteSeconds = z.number().nonnegative()

export const HandlingDecision = z.object({
  handling: Handling,
  reason: HandlingReason,
  /** Memory times time, byte-seconds. `swap` null: the engine cannot move KV. */
  waste: z.object({ preserve: ByteSeconds, discard: ByteSeconds, swap: ByteSeconds.nullable() }),
})
export type HandlingDecision = z.infer<typeof HandlingDecision>
