/**
 * The planner's world of requests: a stage is played with one ReplicaRun for each replica. Nodes of a stage that depend on each other are played in
 * the order of the data flow, and the ends of requests are the ready times of those that wait for them (SamuLLM §4.1).
 *
 * Most forecasts are asked for again and again: what becomes of a node with a plan does not depend on the other nodes of the stage unless it takes
 * their outputs. They are kept with the node's progress, and for a node that does not run yet with times from its start on.
 */
import type { ModelCosts } from '../costs/model-costs.ts'
import { type Host, NOTHING_PLACED, type Placement, placeStage } from '../placement.ts'
import { type Plan, type Stage, samePlan } from '../plan.ts'
import { inputsOf, type NodeWorkload, type Workload } from '../workload.ts'
import type { Detail, Forecast, NodeProgress, StageForecast, State, World } from '../world.ts'
import { configOf, dataFlow, type EngineSettings, LOGGED_ENGINE, plansOf } from './engine-settings.ts'
import { type Beginning, continued, heaviestOf, NodeForecast } from './node-forecast.ts'
import {
  cloneReplicas,
  deal,
  type NodeRequests,
  nodeRequests,
  type Replicas,
  startReplica,
  takeRequests,
} from './node-requests.ts'
import { STEADY_REQUESTS, steadyPlans } from './prune-plans.ts'
import type { ReplicaConfig } from './replica-run.ts'
import { SKETCH_REQUESTS } from './sketch.ts'

class SimulatedProgress implements NodeProgress {
  readonly requests: NodeRequests
  /** The replicas at this time, if they run. Never run further: clones are. */
  readonly replicas: Replicas | null
  readonly running: Plan | null
  readonly forecasts = new Map<string, NodeForecast>()

  constructor(requests: NodeRequests, running: Plan | null, replicas: Replicas | null) {
    this.requests = requests
    this.running = running
    this.replicas = replicas
  }

  get done(): boolean {
    return this.requests.unfinished === 0
  }
}

/** When each request of a node becomes ready. */
type ReadyTimes = (request: number) => number

interface Shifted extends Forecast {
  forecast: NodeForecast
  /** The forecast's times are from this time on. */
  shift_s: number
  plan: Plan
  /** Requests of it wait for other nodes of the stage. */
  waits: boolean
}

export class SimulatedWorld implements World<SimulatedProgress> {
  readonly gpus: number
  readonly nodes: readonly { id: string; inputs: readonly number[] }[]
  readonly #workload: Workload
  readonly #hosts: readonly Host[]
  readonly #costs: readonly ReadonlyMap<number, ReplicaConfig>[]
  readonly #plans: readonly (readonly Plan[])[]
  /** In which inputs come before the nodes that take them. */
  readonly #order: readonly number[]
  effort = 0
  readonly #numbers = new WeakMap<NodeForecast, number>()
  #numbered = 0
  /** Nodes of whose requests some follow others. */
  readonly #follows: readonly boolean[]
  /** Nodes whose requests neither follow each other nor are waited for: their replicas are alike. */
  readonly #alike: readonly boolean[]

