/**
 * Ours: local search over stage sequences with the paper's cost model. It begins with the best of several rules (the paper's greedy among them, so it is
 * never worse by its own estimate). Then it changes one stage of the best plan at a time, lets a rule complete the rest, and keeps what ends earlier.
 *
 * What it adds to Algorithm 1: throughput now is not all that counts. A stage may leave a long node for the end, where it holds one GPU while the others
 * are idle; only the completed plan shows that. Stages to try are those near the present one, the ones of the highest throughput first.
 */
import { gpusOf, gpusOfStage, type Plan, type PlanOutcome, type Stage } from '../plan.ts'
import { isDone, isReady, type NodeProgress, type State, throughput, type World } from '../world.ts'
import { type ChooseStage, completePlan } from './complete-plan.ts'
import { bestGrowth, greedy, runningStage } from './greedy.ts'
import { maxHeuristic, minHeuristic } from './heuristics.ts'
import { longestFirst } from './longest-first.ts'

export interface SearchLimits {
  /** Plans that are completed, over all. */
  completions_max: number
  /** Changes of one stage that are completed. */
  neighbours_max: number
  /** Requests that are played for it (World.effort), about. */
  effort_max: number
}

export const DEFAULT_LIMITS: SearchLimits = { completions_max: 400, neighbours_max: 10, effort_max: 700_000 }

/** Begins a stage with what runs, so that nothing is loaded again without need, and lets Algorithm 1 add to it. */
export const keepRunning: ChooseStage = (world, state) => {
  let stage: Stage = runningStage(state)
  for (;;) {
    const better = bestGrowth(world, state, stage, true)
    if (better === null) return stage.size > 0 ? stage : greedy()(world, state, 0)
    stage = better
  }
}

/** The first two always. */
const RULES: readonly ChooseStage[] = [longestFirst, greedy(), keepRunning, minHeuristic(), maxHeuristic]
const RULES_MIN = 2

/** A plan with the states at which its stages begin. */
interface Path<P extends NodeProgress> {
  stages: Stage[]
  states: State<P>[]
  total_s: number
}

export function improvedPlan<P extends NodeProgress>(world: World<P>, limits: Partial<SearchLimits> = {}): PlanOutcome {
  const search = new LocalSearch(world, { ...DEFAULT_LIMITS, ...limits })
  const begin = search.begin()
  if (!begin.ok) return begin
  const { stages } = search.run(begin.path)
  return completePlan(world, (_world, _state, at) => stages[at] ?? new Map())
}

class LocalSearch<P extends NodeProgress> {
  readonly #world: World<P>
  readonly #limits: SearchLimits
  #completions = 0

  constructor(world: World<P>, limits: SearchLimits) {
    this.#world = world
    this.#limits = limits
  }

  begin(): { ok: true; path: Path<P> } | { ok: false; reason: string } {
    let best: Path<P> | null = null
    for (const [at, rule] of RULES.entries()) {
      if (best !== null && at >= RULES_MIN && this.#isOver()) break
      const path = this.#complete(this.#world.start(), rule, best?.total_s)
      if (path !== null && (best === null || path.total_s < best.total_s)) best = path
    }
    if (best !== null) return { ok: true, path: best }
    const outcome = completePlan(this.#world, greedy())
    return { ok: false, reason: outcome.ok ? 'no rule completes the plan' : outcome.reason }
  }

  run(begin: Path<P>): Path<P> {
    let best = begin
    for (let changed = true; changed; ) {
      changed = false
      for (let at = 0; at < best.stages.length; at += 1) {
        const better = this.#changeStage(best, at)
        if (better === null) continue
        best = better
        changed = true
      }
    }
    return best
  }

  #isOver(): boolean {
    return this.#completions >= this.#limits.completions_max || this.#world.effort >= this.#limits.effort_max
  }

  /** The best plan that differs from this one first in stage `at`; null: none ends earlier. */
  #changeStage(path: Path<P>, at: number): Path<P> | null {
    const state = path.states[at] as State<P>
    let better: Path<P> | null = null
    for (const stage of this.#neighbours(state, path.stages[at] as Stage)) {
      const forecast = this.#world.forecast(state, stage)
      if (forecast === null) continue
      for (const rule of [longestFirst, keepRunning]) {
        if (this.#isOver()) return better
        const bound_s = (better ?? path).total_s
        if (forecast.end_s >= bound_s) break
        const rest = this.#complete(forecast.stateAt(forecast.end_s), rule, bound_s)
        if (rest === null || rest.total_s >= bound_s) continue
        better = {
          stages: [...path.stages.slice(0, at), stage, ...rest.stages],
          states: [...path.states.slice(0, at + 1), ...rest.states],
          total_s: rest.total_s,
        }
      }
    }
    return better
  }

  /** Null: it would end after `bound_s`, or the rule finds no stage. */
  #complete(from: State<P>, rule: ChooseStage, bound_s = Number.POSITIVE_INFINITY): Path<P> | null {
    this.#completions += 1
    const path: Path<P> = { stages: [], states: [], total_s: 0 }
    let state = from
    while (!isDone(state)) {
      const stage = rule(this.#world, state, path.stages.length)
      const forecast = stage.size === 0 ? null : this.#world.forecast(state, stage)
      if (forecast === null || !(forecast.end_s < bound_s)) return null
      path.stages.push(stage)
      path.states.push(state)
      state = forecast.stateAt(forecast.end_s)
    }
    path.total_s = state.now_s
    return path
  }

  /** Stages that differ by one node, or by GPUs that one node gives to another; the highest throughput first. */
  #neighbours(state: State<P>, stage: Stage): Stage[] {
    const found = new Map<string, { stage: Stage; reached: number }>()
    const offer = (one: Stage) => {
      const key = keyOf(one)
      if (one.size === 0 || found.has(key) || key === keyOf(stage) || gpusOfStage(one) > this.#world.gpus) return
      if (![...one.keys()].every((node) => isReady(this.#world, state, one, node))) return
      const forecast = this.#world.forecast(state, one, 'sketch')
      if (forecast !== null) found.set(key, { stage: one, reached: throughput(state, forecast) })
    }
    for (const one of [stage, ...this.#without(stage)]) {
      offer(one)
      for (const node of this.#world.nodes.keys())
        for (const plan of this.#world.plans(node)) offer(new Map<number, Plan>(one).set(node, plan))
    }
    return Array.from(found.values())
      .sort((a, b) => b.reached - a.reached)
      .slice(0, this.#limits.neighbours_max)
      .map((one) => one.stage)
  }

  /** The stage with one node left out, or with a smaller plan. */
  #without(stage: Stage): Stage[] {
    return [...stage].flatMap(([node, plan]) => {
      const left_out = new Map<number, Plan>(stage)
      left_out.delete(node)
      const smaller = this.#world.plans(node).filter((one) => gpusOf(one) < gpusOf(plan))
      return [left_out, ...smaller.map((one) => new Map<number, Plan>(stage).set(node, one))]
    })
  }
}

function keyOf(stage: Stage): string {
  return [...stage]
    .sort(([a], [b]) => a - b)
    .map(([node, { dp, tp }]) => `${node}:${dp}x${tp}`)
    .join(' ')
}
