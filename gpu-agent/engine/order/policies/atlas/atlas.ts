/**
 * Adaptive Thread-Level Attained Service (Autellix §4.2.1, eq. 2): a program has attained the service along its longest
 * chain of calls, not the sum over parallel ones. So a wide program does not count as a long one. Between programs only the
 * observed scalar counts, so declaring parents gains nothing. The queues are in levels/program-levels.ts.
 */
import { PROGRAM_LEVELS, type ProgramLevelConfig } from '../levels/levels.ts'
import { type Attained, ProgramLevels } from '../levels/program-levels.ts'

export const PATH: Attained = {
  name: 'service along its longest path',
  us: ({ path_us }) => path_us,
  leftUs: ({ path_us }, target_us) => Math.max(0, target_us - path_us),
}

export class Atlas extends ProgramLevels {
  constructor(config: ProgramLevelConfig = PROGRAM_LEVELS.modelled) {
    super('atlas', PATH, config)
  }
}
