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
    const early_starts = earlyStarts(running, planned[at - 1]?.stage ?? new Map(), planned.slice(at))
    place(world, state, new Map([...present.stage, ...early_starts]), chosen)
    const early = [...present.stage.keys()].some((node) => !isOpen(node))
    if (early || chosen.size === 0)
      for (const { stage } of planned.slice(at + 1)) if (!place(world, state, stage, chosen)) break
    return chosen
  }
}

/** Nodes that run with the plan of a later stage, which the stage before did not have: they were started early. */
function earlyStarts(running: Stage, before: Stage, later: readonly Planned[]): [number, Plan][] {
  return [...running].filter(
    ([node, plan]) => !samePlan(before.get(node), plan) && later.some(({ stage }) => samePlan(stage.get(node), plan)),
  )
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
