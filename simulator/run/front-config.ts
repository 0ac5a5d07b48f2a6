/** The simulation config for one point of a plan: plain engines, engines behind the agent's queue, or a hosted API. */
import type { SimulationConfig } from '../simulation-types.ts'
import type { WorkloadProgram } from '../workloads/program.ts'
import { providerFront, queueFront } from '../world/fronts.ts'
import { timesLimits } from '../world/sim-provider.ts'
import { configOf, enginesOf, type RunPoint } from './play-plan.ts'
import type { RunPlan } from './run-plan.ts'

export function frontConfigOf(
  plan: RunPlan,
  point: RunPoint,
  programs: readonly WorkloadProgram[],
  history: readonly WorkloadProgram[],
): SimulationConfig {
  const config = configOf(plan, point, programs, history)
  const { provider } = plan
  if (provider === null) return point.front === 'engine' ? config : { ...config, front: queueFront() }
  // There is one provider. The fleet's number of engines multiplies its limits.
  const regions = config.regions.slice(0, 1).map((region) => ({ ...region, engines: 1 }))
  return { ...config, regions, front: providerFront(timesLimits(provider, enginesOf(point.fleet))) }
}
