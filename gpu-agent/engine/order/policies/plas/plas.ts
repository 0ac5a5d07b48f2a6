/**
 * Program-level attained service (Autellix §4.2.1, eq. 1). Equation 1 sums over the calls of a single-threaded program,
 * where the sum is the path. For programs of several threads line 4 of Algorithm 1 takes the maximum over threads. Here
 * attained service is the geometric mean of both: √(sum · path). The sum alone treats a wide program as a long one. The
 * path alone lets a wide program take many seats at a short one's rank. README.md has the figures. The queues are in
 * levels/program-levels.ts.
 */
import { PROGRAM_LEVELS, type ProgramLevelConfig } from '../levels/levels.ts'
import { type Attained, ProgramLevels } from '../levels/program-levels.ts'

/** √(sum · path). With each of n open calls charged x more, the sum grows by n·x and the path by x at most. */
export const SUM_AND_PATH: Attained = {
  name: 'attained service',
  us: ({ service_us, path_us }) => Math.sqrt(service_us * path_us),
  leftUs({ service_us, path_us, open_calls }, target_us) {
    if (target_us === Number.POSITIVE_INFINITY) return target_us
    // (service + n·x) · (path + x) < target²
    const calls = Math.max(1, open_calls)
    const linear = service_us + calls * path_us
    const missing = target_us ** 2 - service_us * path_us
    return Math.max(0, Math.floor((Math.sqrt(linear ** 2 + 4 * calls * missing) - linear) / (2 * calls)) - 1)
  },
}

export class Plas extends ProgramLevels {
  constructor(config: ProgramLevelConfig = PROGRAM_LEVELS.modelled) {
    super('plas', SUM_AND_PATH, config)
  }
}
