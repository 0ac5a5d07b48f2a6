/**
 * What a search plans for: nodes with dependencies, the plans that each may have, and what comes of a stage. There are two: requests in simulated
 * time (runs/simulated-world.ts), and times from a table (table-world.ts) for instances that can be worked out by hand.
 */
import type { Placement } from './placement.ts'
import type { Plan, Stage } from './plan.ts'

/** How far a node has come. Immutable. */
export interface NodeProgress {
  readonly done: boolean
  /** With which plan it runs when the stage begins. Null: it does not run. */
  readonly running: Plan | null
}

export interface State<P extends NodeProgress = NodeProgress> {
  readonly now_s: number
  readonly nodes: readonly P[]
  readonly placement: Placement
}

/** What becomes of a node in a stage if the stage goes on. */
export interface Forecast {
  readonly end_s: number
  /** FLOPs that the node computes in this stage until `at_s`. */
  workBy(at_s: number): number
  /** GPU seconds in which it computes until then. Loading is not among them. */
  busyGpuS(at_s: number): number
}

export interface StageForecast<P extends NodeProgress = NodeProgress> {
  readonly nodes: ReadonlyMap<number, Forecast>
  readonly placement: Placement
  /** Nodes that load: those that did not run with this plan, or had to move. */
  readonly loads: ReadonlySet<number>
  /** The first end of a node. */
  readonly end_s: number
  /** The state at `at_s`, at most `end_s`. */
  stateAt(at_s: number): State<P>
}

export interface World<P extends NodeProgress = NodeProgress> {
  readonly gpus: number
  /** Requests played so far: what the planning costs. */
  readonly effort: number
  /** Names for messages; `inputs`: the nodes whose outputs it takes. */
  readonly nodes: readonly { readonly id: string; readonly inputs: readonly number[] }[]
  /** Plans with which the node's weights and one sequence fit, on at most `gpus` GPUs. */
  plans(node: number): readonly Plan[]
  loadingS(node: number, plan: Plan): number
  start(): State<P>
  /** Null: the hosts cannot place it. The stage is valid otherwise (`isReady`). Default: exact. */
  forecast(state: State<P>, stage: Stage, detail?: Detail): StageForecast<P> | null
}

/** A sketch is enough to compare stages. What follows from a stage (`stateAt`, its `end_s`) is taken from an exact forecast. */
export type Detail = 'sketch' | 'exact'

/** Its inputs have ended, or run in the same stage (§3: then they form a pipeline). */
export function isReady(world: World, state: State, stage: Stage, node: number): boolean {
  if (state.nodes[node]?.done !== false) return false
  return (world.nodes[node]?.inputs ?? []).every((input) => state.nodes[input]?.done === true || stage.has(input))
}

/** A stage is valid if every node's inputs are done or in it, every plan fits its model, and the GPUs suffice. */
export function isValidStage(world: World, state: State, stage: Stage): boolean {
  let gpus = 0
  for (const [node, plan] of stage) {
    if (!isReady(world, state, stage, node)) return false
    if (!world.plans(node).some((one) => one.dp === plan.dp && one.tp === plan.tp)) return false
    gpus += plan.dp * plan.tp
  }
  return stage.size > 0 && gpus <= world.gpus
}

export function isDone(state: State): boolean {
  return state.nodes.every(({ done }) => done)
}

/** T_E = FLOPs in the stage ÷ its duration (§3). */
export function throughput(state: State, forecast: StageForecast): number {
  let work = 0
  for (const node of forecast.nodes.values()) work += node.workBy(forecast.end_s)
  return work / Math.max(forecast.end_s - state.now_s, Number.MIN_VALUE)
}
