/** The policies that an engine can be started with, by name. */
import { DEFAULT_SERVICE_RATES, type ServiceReading } from '../../../../src/core/call/service.ts'
import type { Handling } from '../../memory/handling/waste.ts'
import { type Policy, type PolicyContext, REFERENCE_MEMORY } from '../policy.ts'
import { Atlas } from './atlas/atlas.ts'
import { Fcfs } from './fcfs/fcfs.ts'
import { Infercept, type InferceptConfig, type ServedInOrder } from './infercept/infercept.ts'
import { LAMPS, Lamps, type LampsConfig } from './lamps/lamps.ts'
import { LEARNED, Learned, type LearnedConfig } from './learned/learned.ts'
import { LearnedMemory } from './learned-memory/learned-memory.ts'
import {
  CPU_PREFILL_US_PER_TOKEN,
  PROGRAM_LEVELS,
  type ProgramLevelConfig,
  programLevelsOnCpu,
} from './levels/levels.ts'
import { MLFQ_DEFAULTS, Mlfq, type MlfqConfig } from './mlfq/mlfq.ts'
import { Plas } from './plas/plas.ts'
import { RR_DEFAULTS, Rr, type RrConfig } from './rr/rr.ts'

/** Those that every engine can be started with, and that a queue before a server of others can have. */
export const POLICY_NAMES = ['fcfs', 'fcfs-program', 'mlfq', 'rr', 'plas', 'atlas', 'learned'] as const
export type PolicyName = (typeof POLICY_NAMES)[number]
/** Those that handle contexts while tools run: of engines that Switchyard schedules itself. */
export const MEMORY_POLICY_NAMES = ['lamps', 'infercept', 'vllm-discard', 'vllm-preserve', 'learned-memory'] as const
export type MemoryPolicyName = (typeof MEMORY_POLICY_NAMES)[number]

export const ENGINE_POLICY_NAMES = [...POLICY_NAMES, ...MEMORY_POLICY_NAMES] as const

export function isMemoryPolicy(name: string): name is MemoryPolicyName {
  return MEMORY_POLICY_NAMES.some((one) => one === name)
}

/** Why a queue before a server of others is not started with this policy. Null: it is no policy that handles contexts. */
export function notQueued(name: string | undefined): string | null {
  if (name === undefined || !isMemoryPolicy(name)) return null
  return (
    `--policy ${name} handles contexts while tools run, and no other server lets a queue before it do that. ` +
    `Take one of ${POLICY_NAMES.join(', ')}, or --engine vllm (docs/vllm.md)`
  )
}

export type PolicyConfig =
  | { name: 'fcfs' | 'fcfs-program' }
  | ({ name: 'rr' } & Partial<RrConfig>)
  | ({ name: 'mlfq' } & Partial<MlfqConfig>)
  | ({ name: 'plas' | 'atlas' } & Partial<ProgramLevelConfig>)
  | ({ name: 'learned' } & Partial<LearnedConfig>)

export type MemoryPolicyConfig =
  | ({ name: 'lamps' | 'learned-memory' } & Partial<LampsConfig>)
  | ({ name: ServedInOrder } & InferceptConfig)

const CONTEXT_DEFAULT: PolicyContext = {
  reading: 'modelled',
  rates: DEFAULT_SERVICE_RATES,
  classes: null,
  memory: REFERENCE_MEMORY,
}

/** A policy's defaults depend on the reading of service in which it is charged. */
export function createPolicy(config: PolicyConfig | MemoryPolicyConfig, context: Partial<PolicyContext> = {}): Policy {
  const { reading, rates, classes, memory } = { ...CONTEXT_DEFAULT, ...context }
  switch (config.name) {
    case 'fcfs':
      return new Fcfs('call')
    case 'fcfs-program':
      return new Fcfs('program')
    case 'rr':
      return new Rr({ ...RR_DEFAULTS[reading], ...config })
    case 'mlfq':
      return new Mlfq({ ...MLFQ_DEFAULTS[reading], ...config })
    case 'plas':
      return new Plas({ ...PROGRAM_LEVELS[reading], ...config })
    case 'atlas':
      return new Atlas({ ...PROGRAM_LEVELS[reading], ...config })
    case 'learned':
      return new Learned({ ...LEARNED[reading], ...config }, rates, classes)
    case 'learned-memory':
      return new LearnedMemory({ ...LAMPS, ...config }, memory, classes)
    case 'lamps':
      return new Lamps({ ...LAMPS, ...config }, memory)
    case 'infercept':
    case 'vllm-discard':
    case 'vllm-preserve':
      return new Infercept(config.name, config)
  }
}

/** The policy of this name for an engine that computes on a CPU. */
export function policyOnCpu(
  name: PolicyName | MemoryPolicyName,
  reading: ServiceReading,
): PolicyConfig | MemoryPolicyConfig {
  if (name === 'plas' || name === 'atlas') return { name, ...programLevelsOnCpu(reading) }
  // Its costs are beside those of generated tokens, in either reading.
  if (name === 'learned') return { name, prefill_us_per_token: CPU_PREFILL_US_PER_TOKEN.modelled }
  return { name }
}

/** The policy, choosing from these handlings if it handles contexts. Null: from those that its name has. */
export function choosingFrom(
  config: PolicyConfig | MemoryPolicyConfig,
  allowed: readonly Handling[] | null,
): PolicyConfig | MemoryPolicyConfig {
  if (allowed === null || !handlesContexts(config)) return config
  return { ...config, handling: { ...config.handling, allowed } }
}

function handlesContexts(config: PolicyConfig | MemoryPolicyConfig): config is MemoryPolicyConfig {
  return isMemoryPolicy(config.name)
}
