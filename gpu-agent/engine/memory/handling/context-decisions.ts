/** What is decided for the context of a program whose tool runs: by the policy before its call ran, or from the live batch. */
import type { HandlingDecision, HandlingReason } from '../../../../src/protocol/handling.ts'
import type { EngineMemory, Policy } from '../../order/policy.ts'
import type { ScheduledCall } from '../../scheduled-call.ts'
import type { ImageStore } from '../image-store.ts'
import type { KvCache } from '../kv-cache.ts'
import {
  type Batch,
  chooseHandling,
  type Handling,
  type HandlingChoice,
  type HandlingRule,
  leastWaste,
  reviseHandling,
  type Waste,
} from './waste.ts'

export interface DecisionParts {
  kv: KvCache<ScheduledCall>
  images: ImageStore
  memory: EngineMemory
  policy: Pick<Policy, 'handlingOf'>
}

export class ContextDecisions {
  /** What is chosen from: of the rule's handlings those that this engine can do. */
  readonly allowed: readonly Handling[]
  readonly #parts: DecisionParts

  constructor(rule: HandlingRule, parts: DecisionParts) {
    this.#parts = parts
    const swaps = parts.images.isOpen && parts.memory.costs.swap !== null
    this.allowed = swaps ? rule.allowed : rule.allowed.filter((handling) => handling !== 'swap')
  }

  /** The call has ended with so many tokens. `firm_blocks`: held blocks that no call has. */
  ofEnded(
    call: ScheduledCall,
    tokens: number,
    tool_us: number,
    firm_blocks: number,
  ): HandlingChoice & { told: HandlingDecision } {
    const choice = this.#choose(call, tokens, tool_us, firm_blocks)
    const told = { handling: choice.handling, reason: this.#reasonOf(call), waste: rounded(choice.waste) }
    return { ...choice, told }
  }

  /** Its tool has lasted for longer than expected. */
  ofLasting(tokens: number, away_us: number, firm_blocks: number): Handling {
    return reviseHandling(this.#parts.memory.costs, this.#batch(tokens, firm_blocks), away_us, this.allowed).handling
  }

  #choose(call: ScheduledCall, tokens: number, tool_us: number, firm_blocks: number): HandlingChoice {
    const { memory, policy } = this.#parts
    const early = policy.handlingOf?.(call.order.place) ?? null
    const choice = early ?? chooseHandling(memory.costs, this.#batch(tokens, firm_blocks), tool_us, this.allowed)
    if (choice.handling !== 'swap' || this.allowed.includes('swap')) return choice
    return { ...choice, handling: leastWaste(choice.waste, this.allowed) }
  }

  #reasonOf({ call: { forecast } }: ScheduledCall): HandlingReason {
    if (this.allowed.length === 1) return 'only_choice'
    return forecast === undefined ? 'not_foreseen' : 'least_waste'
  }

  #batch(context_tokens: number, firm_blocks: number): Batch {
    const { kv } = this.#parts
    return { context_tokens, other_tokens: Math.max(0, kv.held_blocks - firm_blocks) * kv.block_tokens }
  }
}

/** In whole byte-seconds, as it leaves the engine. */
function rounded({ preserve, discard, swap }: Waste): Waste {
  return {
    preserve: Math.round(preserve),
    discard: Math.round(discard),
    swap: swap === null ? null : Math.round(swap),
  }
}
