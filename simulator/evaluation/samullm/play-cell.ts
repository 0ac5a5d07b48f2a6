/**
 * Plays one cell: plans with drawn output lengths, carries the plan out while requests have other lengths (drawn again), and measures both. "Real" here
 * is simulated with the true lengths by the same cost model, so it shows what lengths do to plans, not what the cost model misses.
 */
import { drawWorkload } from '../../../gpu-agent/planner/application.ts'
import { A100_COSTS } from '../../../gpu-agent/planner/costs/a100.ts'
import type { LengthTable } from '../../../gpu-agent/planner/lengths/length-table.ts'
import { lengthsOf } from '../../../gpu-agent/planner/lengths/model-lengths.ts'
import type { ApplicationPlan, PlanOutcome } from '../../../gpu-agent/planner/plan.ts'
import { SimulatedWorld } from '../../../gpu-agent/planner/runs/simulated-world.ts'
import { completePlan } from '../../../gpu-agent/planner/search/complete-plan.ts'
import { followPlan } from '../../../gpu-agent/planner/search/follow-plan.ts'
import { type PlannerName, planBy } from '../../../gpu-agent/planner/search/planners.ts'
import type { Workload } from '../../../gpu-agent/planner/workload.ts'
import type { ApplicationTokens } from '../../../src/protocol/application-tokens.ts'
import { idleGpuSeconds } from '../../planner/plan-gantt.ts'
import { seededRandom } from '../../random.ts'
import type { Cell } from './cells.ts'

/** The paper's machine. */
export const HOSTS = [{ gpus: 8 }] as const
const GPUS = 8

/** Seeds of lengths: plans and truth draw their own. */
const PLANNED_STREAM = 1
const TRUE_STREAM = 2
const STREAMS = 10

export interface Played {
  planner: PlannerName | 'sequential' | 'ours, lengths known' | 'greedy, lengths known'
  /** CPU time of one thread. */
  planning_s: number
  estimated_s: number
  real_s: number
  /** Of the real run. */
  idle_gpu_s: number
  plan: ApplicationPlan
  real: ApplicationPlan
  nodes: readonly string[]
}

export type Lengths = (model: string) => LengthTable | undefined

const COMPARED: readonly PlannerName[] = ['ours', 'greedy', 'max', 'min']
const VARIANTS: readonly PlannerName[] = ['greedy-no-preemption', 'min-no-preemption']

export function playCell(cell: Cell, seed: number): Played[] {
  const file = cell.application({ seed })
  const planned = workloadOf(file, lengthsOf, seed * STREAMS + PLANNED_STREAM)
  const truth = workloadOf(file, lengthsOf, seed * STREAMS + TRUE_STREAM)
  const names = cell.variants ? [...COMPARED, ...VARIANTS] : COMPARED
  const played = names.map((name): Played => ({ planner: name, ...playPlanner(name, planned, truth) }))
  if (cell.variants) {
    played.push({ planner: 'ours, lengths known', ...playPlanner('ours', truth, truth) })
    played.push({ planner: 'greedy, lengths known', ...playPlanner('greedy', truth, truth) })
  }
  if (cell.parts !== undefined)
    played.push({
      planner: 'sequential',
      ...sequential(
        cell.parts.map((part) => part({ seed })),
        seed,
      ),
    })
  return played
}

export function workloadOf(file: ApplicationTokens, lengths: Lengths, seed: number): Workload {
  const drawn = drawWorkload(file, lengths, seededRandom(seed))
  if (!drawn.ok) throw new RangeError(`${file.name}: ${drawn.reason}`)
  return drawn.workload
}

export function playPlanner(name: PlannerName, planned: Workload, truth: Workload): Omit<Played, 'planner'> {
  const before = process.cpuUsage()
  const plan = planOf(planBy(name, new SimulatedWorld(planned, A100_COSTS.models, HOSTS)))
  const { user, system } = process.cpuUsage(before)
  const real = planOf(completePlan(new SimulatedWorld(truth, A100_COSTS.models, HOSTS), followPlan(plan)))
  return {
    planning_s: (user + system) / 1e6,
    estimated_s: plan.total_s,
    real_s: real.total_s,
    idle_gpu_s: idleGpuSeconds(real, GPUS),
    ...{ plan, real, nodes: planned.nodes.map(({ id }) => id) },
  }
}

/** Ours for one application after the other. */
function sequential(files: readonly ApplicationTokens[], seed: number): Omit<Played, 'planner'> {
  const parts = files.map((file) => {
    const draw = (stream: number) => workloadOf(file, lengthsOf, seed * STREAMS + stream)
    return playPlanner('ours', draw(PLANNED_STREAM), draw(TRUE_STREAM))
  })
  const sum = (of: (part: Omit<Played, 'planner'>) => number) => parts.reduce((total, part) => total + of(part), 0)
  const [first] = parts
  if (first === undefined) throw new RangeError('a mixture has parts')
  return {
    ...first,
    planning_s: sum(({ planning_s }) => planning_s),
    estimated_s: sum(({ estimated_s }) => estimated_s),
    real_s: sum(({ real_s }) => real_s),
    idle_gpu_s: sum(({ idle_gpu_s }) => idle_gpu_s),
  }
}

function planOf(outcome: PlanOutcome): ApplicationPlan {
  if (!outcome.ok) throw new RangeError(outcome.reason)
  return outcome.plan
}
