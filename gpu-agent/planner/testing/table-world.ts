/**
 * Nodes whose times are given: for each node and plan the seconds that all its work takes, done at an even pace. For instances that can be worked out
 * by hand, and for search without simulation.
 */
import { type Host, NOTHING_PLACED, placeStage } from '../placement.ts'
import { gpusOf, type Plan, type Stage, samePlan } from '../plan.ts'
import type { Forecast, NodeProgress, StageForecast, State, World } from '../world.ts'

export interface TableNode {
  id: string
  inputs: readonly number[]
  /** FLOPs, in any unit. */
  work: number
  loading_s: number
  /** Seconds by plan; a plan that is not named is not valid. */
  times: readonly { plan: Plan; takes_s: number }[]
}

interface TableProgress extends NodeProgress {
  /** Share of the work. */
  left: number
  /** Of its loading, if it runs. */
  loading_left_s: number
}

const NOTHING = 1e-9

export class TableWorld implements World<TableProgress> {
  readonly gpus: number
  effort = 0
  readonly nodes: readonly TableNode[]
  readonly #hosts: readonly Host[]

  constructor(nodes: readonly TableNode[], hosts: readonly Host[]) {
    this.nodes = nodes
    this.#hosts = hosts
    this.gpus = hosts.reduce((sum, { gpus }) => sum + gpus, 0)
  }

  plans(node: number): readonly Plan[] {
    return this.nodes[node]?.times.map(({ plan }) => plan) ?? []
  }

  loadingS(node: number, _plan: Plan): number {
    return this.nodes[node]?.loading_s ?? 0
  }

  start(): State<TableProgress> {
    const progress: TableProgress = { done: false, running: null, left: 1, loading_left_s: 0 }
    return { now_s: 0, nodes: this.nodes.map(() => progress), placement: NOTHING_PLACED }
  }

  forecast(state: State<TableProgress>, stage: Stage): StageForecast<TableProgress> | null {
    const before = new Map([...state.placement].filter(([node]) => stage.has(node)))
    const placed = placeStage(this.#hosts, before, stage, (node) => this.loadingS(node, stage.get(node) as Plan))
    if (placed === null) return null
    this.effort += stage.size
    const nodes = new Map<number, Forecast>()
    const begins_s = new Map<number, number>()
    const loads = new Set<number>()
    for (const [node, plan] of stage) {
      const progress = state.nodes[node] as TableProgress
      const goes_on = samePlan(progress.running, plan) && !placed.moved.has(node)
      if (!goes_on) loads.add(node)
      const begin_s = state.now_s + (goes_on ? progress.loading_left_s : this.loadingS(node, plan))
      const takes_s = this.#takesS(node, plan) * progress.left
      const work = (this.nodes[node]?.work ?? 0) * progress.left
      begins_s.set(node, begin_s)
      nodes.set(node, {
        end_s: begin_s + takes_s,
        busyGpuS: (at_s) => gpusOf(plan) * Math.min(takes_s, Math.max(0, at_s - begin_s)),
        workBy: (at_s) => work * Math.min(1, Math.max(0, (at_s - begin_s) / takes_s)),
      })
    }
    const end_s = Math.min(...Array.from(nodes.values(), (one) => one.end_s))
    const stateAt = (at_s: number): State<TableProgress> => {
      const after = state.nodes.map((progress, node): TableProgress => {
        const plan = stage.get(node)
        if (plan === undefined) return { ...progress, running: null, loading_left_s: 0 }
        const begin_s = begins_s.get(node) as number
        const left = progress.left - Math.max(0, at_s - begin_s) / this.#takesS(node, plan)
        if (left <= NOTHING) return { done: true, running: null, left: 0, loading_left_s: 0 }
        return { done: false, running: plan, left, loading_left_s: Math.max(0, begin_s - at_s) }
      })
      const kept = [...placed.placement].filter(([node]) => after[node]?.running !== null)
      return { now_s: at_s, nodes: after, placement: new Map(kept) }
    }
    return { nodes, placement: placed.placement, loads, end_s, stateAt }
  }

  #takesS(node: number, plan: Plan): number {
    const time = this.nodes[node]?.times.find((one) => samePlan(one.plan, plan))
    if (time === undefined) throw new RangeError(`node ${node} has no time for (${plan.dp}, ${plan.tp})`)
    return time.takes_s
  }
}
