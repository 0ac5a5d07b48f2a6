/** The balancers, by name. `locality` serves traffic; the others are what it is compared with. */
import { AFFINITY } from './affinity.ts'
import type { Balancer } from './balancer.ts'
import { COST_AWARE } from './cost-aware.ts'
import { LEAST_USED } from './least-used.ts'
import { LOCALITY } from './locality.ts'
import { RoundRobin } from './round-robin.ts'

export type { Balancer }

export const BALANCER_NAMES = ['locality', 'least-used', 'round-robin', 'affinity', 'cost-aware'] as const
export type BalancerName = (typeof BALANCER_NAMES)[number]

/** One for each pool. */
export function createBalancer(name: BalancerName): Balancer {
  switch (name) {
    case 'locality':
      return LOCALITY
    case 'least-used':
      return LEAST_USED
    case 'round-robin':
      return new RoundRobin()
    case 'affinity':
      return AFFINITY
    case 'cost-aware':
      return COST_AWARE
  }
}
