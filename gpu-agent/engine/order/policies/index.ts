/** The policies that an engine can be started with, by name. */
import { DEFAULT_SERVICE_RATES, type ServiceReading } from '../../../../src/core/call/service.ts'
import type { Policy, PolicyContext } from '../policy.ts'
import { Atlas } from './atlas/atlas.ts'
import { Fcfs } from './fcfs/fcfs.ts'
import { LEARNED, Learned, type LearnedConfig } from './learned/learned.ts'
import { CPU_PREFILL_US_PER_TOKEN, PROGRAM_LEVELS, type ProgramLevelConfig } from './levels/levels.ts'
import { MLFQ_DEFAULTS, Mlfq, type MlfqConfig } from './mlfq/mlfq.ts'
import { Plas } from './plas/plas.ts'
import { RR_DEFAULTS, Rr, type RrConfig } from './rr/rr.ts'

export const POLICY_NAMES = ['fcfs', 'fcfs-program', 'mlfq', 'rr', 'plas', 'atlas', 'learned'] as const
export type PolicyName = (typeof POLICY_NAMES)[number]

export type PolicyConfig =
  | { name: 'fcfs' | 'fcfs-program' }
  | ({ name: 'rr' } & Partial<RrConfig>)
  | ({ name: 'mlfq' } & Partial<MlfqConfig>)
  | ({ name: 'plas' | 'atlas' } & Partial<ProgramLevelConfig>)
  | ({ name: 'learned' } & Partial<LearnedConfig>)

const CONTEXT_DEFAULT: PolicyContext = { reading: 'modelled', rates: DEFAULT_SERVICE_RATES, classes: null }

/** A policy's defaults depend on the reading of service in which it is charged. */
export function createPolicy(config: PolicyConfig, context: Partial<PolicyContext> = {}): Policy {
  const { reading, rates, classes } = { ...CONTEXT_DEFAULT, ...context }
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
  }
}

/** The policy of this name for an engine that computes on a CPU. */
export function policyOnCpu(name: PolicyName, reading: ServiceReading): PolicyConfig {
  if (name === 'plas' || name === 'atlas') return { name, prefill_us_per_token: CPU_PREFILL_US_PER_TOKEN[reading] }
  // Its costs are beside those of generated tokens, in either reading.
  if (name === 'learned') return { name, prefill_us_per_token: CPU_PREFILL_US_PER_TOKEN.modelled }
  return { name }
}
