/**
 * The heuristics that SamuLLM is compared with (§5), with the same cost model. Both choose anew when a node ends.
 *
 * Max-heuristic: one node at a time on all GPUs, with the (dp, tp) that is fastest by the cost model.
 * Min-heuristic: as many nodes at a time as there are GPUs for, and GPUs as even as possible. All such partitions are enumerated, each node with its
 * fastest (dp, tp) for its share, and the partition of the highest throughput is taken.
 */
import { gpusOf, gpusOfStage, type Plan, type Stage } from '../plan.ts'
import { isReady, type NodeProgress, type State, throughput, type World } from '../world.ts'
import type { ChooseStage } from './complete-plan.ts'
import { runningStage } from './greedy.ts'

/** Partitions that are compared for one stage: all of the paper's applications have fewer. */
const PARTITIONS_MAX = 20_000

export const maxHeuristic: ChooseStage = (world, state) => {
  const node = world.nodes.keys().find((one) => isReady(world, state, new Map(), one))
  if (node === undefined) return new Map()
  const plan = fastest(world, state, new Map(), node, world.gpus)
  return plan === null ? new Map() : new Map([[node, plan]])
}

/** What is done without a planner: one node at a time, in one engine on as many GPUs as it takes. */
export const oneByOne: ChooseStage = (world, state) => {
  const node = world.nodes.keys().find((one) => isReady(world, state, new Map(), one))
  const plans = node === undefined ? [] : world.plans(node).filter(({ dp }) => dp === 1)
  const widest = plans.toSorted((a, b) => b.tp - a.tp)[0]
  return node === undefined || widest === undefined ? new Map() : new Map([[node, widest]])
}

export function minHeuristic({ preempt }: { preempt: boolean } = { preempt: true }): ChooseStage {
  return (world, state) => {
    const fixed = preempt ? new Map<number, Plan>() : runningStage(state)
    const nodes = candidates(world, state, fixed)
    const gpus = world.gpus - gpusOfStage(fixed)
    for (let count = Math.min(nodes.length, gpus); count > 0; count -= 1) {
      const stage = bestPartition(world, state, fixed, nodes, count, gpus)
      if (stage !== null) return stage
    }
    return fixed
  }
}

/** Nodes that could run beside what is fixed; one whose input is among them too. */
function candidates(world: World, state: State, fixed: Stage): number[] {
  const stage = new Map<number, Plan>(fixed)
  const nodes: number[] = []
  for (let found = true; found; ) {
    found = false
    for (const node of world.nodes.keys()) {
      if (stage.has(node) || !isReady(world, state, stage, node)) continue
      stage.set(node, { dp: 1, tp: 1 })
      nodes.push(node)
      found = true
    }
  }
  return nodes
}

function bestPartition<P extends NodeProgress>(
  world: World<P>,
  state: State<P>,
  fixed: Stage,
  nodes: readonly number[],
  count: number,
  gpus: number,
): Stage | null {
  let best: Stage | null = null
  let best_throughput = Number.NEGATIVE_INFINITY
  let left = PARTITIONS_MAX
  for (const chosen of subsets(nodes, count)) {
    for (const larger of subsets(chosen, gpus % count)) {
      left -= 1
      if (left < 0) return best
      const share = Math.floor(gpus / count)
      const stage = withShares(world, state, fixed, chosen, (node) => share + (larger.includes(node) ? 1 : 0))
      const forecast = stage === null ? null : world.forecast(state, stage, 'sketch')
      if (stage === null || forecast === null) continue
      const reached = throughput(state, forecast)
      if (reached <= best_throughput) continue
      best = stage
      best_throughput = reached
    }
  }
  return best
}

/** Null: a node has no plan for its share, or its input is not there. */
function withShares<P extends NodeProgress>(
  world: World<P>,
  state: State<P>,
  fixed: Stage,
  nodes: readonly number[],
  share: (node: number) => number,
): Stage | null {
  const stage = new Map<number, Plan>(fixed)
  for (const node of nodes) {
    if (!isReady(world, state, stage, node)) return null
    const plan = fastest(world, state, stage, node, share(node))
    if (plan === null) return null
    stage.set(node, plan)
  }
  return stage
}

/** The plan with which the node ends first, of those that use the GPUs best: all of them, or as many as any plan does. */
function fastest<P extends NodeProgress>(
  world: World<P>,
  state: State<P>,
  stage: Stage,
  node: number,
  gpus: number,
): Plan | null {
  const fitting = world.plans(node).filter((plan) => gpusOf(plan) <= gpus)
  const most = Math.max(0, ...fitting.map(gpusOf))
  let best: Plan | null = null
  let best_s = Number.POSITIVE_INFINITY
  for (const plan of fitting) {
    if (gpusOf(plan) < most) continue
    const end_s = world.forecast(state, alone(world, state, stage, node, plan), 'sketch')?.nodes.get(node)?.end_s
    if (end_s === undefined || end_s >= best_s) continue
    best = plan
    best_s = end_s
  }
  return best
}

/** The node and those of the stage that it takes outputs from. */
function alone(world: World, state: State, stage: Stage, node: number, plan: Plan): Stage {
  const kept = new Map<number, Plan>([[node, plan]])
  const add = (one: number) => {
    for (const input of world.nodes[one]?.inputs ?? []) {
      const its = stage.get(input)
      if (its === undefined || kept.has(input) || state.nodes[input]?.done) continue
      kept.set(input, its)
      add(input)
    }
  }
  add(node)
  return kept
}

function* subsets<T>(items: readonly T[], count: number): Generator<T[]> {
  if (count === 0) {
    yield []
    return
  }
  for (let at = 0; at + count <= items.length; at += 1)
    for (const rest of subsets(items.slice(at + 1), count - 1)) yield [items[at] as T, ...rest]
}
