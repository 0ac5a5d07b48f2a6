/**
 * The best plan of all, by trying every valid stage in every state. For small instances only: it tells how far the other searches are from the optimum
 * of the same problem (stages end when their first node does).
 */
import { gpusOf, gpusOfStage, type Plan, type PlanOutcome, type Stage } from '../plan.ts'
import { isDone, isReady, type NodeProgress, type State, type World } from '../world.ts'
import { completePlan } from './complete-plan.ts'

/** States that are looked at before the search gives up. */
export const STATES_MAX = 500_000

export function exhaustivePlan<P extends NodeProgress>(world: World<P>): PlanOutcome {
  const search = new Search(world)
  search.from(world.start(), [])
  if (search.states > STATES_MAX)
    return { ok: false, reason: `more than ${STATES_MAX} states: too large to try all plans` }
  const { best } = search
  return completePlan(world, (_world, _state, at) => best[at] ?? new Map())
}

class Search<P extends NodeProgress> {
  readonly #world: World<P>
  #best_s = Number.POSITIVE_INFINITY
  best: readonly Stage[] = []
  states = 0

  constructor(world: World<P>) {
    this.#world = world
  }

  from(state: State<P>, stages: readonly Stage[]): void {
    if (isDone(state)) {
      this.#best_s = state.now_s
      this.best = stages
      return
    }
    for (const stage of validStages(this.#world, state)) {
      this.states += 1
      if (this.states > STATES_MAX) return
      const forecast = this.#world.forecast(state, stage)
      if (forecast === null || !(forecast.end_s < this.#best_s)) continue
      this.from(forecast.stateAt(forecast.end_s), [...stages, stage])
    }
  }
}

/** Every valid stage, in any size. */
export function* validStages(world: World, state: State, from: Stage = new Map(), first = 0): Generator<Stage> {
  for (let node = first; node < world.nodes.length; node += 1) {
    if (!isReady(world, state, from, node)) continue
    for (const plan of world.plans(node)) {
      if (gpusOfStage(from) + gpusOf(plan) > world.gpus) continue
      const stage = new Map<number, Plan>(from).set(node, plan)
      yield stage
      yield* validStages(world, state, stage, node + 1)
    }
  }
}
