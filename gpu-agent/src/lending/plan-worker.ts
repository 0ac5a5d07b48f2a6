/** A worker thread that makes one plan, so that the agent's engines and calls do not wait for it. */
import { parentPort, workerData } from 'node:worker_threads'
import type { PlanQuestion } from '../../../src/protocol/host.ts'
import type { ModelCosts } from '../../planner/costs/model-costs.ts'
import type { PlannerName } from '../../planner/search/planners.ts'
import { makePlan } from './make-plan.ts'

const { question, costs, planner } = workerData as {
  question: PlanQuestion
  costs: ModelCosts[]
  planner: PlannerName
}
parentPort?.postMessage(makePlan(question, costs, planner, () => performance.now()))
