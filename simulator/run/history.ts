/**
 * `--history`: programs that ended before the run. Policies that learn see them. A file is held to the format of a trace
 * and refused by file and line, also where no policy of the run learns.
 */
import { readTrace, type WorkloadProgram } from '../workloads/index.ts'
import type { RunPlan } from './run-plan.ts'
import { WorkloadPrograms } from './workload-programs.ts'

/** Empty: the run has no history. Throws TraceError, or RangeError where programs cannot be drawn. */
export function readHistory(plan: RunPlan): WorkloadProgram[] {
  const { history, seeds } = plan
  if (history === null) return []
  if (typeof history === 'string') return readTrace(history)
  // No seed of the run, so that a policy has not seen the programs that it is to order.
  const seed = seeds.reduce((most, one) => Math.max(most, one), 0) + 1
  const drawn = new WorkloadPrograms({ ...plan, programs: history, arrivals: { kind: 'burst' } })
  return drawn.of(seed)
}
