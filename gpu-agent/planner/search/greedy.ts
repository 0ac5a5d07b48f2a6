/**
 * SamuLLM's Algorithm 1, adapted from Optimus. A stage begins empty. Again and again the plan is added, or replaces the one that its node has by one
 * with more GPUs, that raises the stage's throughput most for each GPU more. It is complete when nothing fits or nothing raises the throughput.
 * Loading is counted, by the forecast, for what did not run with the same plan before.
 *
 * Without preemption a node keeps its plan until it ends: stages begin with what runs.
 */
import { gpusOf, gpusOfStage, type Plan, type Stage } from '../plan.ts'
import { isReady, type NodeProgress, type State, throughput, type World } from '../world.ts'
import type { ChooseStage } from './complete-plan.ts'

export interface GreedyOptions {
  /** Nodes may be stopped, and change their plans, between stages. */
  preempt: boolean
}

export function greedy({ preempt }: GreedyOptions = { preempt: true }): ChooseStage {
  return (world, state) => {
    let stage: Stage = preempt ? new Map() : runningStage(state)
    for (;;) {
      const better = bestGrowth(world, state, stage, preempt)
      if (better === null) return stage
      stage = better
    }
  }
}

/** What runs, with its plans. */
export function runningStage(state: State): Map<number, Plan> {
  const stage = new Map<number, Plan>()
  for (const [node, { done, running }] of state.nodes.entries()) if (!done && running !== null) stage.set(node, running)
  return stage
}

/** The stage grown by the plan with the largest gain for each GPU. Null: none gains. */
export function bestGrowth<P extends NodeProgress>(
  world: World<P>,
  state: State<P>,
  stage: Stage,
  preempt: boolean,
): Stage | null {
  const forecast = stage.size === 0 ? null : world.forecast(state, stage, 'sketch')
  const before = forecast === null ? 0 : throughput(state, forecast)
  const used = gpusOfStage(stage)
  let best: Stage | null = null
  let best_gain = 0
  for (const node of world.nodes.keys()) {
    if (!isReady(world, state, stage, node)) continue
    const old = stage.get(node)
    if (old !== undefined && !preempt && state.nodes[node]?.running !== null) continue
    const old_gpus = old === undefined ? 0 : gpusOf(old)
    for (const plan of world.plans(node)) {
      const more = gpusOf(plan) - old_gpus
      if (more <= 0 || used + more > world.gpus) continue
      const grown = new Map(stage).set(node, plan)
      const then = world.forecast(state, grown, 'sketch')
      if (then === null) continue
      const gain = (throughput(state, then) - before) / more
      if (gain <= best_gain) continue
      best = grown
      best_gain = gain
    }
  }
  return best
}
