/** How far the searches are from the optimum where it can be found: four models of the ensemble on two GPUs, all stage sequences tried. */
import { A100_COSTS } from '../../../gpu-agent/planner/costs/a100.ts'
import { lengthsOf } from '../../../gpu-agent/planner/lengths/model-lengths.ts'
import type { PlanOutcome } from '../../../gpu-agent/planner/plan.ts'
import { SimulatedWorld } from '../../../gpu-agent/planner/runs/simulated-world.ts'
import { exhaustivePlan } from '../../../gpu-agent/planner/search/exhaustive.ts'
import { ENSEMBLE_MODELS, ensembling } from '../../planner/paper/applications.ts'
import { type PlannerName, planBy } from '../../planner/planners.ts'
import { workloadOf } from './play-cell.ts'

export const SMALL = { models: 4, gpus: 2, requests: 300, limit: 256 }

export const GAP_PLANNERS: readonly PlannerName[] = ['ours', 'greedy', 'min', 'max']

/** Duration of each planner's plan ÷ that of the best. */
export function gaps(seed: number): Map<PlannerName, number> {
  const { nodes, ...file } = ensembling(SMALL.requests, SMALL.limit, { seed })
  const models = Array.from(
    { length: SMALL.models },
    (_, at) => ENSEMBLE_MODELS[(seed + at * 2) % ENSEMBLE_MODELS.length],
  )
  const workload = workloadOf(
    { ...file, nodes: nodes.filter(({ model }) => models.some((one) => one === model)) },
    lengthsOf,
    seed,
  )
  const world = () => new SimulatedWorld(workload, A100_COSTS.models, [{ gpus: SMALL.gpus }])
  const best_s = totalS(exhaustivePlan(world()))
  return new Map(GAP_PLANNERS.map((name) => [name, totalS(planBy(name, world())) / best_s]))
}

function totalS(outcome: PlanOutcome): number {
  if (!outcome.ok) throw new RangeError(outcome.reason)
  return outcome.plan.total_s
}
