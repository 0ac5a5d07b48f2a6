/** How the engines of a host are set up, and what follows for a model: its replicas, the plans that fit, the order of nodes. */
import { IterationCosts } from '../costs/iteration-costs.ts'
import type { ModelCosts } from '../costs/model-costs.ts'
import { gpusOf, type Plan } from '../plan.ts'
import type { ReplicaConfig } from './replica-run.ts'

export interface EngineSettings {
  seats: number
  block_tokens: number
  /** A prompt of this many tokens fits one iteration, or one of the model's length if that is more. */
  step_tokens: number
  /** As ReplicaConfig has it. */
  padding_tokens_max: number | null
}

/** vLLM's defaults in the version of the logs. */
export const LOGGED_ENGINE: EngineSettings = {
  seats: 256,
  block_tokens: 16,
  step_tokens: 2048,
  padding_tokens_max: 256,
}

export function configOf(
  costs: ModelCosts,
  settings: EngineSettings,
  compiled: Map<ModelCosts, ReplicaConfig>,
): ReplicaConfig {
  const known = compiled.get(costs)
  if (known !== undefined) return known
  const { seats, block_tokens, step_tokens } = costs.engine ?? settings
  const own = costs.engine?.padding_tokens_max
  const padding_tokens_max = own === undefined ? settings.padding_tokens_max : own
  const config: ReplicaConfig = {
    ...{ seats, block_tokens, padding_tokens_max, costs: new IterationCosts(costs) },
    step_tokens: Math.max(step_tokens, costs.max_model_tokens),
    capacity_blocks: Math.floor(costs.kv_tokens / block_tokens),
  }
  compiled.set(costs, config)
  return config
}

/** Plans that fit the GPUs; the weights and one sequence fit wherever there are costs. */
export function plansOf(degrees: readonly number[], gpus: number): Plan[] {
  return degrees
    .flatMap((tp) => Array.from({ length: Math.floor(gpus / tp) }, (_, at): Plan => ({ dp: at + 1, tp })))
    .sort((a, b) => gpusOf(a) - gpusOf(b) || a.tp - b.tp)
}

/** Inputs before the nodes that take them. Throws RangeError for a circle: applications are checked before. */
export function dataFlow(nodes: readonly { inputs: readonly number[] }[]): number[] {
  const order: number[] = []
  while (order.length < nodes.length) {
    const node = nodes.findIndex((one, at) => !order.includes(at) && one.inputs.every((input) => order.includes(input)))
    if (node === -1) throw new RangeError('the nodes depend on each other in a circle')
    order.push(node)
  }
  return order
}
