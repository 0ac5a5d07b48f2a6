/**
 * First come, first served with a handling of contexts while tools run: the systems that LAMPS is compared with (§6.1).
 *
 * - `infercept` (Abhyankar et al. 2024): programs run in the order in which they came, a program that comes back included.
 *   What happens to a context is decided when the call reaches its tool, by what is in memory then, for the least waste, and
 *   again when the tool lasts. Contexts are moved only as far as that hides under a step.
 * - `vllm-preserve`: the same order, and every context stays.
 * - `vllm-discard`: a call that comes back from a tool is a new one at the end of the queue, and its context is gone.
 *
 * Computing in chunks, the third part of InferCept, is the engine's (`chunked_prefill`).
 */
import { HANDLINGS, type HandlingRule } from '../../../memory/handling/waste.ts'
import {
  type Place,
  type Policy,
  type PolicyCall,
  type Retention,
  type Ties,
  yieldsToBetterRank,
} from '../../policy.ts'
import { Unmoved } from '../fcfs/unmoved.ts'

export const SERVED_IN_ORDER = ['infercept', 'vllm-discard', 'vllm-preserve'] as const
export type ServedInOrder = (typeof SERVED_IN_ORDER)[number]

export interface InferceptConfig {
  /** Left out: as the name has it. */
  handling?: Partial<HandlingRule>
}

const RULES: Readonly<Record<ServedInOrder, HandlingRule>> = {
  infercept: { allowed: HANDLINGS, hidden_swaps: true, revises: true, pins: 'relieved' },
  'vllm-discard': { allowed: ['discard'], hidden_swaps: false, revises: false, pins: 'relieved' },
  'vllm-preserve': { allowed: ['preserve'], hidden_swaps: false, revises: false, pins: 'relieved' },
}

const US_PER_MS = 1000

export class Infercept extends Unmoved implements Policy {
  readonly name: ServedInOrder
  readonly ties: Ties
  readonly retention: Retention
  readonly evicts = 'for_started'
  readonly handling: HandlingRule
  /** A program that comes back takes the seat of a later one. */
  readonly yieldsTo = yieldsToBetterRank

  constructor(name: ServedInOrder, { handling = {} }: InferceptConfig = {}) {
    super()
    this.name = name
    this.ties = name === 'vllm-discard' ? 'call' : 'program'
    this.retention = name === 'vllm-discard' ? 'lru' : 'rank'
    this.handling = { ...RULES[name], ...handling }
  }

  /** By when its program opened. A call without a program is one of its own; so is every call of `vllm-discard`. */
  arrive({ call: { sequence } }: PolicyCall, now_us: number): Place {
    return { rank: this.ties === 'call' || sequence === null ? now_us / US_PER_MS : sequence[0] }
  }

  position(): string {
    return this.ties === 'call' ? 'in order of arrival' : 'in order of its program’s first call'
  }
}
