/** How far the searches are from the optimum where it can be found: small instances of which all stage sequences are tried. */
import { A100_COSTS } from '../../../gpu-agent/planner/costs/a100.ts'
import { lengthsOf } from '../../../gpu-agent/planner/lengths/model-lengths.ts'
import type { PlanOutcome } from '../../../gpu-agent/planner/plan.ts'
import { SimulatedWorld } from '../../../gpu-agent/planner/runs/simulated-world.ts'
import { exhaustivePlan } from '../../../gpu-agent/planner/search/exhaustive.ts'
import { type PlannerName, planBy } from '../../../gpu-agent/planner/search/planners.ts'
import type { ApplicationTokens } from '../../../src/protocol/application-tokens.ts'
import { chainSummary, ENSEMBLE_MODELS, ensembling, routing } from '../../planner/paper/applications.ts'
import { workloadOf } from './play-cell.ts'

export interface SmallCase {
  name: string
  gpus: number
  application: (seed: number) => ApplicationTokens
}

const LIMIT = 256

export const SMALL_CASES: readonly SmallCase[] = [
  { name: '4 models of the ensemble, 300 requests, 2 GPUs', gpus: 2, application: (seed) => ensemble(4, 300, seed) },
  { name: '3 models of the ensemble, 300 requests, 4 GPUs', gpus: 4, application: (seed) => ensemble(3, 300, seed) },
  { name: '3 models of the routing, 4 GPUs', gpus: 4, application: routed },
  {
    name: 'chain summary, 10 documents, 2 evaluations, 4 GPUs',
    gpus: 4,
    application: (seed) => chainSummary(10, 2, LIMIT, { seed }),
  },
]

export const GAP_PLANNERS: readonly PlannerName[] = ['ours', 'greedy', 'min', 'max']

/** Duration of each planner's plan ÷ that of the best. */
export function gaps({ application, gpus }: SmallCase, seed: number): Map<PlannerName, number> {
  const workload = workloadOf(application(seed), lengthsOf, seed)
  const world = () => new SimulatedWorld(workload, A100_COSTS.models, [{ gpus }])
  const best_s = totalS(exhaustivePlan(world()))
  return new Map(GAP_PLANNERS.map((name) => [name, totalS(planBy(name, world())) / best_s]))
}

/** Other models with each seed. */
function ensemble(models: number, requests: number, seed: number): ApplicationTokens {
  const { nodes, ...file } = ensembling(requests, LIMIT, { seed })
  const chosen = Array.from({ length: models }, (_, at) => ENSEMBLE_MODELS[(seed + at * 2) % ENSEMBLE_MODELS.length])
  return { ...file, nodes: nodes.filter(({ model }) => chosen.some((one) => one === model)) }
}

/** The models that fit one GPU, with a tenth of their requests. */
function routed(seed: number): ApplicationTokens {
  const { nodes, ...file } = routing({ known_lengths: false, seed })
  const small = nodes.filter(({ model }) => /7B|13B|34b/.test(model) && !model.startsWith('Mixtral'))
  const tenth = (requests: (typeof nodes)[number]['requests']) =>
    Array.isArray(requests) ? requests.filter((_, at) => at % 10 === 0) : requests
  return { ...file, nodes: small.map((node) => ({ ...node, requests: tenth(node.requests) })) }
}

function totalS(outcome: PlanOutcome): number {
  if (!outcome.ok) throw new RangeError(outcome.reason)
  return outcome.plan.total_s
}
