import { describe, expect, it } from 'vitest'
import { policyCall } from '../../../testing/policy-calls.ts'
import { policyContract } from '../../policy.contract.ts'
import { PROGRAM_LEVELS, type ProgramLevelConfig } from '../levels/levels.ts'
import { Atlas } from './atlas.ts'

policyContract('atlas', () => new Atlas())
policyContract('atlas in wall time', () => new Atlas(PROGRAM_LEVELS.wall))

/** Levels [0, 100), [100, 300), [300, 700), [700, ∞). */
const CONFIG: ProgramLevelConfig = {
  levels: 4,
  first_quantum_us: 100,
  quantum_ratio: 2,
  promotion_ratio: 10,
  preemption_levels_min: 1,
  prefill_us_per_token: 1,
  resident_weight: 2,
}

describe('atlas', () => {
  it('starts a call by the longest path of its program, not by the service of its siblings', () => {
    const levelOf = (critical_path_us: number) =>
      new Atlas(CONFIG).arrive(policyCall({ settled_service_us: 1e9, critical_path_us }), 0).rank
    expect([0, 99, 100, 299, 300, 699, 700].map(levelOf)).toEqual([0, 0, 1, 1, 2, 2, 3])
  })
})
