/** The policies that an engine can be started with, by name. */
import type { ServiceReading } from '../../../src/core/service.ts'
import type { Policy } from '../policy.ts'
import { Fcfs } from './fcfs/fcfs.ts'
import { PLAS_DEFAULTS, Plas, type PlasConfig } from './plas/plas.ts'

export const POLICY_NAMES = ['fcfs', 'plas'] as const
export type PolicyName = (typeof POLICY_NAMES)[number]

export type PolicyConfig = { name: 'fcfs' } | ({ name: 'plas' } & Partial<PlasConfig>)

/** `reading` is the pool's ordering reading of service: a policy's defaults depend on what it is charged in. */
export function createPolicy(config: PolicyConfig, reading: ServiceReading = 'modelled'): Policy {
  switch (config.name) {
    case 'fcfs':
      return new Fcfs()
    case 'plas':
      return new Plas({ ...PLAS_DEFAULTS[reading], ...config })
  }
}
