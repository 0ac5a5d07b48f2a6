/** The policies of a simulation: those that engines can be started with, and the clairvoyant references. */

import type { HandlingRule } from '../../gpu-agent/engine/memory/handling/waste.ts'
import {
  createPolicy as createEnginePolicy,
  POLICY_NAMES as ENGINE_POLICY_NAMES,
  MEMORY_POLICY_NAMES,
  type MemoryPolicyName,
} from '../../gpu-agent/engine/order/policies/index.ts'
import type { LampsConfig } from '../../gpu-agent/engine/order/policies/lamps/lamps.ts'
import type { LearnedConfig } from '../../gpu-agent/engine/order/policies/learned/learned.ts'
import type { ProgramLevelConfig } from '../../gpu-agent/engine/order/policies/levels/levels.ts'
import type { Policy, PolicyContext, Ties } from '../../gpu-agent/engine/order/policy.ts'
import { type Clairvoyance, Srpt } from './srpt.ts'

const CLAIRVOYANT_NAMES = ['srpt', 'wsrpt'] as const
export const POLICY_NAMES = [...ENGINE_POLICY_NAMES, ...MEMORY_POLICY_NAMES, ...CLAIRVOYANT_NAMES] as const
export type PolicyName = (typeof POLICY_NAMES)[number]

/** What is not given has the default of the policy for its reading of service. */
export interface PolicyTuning {
  /** What only programs' levels have, mlfq does without. */
  levels: Partial<ProgramLevelConfig>
  rr_quantum_us?: number
  learned?: Partial<LearnedConfig>
  /** Of lamps and learned-memory. */
  lamps?: Partial<Omit<LampsConfig, 'handling'>>
  /** Of the policies that handle contexts while tools run. */
  handling?: Partial<HandlingRule>
  /** Of mlfq and rr. */
  ties?: Ties
}

export function isClairvoyant(name: PolicyName): name is 'srpt' | 'wsrpt' {
  return name === 'srpt' || name === 'wsrpt'
}

/** Whether it orders by what is known of classes. */
export function learns(name: PolicyName): boolean {
  return name === 'learned' || name === 'learned-memory'
}

/** Whether it handles contexts while tools run, by what is expected of calls. */
export function weighsMemory(name: PolicyName): name is MemoryPolicyName {
  return MEMORY_POLICY_NAMES.some((one) => one === name)
}

export function createPolicy(
  name: PolicyName,
  context: Pick<PolicyContext, 'reading' | 'classes' | 'memory'>,
  tuning: PolicyTuning,
  clairvoyance: Clairvoyance,
): Policy {
  if (isClairvoyant(name)) return new Srpt(name, clairvoyance)
  const { handling = {} } = tuning
  const ties = tuning.ties === undefined ? {} : { ties: tuning.ties }
  switch (name) {
    case 'fcfs':
    case 'fcfs-program':
      return createEnginePolicy({ name }, context)
    case 'rr': {
      const quantum = tuning.rr_quantum_us === undefined ? {} : { quantum_us: tuning.rr_quantum_us }
      return createEnginePolicy({ name, ...quantum, ...ties }, context)
    }
    case 'mlfq':
      return createEnginePolicy({ name, ...tuning.levels, ...ties }, context)
    case 'lamps':
    case 'learned-memory':
      return createEnginePolicy({ name, ...tuning.lamps, handling }, context)
    case 'infercept':
    case 'vllm-discard':
    case 'vllm-preserve':
      return createEnginePolicy({ name, handling }, context)
    case 'learned':
      return createEnginePolicy({ name, ...tuning.learned }, context)
    default:
      return createEnginePolicy({ name, ...tuning.levels }, context)
  }
}
