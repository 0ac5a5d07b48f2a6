/**
 * The stage that comes next in a plan, given what has ended and what runs: the dynamic scheduler chooses the nodes, and the placement moves as little
 * as it can (SamuLLM §4.3). Without requests: only which nodes have ended counts, so it needs no simulation.
 */
import type { ChooseQuestion, HostPlan, PlacedNode } from '../../../src/protocol/host.ts'
import { type Placed, type Placement, placeStage } from '../../planner/placement.ts'
import { gpusOf, type Plan, type Stage } from '../../planner/plan.ts'
import { followPlan } from '../../planner/search/follow-plan.ts'
import { isReady, type State, type World } from '../../planner/world.ts'

export type NextStage = { ok: true; placed: PlacedNode[] } | { ok: false; reason: string }

/** `loadingS`: of a model on so many GPUs. */
export function nextStage(
  { plan, hosts, done, placed }: Pick<ChooseQuestion, 'plan' | 'hosts' | 'done' | 'placed'>,
  loadingS: (model: string, tp: number) => number,
): NextStage {
  const before: Placement = new Map(
    placed.map(({ node, tp, first_gpus }): [number, Placed] => [
      node,
      { plan: { dp: first_gpus.length, tp }, first_gpus },
    ]),
  )
  const ended = new Set(done)
  const state: State = {
    now_s: 0,
    nodes: plan.nodes.map((_, node) => ({ done: ended.has(node), running: before.get(node)?.plan ?? null })),
    placement: before,
  }
  const world = worldOf(plan, hosts, loadingS)
  const followed = followPlan(plan)(world, state, 0)
  const stage = followed.size > 0 ? followed : anyReady(plan, world, state)
  if (stage === null) return { ok: false, reason: 'no node is left that can run' }
  const stays: Placement = new Map([...before].filter(([node]) => stage.has(node)))
  const found = placeStage(hosts, stays, stage, (node) => world.loadingS(node, stage.get(node) as Plan))
  if (found === null) return { ok: false, reason: 'the hosts have no room for the stage' }
  const next = [...found.placement].map(
    ([
      node,
      {
        plan: { tp },
        first_gpus,
      },
    ]): PlacedNode => ({ node, tp, first_gpus: [...first_gpus] }),
  )
  return { ok: true, placed: next.sort((a, b) => a.node - b.node) }
}

/** Ended nodes may have ended in an order that no stage foresaw: a node that can run, with its first plan. */
function anyReady({ nodes, stages }: HostPlan, world: World, state: State): Stage | null {
  for (const node of nodes.keys()) {
    const plan = stages.flatMap((stage) => stage.nodes).find((one) => one.node === node)?.plan
    if (plan === undefined || gpusOf(plan) > world.gpus) continue
    if (isReady(world, state, new Map(), node)) return new Map([[node, plan]])
  }
  return null
}

/** Nothing is simulated: the scheduler looks only at GPUs, inputs and what has ended. */
function worldOf(
  { nodes }: HostPlan,
  hosts: readonly { gpus: number }[],
  loadingS: (model: string, tp: number) => number,
): World {
  return {
    gpus: hosts.reduce((sum, host) => sum + host.gpus, 0),
    effort: 0,
    nodes: nodes.map(({ ids, inputs }) => ({ id: ids[0] ?? '', inputs })),
    plans: () => [],
    loadingS: (node, { tp }) => loadingS(nodes[node]?.model ?? '', tp),
    start: () => ({ now_s: 0, nodes: [], placement: new Map() }),
    forecast: () => null,
  }
}
