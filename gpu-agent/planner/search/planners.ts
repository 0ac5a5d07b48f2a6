/** The ways to plan, by name: ours, the paper's, and what both are compared with. */
import type { PlanOutcome } from '../plan.ts'
import type { NodeProgress, World } from '../world.ts'
import { completePlan } from './complete-plan.ts'
import { greedy } from './greedy.ts'
import { maxHeuristic, minHeuristic, oneByOne } from './heuristics.ts'
import { improvedPlan, type SearchLimits } from './improved.ts'

export const PLANNERS = [
  'ours',
  'greedy',
  'greedy-no-preemption',
  'max',
  'min',
  'min-no-preemption',
  'one-by-one',
] as const
export type PlannerName = (typeof PLANNERS)[number]

export const PLANNER_LABELS: Readonly<Record<PlannerName, string>> = {
  ours: 'ours (local search)',
  greedy: 'greedy (Algorithm 1)',
  'greedy-no-preemption': 'greedy, no preemption',
  max: 'Max-heuristic',
  min: 'Min-heuristic',
  'min-no-preemption': 'Min-heuristic, no preemption',
  'one-by-one': 'one model at a time, in one engine',
}

export function planBy<P extends NodeProgress>(
  name: PlannerName,
  world: World<P>,
  limits: Partial<SearchLimits> = {},
): PlanOutcome {
  switch (name) {
    case 'ours':
      return improvedPlan(world, limits)
    case 'greedy':
      return completePlan(world, greedy())
    case 'greedy-no-preemption':
      return completePlan(world, greedy({ preempt: false }))
    case 'max':
      return completePlan(world, maxHeuristic)
    case 'min':
      return completePlan(world, minHeuristic())
    case 'min-no-preemption':
      return completePlan(world, minHeuristic({ preempt: false }))
    case 'one-by-one':
      return completePlan(world, oneByOne)
  }
}
