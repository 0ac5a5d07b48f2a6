/**
 * Stretches: runs of equal steps. The same calls decode one token each, and nothing that a decision depends on changes. A
 * virtual clock takes them at once (Scheduler.stretch, commitStretch). The state afterwards equals that after single steps.
 *
 * A step equals the one before if
 * - every seated call decodes, and none has ended or spent what its policy allows it to be charged;
 * - no time has come at which the policy or the tenants' shares must be asked;
 * - KV grows into blocks that are free or kept for no open call. Blocks of idle prefixes go in the same order, one by one
 *   or at once, and dropping them takes no time.
 */
import type { KvCache } from './memory/kv-cache.ts'
import type { ProgramOrder } from './order/program-order.ts'
import type { ScheduledCall } from './scheduled-call.ts'
import type { StepPlan, StepWork } from './types.ts'

/** The token that a call of this lease samples once its first `position` tokens are known. */
export type TokenAt = (lease: string, position: number) => number

export interface Stretch {
  /** Steps that can be taken at once, the planned one included. */
  steps_max: number
  /** A step that would begin at this time or later is not part of the stretch. */
  until_us: number
  /** A step before which a call has been charged this much, in the ordering reading, is not part of it either. */
  charge_us: number
}

export const SINGLE_STEP: Stretch = Object.freeze({ steps_max: 1, until_us: 0, charge_us: 0 })

/** `flight[i]` is the call of `plan.work[i]`; `until_us`: nothing but time may change who sits, and not before then. */
export function stretchOf(
  plan: StepPlan,
  flight: readonly ScheduledCall[],
  kv: KvCache<ScheduledCall>,
  order: Pick<ProgramOrder<ScheduledCall>, 'chargeLeftUs' | 'outputTokensLeft'>,
  until_us: number,
): Stretch {
  if (plan.operations.some(({ op }) => op !== 'truncate')) return SINGLE_STEP
  let steps_max = Number.MAX_SAFE_INTEGER
  let charge_us = Number.POSITIVE_INFINITY
  for (let index = 0; index < flight.length; index++) {
    const call = flight[index] as ScheduledCall
    if (
      !call.order.seated ||
      call.ending !== null ||
      call.step_tokens !== 1 ||
      call.computed_tokens < call.prompt.length
    ) {
      return SINGLE_STEP
    }
    steps_max = Math.min(steps_max, call.call.max_output_tokens - call.output.length)
    steps_max = Math.min(steps_max, Math.max(1, order.outputTokensLeft(call.order)))
    charge_us = Math.min(charge_us, order.chargeLeftUs(call.order))
  }
  return { steps_max: stepsThatFit(steps_max, flight, kv), until_us, charge_us }
}

/** The most steps, up to `steps_max`, for which the blocks that are free or kept for no open call suffice. */
function stepsThatFit(steps_max: number, flight: readonly ScheduledCall[], kv: KvCache<ScheduledCall>): number {
  const growth = (steps: number) => {
    let blocks = 0
    for (const call of flight)
      blocks += Math.max(0, kv.blocksFor(call.known_tokens + steps - 1) - (call.slot?.path.blocks ?? 0))
    return blocks
  }
  const most_blocks = growth(steps_max)
  if (most_blocks <= kv.free_blocks) return steps_max
  const { spare_blocks } = kv
  if (most_blocks <= spare_blocks) return steps_max
  let fits = 1
  let exceeds = steps_max
  while (exceeds - fits > 1) {
    const steps = Math.floor((fits + exceeds) / 2)
    if (growth(steps) <= spare_blocks) fits = steps
    else exceeds = steps
  }
  return fits
}

/** The call's part of a stretch of `steps`: its tokens. */
export function takeDecodes(call: ScheduledCall, { lease, to }: StepWork, token: TokenAt, steps: number): void {
  for (let step = 0; step < steps; step++) call.output.push(token(lease, to + step))
  call.in_flight = false
  call.settled = true
}