  constructor(
    workload: Workload,
    costs: readonly ModelCosts[],
    hosts: readonly Host[],
    settings: EngineSettings = LOGGED_ENGINE,
  ) {
    this.#workload = workload
    this.#hosts = hosts
    this.gpus = hosts.reduce((sum, host) => sum + host.gpus, 0)
    const widest = Math.max(...hosts.map((host) => host.gpus))
    this.nodes = workload.nodes.map((node) => ({ id: node.id, inputs: inputsOf(node) }))
    const compiled = new Map<ModelCosts, ReplicaConfig>()
    this.#costs = workload.nodes.map(({ model }) => {
      const usable = costs.filter((one) => one.model === model && one.tp <= widest)
      return new Map(usable.map((one) => [one.tp, configOf(one, settings, compiled)]))
    })
    this.#order = dataFlow(this.nodes)
    const inputs = new Set(this.nodes.flatMap((node) => node.inputs))
    this.#follows = workload.nodes.map(({ next }) => next.some((one) => one >= 0))
    this.#alike = workload.nodes.map((_, node) => !inputs.has(node) && !this.#follows[node])
    this.#plans = this.#costs.map((by_tp, node) => {
      const plans = plansOf([...by_tp.keys()], this.gpus)
      const { input_tokens, output_tokens, parents } = workload.nodes[node] as NodeWorkload
      const steady = this.#alike[node] && parents === null && input_tokens.length >= STEADY_REQUESTS * this.gpus
      return steady ? steadyPlans(plans, by_tp, input_tokens, output_tokens) : plans
    })
  }

  plans(node: number): readonly Plan[] {
    return this.#plans[node] ?? []
  }

  loadingS(node: number, { dp, tp }: Plan): number {
    const { loading_s, loading_per_replica_s } = this.#config(node, tp).costs.costs
    return loading_s + (dp - 1) * loading_per_replica_s
  }

  start(): State<SimulatedProgress> {
    return {
      now_s: 0,
      nodes: this.#workload.nodes.map((node) => new SimulatedProgress(nodeRequests(node), null, null)),
      placement: NOTHING_PLACED,
    }
  }

  forecast(
    state: State<SimulatedProgress>,
    stage: Stage,
    detail: Detail = 'exact',
  ): StageForecast<SimulatedProgress> | null {
    const before: Placement = new Map([...state.placement].filter(([node]) => stage.has(node)))
    const placed = placeStage(this.#hosts, before, stage, (node) => this.loadingS(node, stage.get(node) as Plan))
    if (placed === null) return null
    const nodes = new Map<number, Shifted>()
    const loads = new Set<number>()
    for (const node of this.#order) {
      const plan = stage.get(node)
      if (plan === undefined) continue
      const goes_on = samePlan(state.nodes[node]?.running, plan) && !placed.moved.has(node)
      if (!goes_on) loads.add(node)
      nodes.set(node, this.#nodeForecast(state, node, plan, goes_on, nodes, detail === 'exact'))
    }
    const end_s = Math.min(...Array.from(nodes.values(), (one) => one.end_s))
    const { placement } = placed
    return { nodes, placement, loads, end_s, stateAt: (at_s) => this.#stateAt(state, nodes, placement, at_s) }
  }

  #nodeForecast(
    state: State<SimulatedProgress>,
    node: number,
    plan: Plan,
    goes_on: boolean,
    stage: ReadonlyMap<number, Shifted>,
    exact: boolean,
  ): Shifted {
    const progress = state.nodes[node] as SimulatedProgress
    const start_s = state.now_s + (goes_on ? 0 : this.loadingS(node, plan))
    const waits = this.#readyTimes(state, node, stage)
    const shift_s = goes_on || waits !== null ? 0 : start_s
    const key =
      waits === null ? keyOf(goes_on, plan) : `${keyOf(goes_on, plan)} ${start_s} ${this.#inputKey(node, stage)}`
    let forecast = progress.forecasts.get(key)
    if (forecast === undefined) {
      forecast = new NodeForecast(
        goes_on
          ? this.#continued(node, progress, waits)
          : this.#started(node, plan, progress, start_s - shift_s, waits),
      )
      progress.forecasts.set(key, forecast)
    }
    return shifted(forecast, shift_s, plan, waits !== null, exact)
  }

  /** Which forecasts the ready times of a node's requests come from. */
  #inputKey(node: number, stage: ReadonlyMap<number, Shifted>): string {
    const keys = (this.nodes[node]?.inputs ?? []).map((input) => {
      const coming = stage.get(input)
      if (coming === undefined) return ''
      const number = this.#numbers.get(coming.forecast) ?? this.#numbered
      if (number === this.#numbered) this.#numbered += 1
      this.#numbers.set(coming.forecast, number)
      return `${number}@${coming.shift_s}`
    })
    return keys.join(' ')
  }

  #continued(node: number, progress: SimulatedProgress, waits: ReadyTimes | null): Beginning {
    const replicas = progress.replicas as Replicas
    if (waits === null) return continued(replicas, progress.requests, this.#alike[node] === true)
    const copy = cloneReplicas(replicas)
    for (const [at, run] of copy.runs.entries()) {
      const hand = copy.members[at] as Int32Array
      run.setReady((place) => waits(hand[place] as number))
    }
    return continued(copy, progress.requests, false)
  }

  #started(
    node: number,
    plan: Plan,
    { requests }: SimulatedProgress,
    start_s: number,
    waits: ReadyTimes | null,
  ): Beginning {
    const { next } = this.#workload.nodes[node] as NodeWorkload
    const members = deal(requests, this.#follows[node] ? next : null, plan.dp)
    const start = { config: this.#config(node, plan.tp), next, start_s, ready_s: waits ?? (() => 0) }
    return {
      all: () => {
        this.effort += requests.unfinished
        return { members, runs: members.map((hand) => startReplica(requests, hand, start)) }
      },
      sketch:
        waits === null && this.#alike[node]
          ? () => {
              const { at, times } = heaviestOf(requests, members)
              const hand = members[at] as Int32Array
              const played = hand.subarray(0, SKETCH_REQUESTS)
              this.effort += played.length
              return { run: startReplica(requests, played, start), longer: hand.length / played.length, times }
            }
          : null,
    }
  }

  /** When the requests of a node become ready. Null: all are, now. */
  #readyTimes(state: State<SimulatedProgress>, node: number, stage: ReadonlyMap<number, Shifted>): ReadyTimes | null {
    const { parents } = this.#workload.nodes[node] as NodeWorkload
    const inputs = this.nodes[node]?.inputs ?? []
    if (parents === null || inputs.every((input) => state.nodes[input]?.done)) return null
    const ends = new Map(
      inputs.map((input) => {
        const past_s = (state.nodes[input] as SimulatedProgress).requests.finish_s
        const coming = stage.get(input)
        const coming_s = coming?.forecast.finishS(past_s.length)
        const endS = (request: number) => {
          const ended_s = past_s[request] as number
          if (ended_s !== Number.POSITIVE_INFINITY) return ended_s
          return (coming_s?.[request] ?? Number.POSITIVE_INFINITY) + (coming?.shift_s ?? 0)
        }
        return [input, endS]
      }),
    )
    return (request) => {
      let ready_s = 0
      for (const [input, parent] of parents[request] ?? []) ready_s = Math.max(ready_s, ends.get(input)?.(parent) ?? 0)
      return ready_s
    }
  }

  #stateAt(
    state: State<SimulatedProgress>,
    nodes: ReadonlyMap<number, Shifted>,
    placement: Placement,
    at_s: number,
  ): State<SimulatedProgress> {
    const after = state.nodes.map((progress, node) => {
      const one = nodes.get(node)
      if (one !== undefined) return this.#progressAt(node, progress, one, at_s)
      return progress.running === null ? progress : new SimulatedProgress(progress.requests, null, null)
    })
    const kept = [...placement].filter(([node]) => after[node]?.running !== null)
    return { now_s: at_s, nodes: after, placement: new Map(kept) }
  }

  #progressAt(node: number, before: SimulatedProgress, shifted: Shifted, at_s: number): SimulatedProgress {
    const { forecast, shift_s, plan, waits } = shifted
    if (forecast.endS(true) + shift_s <= at_s) {
      const requests = takeRequests(before.requests, forecast.played(), shift_s + forecast.later_s)
      return new SimulatedProgress(requests, null, null)
    }
    const replicas = forecast.begin()
    this.effort += before.requests.unfinished
    for (const run of replicas.runs) run.run(at_s - shift_s)
    const requests = takeRequests(before.requests, replicas, shift_s)
    for (const run of replicas.runs) run.shift(shift_s)
    const after = new SimulatedProgress(requests, plan, replicas)
    if (!waits) {
      const beginning = continued(replicas, requests, this.#alike[node] === true)
      after.forecasts.set(keyOf(true, plan), NodeForecast.goingOn(forecast, shift_s, at_s, beginning))
    }
    return after
  }

  #config(node: number, tp: number): ReplicaConfig {
    const config = this.#costs[node]?.get(tp)
    if (config === undefined) throw new RangeError(`node ${node} has no costs for tp ${tp}`)
    return config
  }
}

function shifted(forecast: NodeForecast, shift_s: number, plan: Plan, waits: boolean, exact: boolean): Shifted {
  return {
    ...{ forecast, shift_s, plan, waits },
    end_s: forecast.endS(exact) + shift_s,
    workBy: (at_s) => forecast.workBy(at_s - shift_s, exact),
    busyGpuS: (at_s) => forecast.busyBy(at_s - shift_s) * plan.tp,
  }
}

function keyOf(goes_on: boolean, { dp, tp }: Plan): string {
  return `${goes_on} ${dp} ${tp}`
}
