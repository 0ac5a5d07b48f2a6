/**
 * From a rule that chooses stages to a whole plan: stage after stage, each until its first node ends, until all nodes are done. Every search is such
 * a rule, so all of them are judged by the same simulation.
 */
import { gpusOfReplica } from '../placement.ts'
import { gpusOfStage, type PlannedNode, type PlannedStage, type PlanOutcome, type Stage } from '../plan.ts'
import { isDone, isValidStage, type NodeProgress, type StageForecast, type State, type World } from '../world.ts'

/** The next stage. Empty: no valid one exists. */
export type ChooseStage = <P extends NodeProgress>(world: World<P>, state: State<P>, stage_number: number) => Stage

/** A stage ends with a node, and a node that moves starts at most one stage more. */
const STAGES_PER_NODE_MAX = 4

export function completePlan<P extends NodeProgress>(
  world: World<P>,
  choose: ChooseStage,
  from: State<P> = world.start(),
): PlanOutcome {
  const stages: PlannedStage[] = []
  let state = from
  while (!isDone(state)) {
    if (stages.length >= world.nodes.length * STAGES_PER_NODE_MAX)
      return { ok: false, reason: `no end after ${stages.length} stages` }
    const stage = choose(world, state, stages.length)
    if (!isValidStage(world, state, stage)) return { ok: false, reason: reasonOf(world, state, stage) }
    const forecast = world.forecast(state, stage)
    if (forecast === null) return { ok: false, reason: 'the hosts cannot place the stage' }
    if (!Number.isFinite(forecast.end_s)) return { ok: false, reason: 'no node of the stage ever ends' }
    const after = forecast.stateAt(forecast.end_s)
    stages.push(plannedStage(world, state, stage, forecast, after))
    state = after
  }
  return { ok: true, plan: { stages, total_s: state.now_s } }
}

function plannedStage<P extends NodeProgress>(
  world: World<P>,
  state: State<P>,
  stage: Stage,
  forecast: StageForecast<P>,
  after: State<P>,
): PlannedStage {
  const nodes = [...stage].map(
    ([node, plan]): PlannedNode => ({
      ...{ node, plan },
      loading_s: forecast.loads.has(node) ? world.loadingS(node, plan) : null,
      gpus: (forecast.placement.get(node)?.first_gpus ?? []).map((first) => gpusOfReplica(first, plan.tp)),
      finishes: after.nodes[node]?.done === true,
      busy_gpu_s: forecast.nodes.get(node)?.busyGpuS(after.now_s) ?? 0,
    }),
  )
  return { start_s: state.now_s, end_s: after.now_s, nodes: nodes.sort((a, b) => a.node - b.node) }
}

function reasonOf(world: World, state: State, stage: Stage): string {
  const left = world.nodes.filter((_, node) => state.nodes[node]?.done === false).map(({ id }) => id)
  if (stage.size === 0) {
    const unfit = world.nodes.find((_, node) => state.nodes[node]?.done === false && world.plans(node).length === 0)
    if (unfit !== undefined)
      return `${unfit.id}: the model does not fit ${world.gpus === 1 ? 'one GPU' : `${world.gpus} GPUs`}, or has no costs for them`
    return `no stage can run ${left.join(', ')}`
  }
  return `a stage of ${gpusOfStage(stage)} GPUs is not valid; left to run: ${left.join(', ')}`
}
