/**
 * A rule of ours that looks at the end instead of at throughput: what runs keeps running, the nodes that would take longest start first, each on as few
 * GPUs as it needs, and GPUs that are left go to the node that ends last, as long as it then ends earlier. It loads little and plays few requests.
 */
import { gpusOf, gpusOfStage, type Plan, type Stage } from '../plan.ts'
import { isReady, type NodeProgress, type State, type World } from '../world.ts'
import type { ChooseStage } from './complete-plan.ts'
import { runningStage } from './greedy.ts'

export const longestFirst: ChooseStage = (world, state) => {
  let stage: Stage = runningStage(state)
  for (;;) {
    const started = startLongest(world, state, stage)
    if (started === null) break
    stage = started
  }
  for (;;) {
    const hastened = hastenLast(world, state, stage)
    if (hastened === null) return stage
    stage = hastened
  }
}

function endOf<P extends NodeProgress>(world: World<P>, state: State<P>, stage: Stage, node: number): number {
  return world.forecast(state, stage, 'sketch')?.nodes.get(node)?.end_s ?? Number.POSITIVE_INFINITY
}

/** Of the nodes that can start: the one that ends last on its smallest plan. Null: none can. */
function startLongest<P extends NodeProgress>(world: World<P>, state: State<P>, stage: Stage): Stage | null {
  const free = world.gpus - gpusOfStage(stage)
  let best: Stage | null = null
  let last_s = Number.NEGATIVE_INFINITY
  for (const node of world.nodes.keys()) {
    if (stage.has(node) || !isReady(world, state, stage, node)) continue
    const plan = world.plans(node).find((one) => gpusOf(one) <= free)
    if (plan === undefined) continue
    const grown = new Map<number, Plan>(stage).set(node, plan)
    const end_s = endOf(world, state, grown, node)
    if (end_s <= last_s || end_s === Number.POSITIVE_INFINITY) continue
    best = grown
    last_s = end_s
  }
  return best
}

/** More GPUs for the node that ends last. Null: it would not end earlier. */
function hastenLast<P extends NodeProgress>(world: World<P>, state: State<P>, stage: Stage): Stage | null {
  const forecast = world.forecast(state, stage, 'sketch')
  if (forecast === null) return null
  const free = world.gpus - gpusOfStage(stage)
  const ends = [...forecast.nodes].sort(([, a], [, b]) => b.end_s - a.end_s)
  const [last] = ends
  if (last === undefined || free === 0) return null
  const [node, { end_s: last_s }] = last
  const old = gpusOf(stage.get(node) as Plan)
  let best: Stage | null = null
  let best_s = last_s
  for (const plan of world.plans(node)) {
    if (gpusOf(plan) <= old || gpusOf(plan) - old > free) continue
    const grown = new Map<number, Plan>(stage).set(node, plan)
    const end_s = endOf(world, state, grown, node)
    if (end_s >= best_s) continue
    best = grown
    best_s = end_s
  }
  return best
}
