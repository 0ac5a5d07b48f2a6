/**
 * `learned-memory`: programs by the memory that they are expected to take over the work that they have left. It is the
 * `learned` index (a Gittins index over what is known of the program's class), with the mean response time as its objective,
 * times the KV that the program takes while it is served:
 *
 *     rank = log2( (P + mean output of a call) · G(o, k) )        P prompt tokens of the call
 *
 * LAMPS ranks a call with the tool at its end, and knows nothing of the program behind it. Where memory is what lacks, the
 * work that a program has left counts as often as it takes memory, over all of its calls.
 *
 * Contexts are handled at the tool, for the least waste by what is in memory then.
 */
import type { ServiceRates, ServiceReading } from '../../../../../src/core/call/service.ts'
import type { IndexTable } from '../../../../../src/core/classes/index-table.ts'
import { HANDLINGS, type HandlingRule } from '../../../memory/handling/waste.ts'
import type { ClassTables, PolicyCall } from '../../policy.ts'
import { LEARNED, Learned, type LearnedConfig } from '../learned/learned.ts'

export const LEARNED_MEMORY: Readonly<Record<ServiceReading, LearnedConfig>> = {
  modelled: { ...LEARNED.modelled, objective: 'response' },
  wall: { ...LEARNED.wall, objective: 'response' },
}

export class LearnedMemory extends Learned {
  override readonly name = 'learned-memory'
  readonly handling: HandlingRule = { allowed: HANDLINGS, hidden_swaps: false, revises: true }

  constructor(config: LearnedConfig, rates: ServiceRates, classes: ClassTables | null) {
    super(config, rates, classes, memoryTokens)
  }
}

/** KV at the end of a usual call. It stays the same while the call is open, so charges do not move it. */
function memoryTokens({ prompt_tokens }: PolicyCall, { call_tokens }: IndexTable): number {
  return Math.max(1, prompt_tokens + call_tokens)
}
