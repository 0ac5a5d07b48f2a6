/**
 * The dynamic scheduler (SamuLLM §4.3): carries a plan out when nodes end earlier or later than planned, or are not ready yet, without searching again.
 *
 * The present stage is the first one in which a node has yet to end that was to end in it. While all goes as planned, it runs as it is. If another of its
 * nodes has ended before, GPUs are free that the plan needed: nodes of the next stages take them in order, and a stage is only looked at once every node
 * of the one before has been placed or has ended. What was started early keeps its plan.
 */
import { type ApplicationPlan, gpusOf, gpusOfStage, type Plan, type Stage, samePlan } from '../plan.ts'
import { isReady, type State, type World } from '../world.ts'
import type { ChooseStage } from './complete-plan.ts'
import { runningStage } from './greedy.ts'

interface Planned {
  stage: Stage
  ends: readonly number[]
}

/** `plan` is for the same nodes. */
export function followPlan({ stages }: ApplicationPlan): ChooseStage {
  const planned = stages.map(({ nodes }): Planned => {
    const stage = new Map(nodes.map(({ node, plan }) => [node, plan]))
    return { stage, ends: nodes.filter(({ finishes }) => finishes).map(({ node }) => node) }
  })
  return (world, state) => {
    const isOpen = (node: number) => state.nodes[node]?.done === false
    const at = planned.findIndex(({ ends }) => ends.some(isOpen))
    const present = planned[at]
    if (present === undefined) return new Map()
    const running = runningStage(state)
    const chosen = new Map<number, Plan>()
    place(world, state, withEarlyStarts(present.stage, running, planned.slice(at)), chosen)
    const early = [...present.stage.keys()].some((node) => !isOpen(node))
    if (early || chosen.size === 0)
      for (const { stage } of planned.slice(at + 1)) if (!place(world, state, stage, chosen)) break
    return chosen
  }
}

/** The stage with the plans with which its nodes run already, where a later stage has those. */
function withEarlyStarts(stage: Stage, running: Stage, later: readonly Planned[]): Stage {
  const plans = [...stage].map(([node, plan]): [number, Plan] => {
    const now = running.get(node)
    const early = now !== undefined && later.some((one) => samePlan(one.stage.get(node), now))
    return [node, early ? now : plan]
  })
  const started = [...running].filter(
    ([node, plan]) => !stage.has(node) && later.some((one) => samePlan(one.stage.get(node), plan)),
  )
  return new Map([...plans, ...started])
}

/** Adds the nodes that are open and ready, as far as GPUs are free. False: one did not fit, or is not ready. */
function place(world: World, state: State, stage: Stage, chosen: Map<number, Plan>): boolean {
  let all = true
  for (const [node, plan] of stage) {
    if (state.nodes[node]?.done !== false || chosen.has(node)) continue
    if (gpusOfStage(chosen) + gpusOf(plan) <= world.gpus && isReady(world, state, chosen, node)) chosen.set(node, plan)
    else all = false
  }
  return all
}
