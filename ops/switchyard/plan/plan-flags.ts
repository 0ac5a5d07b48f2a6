/** The flags of `switchyard plan`, read strictly. */
import {
  type LatencyProfile,
  PROFILE_NAMES,
  profileOf,
} from '../../../gpu-agent/engine/backends/emulated/profiles/index.ts'
import type { FleetQuestion } from '../../../simulator/fleet/fleet-verdict.ts'
import { POLICY_NAMES, type PolicyName } from '../../../simulator/policies/index.ts'
import { BALANCER_DEFAULT, BALANCER_NAMES, type BalancerName } from '../../../src/core/pool/balancers/index.ts'
import { CommandFailure } from '../client.ts'
import type { Flag } from '../command.ts'

const DEFAULTS = {
  since: '1h',
  profile: 'a100-8b',
  policy: 'plas',
  balancer: BALANCER_DEFAULT,
  engines: '1..64',
} as const
const ENGINES_MAX = 4096
const GPU_COST_MAX = 1e6
const TARGET_MAX = 1e9

export const PLAN_FLAGS = {
  since: {
    type: 'string',
    value: 'TIME',
    help: `only programs that began within this time (default ${DEFAULTS.since})`,
  },
  'p95-ms': { type: 'string', value: 'X', help: 'target: 95 % of programs take at most X ms for each token' },
  'p95-s': { type: 'string', value: 'X', help: 'target: 95 % of programs end within X seconds' },
  profile: {
    type: 'string',
    value: 'NAME|FILE,…',
    help: `engines to plan with (default ${DEFAULTS.profile}): ${PROFILE_NAMES.join(', ')}, or files of npm run calibrate`,
  },
  policy: { type: 'string', value: 'NAME,…', help: `order of calls (default ${DEFAULTS.policy}): a list is compared` },
  balancer: {
    type: 'string',
    value: 'NAME,…',
    help: `choice of engine (default ${DEFAULTS.balancer}): a list is compared`,
  },
  engines: { type: 'string', value: 'N..M', help: `how many engines to try (default ${DEFAULTS.engines})` },
  'gpu-cost': { type: 'string', value: 'X', help: 'price of a GPU per hour, in your currency' },
  tenant: { type: 'string', value: 'TENANT', help: 'only its programs (default: all tenants)' },
  model: { type: 'string', value: 'MODEL', help: 'whose engines are planned (needed where several were called)' },
  save: { type: 'string', value: 'FILE', help: 'writes the programs as a trace that npm run simulate plays' },
} as const satisfies Record<string, Flag>

export interface PlanAsked extends FleetQuestion {
  since: string
  profiles: LatencyProfile[]
  policies: PolicyName[]
  balancers: BalancerName[]
}

/** Throws CommandFailure. `text`: of a flag. */
export function planAsked(text: (flag: keyof typeof PLAN_FLAGS) => string | undefined): PlanAsked {
  const [ms, s, cost] = [text('p95-ms'), text('p95-s'), text('gpu-cost')]
  if ((ms === undefined) === (s === undefined))
    throw wrong('say what is to be met: --p95-ms (milliseconds a token) or --p95-s (seconds a program)')
  return {
    since: text('since') ?? DEFAULTS.since,
    target:
      ms === undefined
        ? { measure: 'program_s', at_most: above0('p95-s', s ?? '', TARGET_MAX) }
        : { measure: 'ms_per_token', at_most: above0('p95-ms', ms, TARGET_MAX) },
    range: rangeOf(text('engines') ?? DEFAULTS.engines),
    gpu_cost: cost === undefined ? null : above0('gpu-cost', cost, GPU_COST_MAX),
    profiles: listOf(text('profile') ?? DEFAULTS.profile).map(profileNamed),
    policies: listOf(text('policy') ?? DEFAULTS.policy).map((name) => oneOf('policy', name, POLICY_NAMES)),
    balancers: listOf(text('balancer') ?? DEFAULTS.balancer).map((name) => oneOf('balancer', name, BALANCER_NAMES)),
  }
}

function profileNamed(name: string): LatencyProfile {
  try {
    return profileOf(name)
  } catch (error) {
    if (error instanceof RangeError) throw wrong(`--profile: ${error.message}`)
    throw error
  }
}

function rangeOf(text: string): { min: number; max: number } {
  const [from = '', to = from, ...rest] = text.split('..')
  const [min, max] = [Number(from), Number(to)]
  const isRange = [min, max].every((one) => Number.isInteger(one) && one >= 1 && one <= ENGINES_MAX) && min <= max
  if (rest.length > 0 || !isRange) throw wrong(`--engines takes N..M with 1 ≤ N ≤ M ≤ ${ENGINES_MAX}, not ${text}`)
  return { min, max }
}

function above0(flag: string, text: string, max: number): number {
  const value = Number(text)
  if (text.trim() !== '' && value > 0 && value <= max) return value
  throw wrong(`--${flag} takes a number above 0, not "${text}"`)
}

function listOf(text: string): string[] {
  return text.split(',').map((one) => one.trim())
}

function oneOf<const T extends string>(flag: string, name: string, names: readonly T[]): T {
  const found = names.find((one) => one === name)
  if (found === undefined) throw wrong(`--${flag}: there is no ${name}; there are ${names.join(', ')}`)
  return found
}

function wrong(reason: string): CommandFailure {
  return new CommandFailure('usage', reason)
}
