/** Answers the questions of the control plane to the coordinator of an application: a plan, made in a worker thread, and the next stage of one. */
import { Worker } from 'node:worker_threads'
import {
  type ChooseQuestion,
  type Chosen,
  MESSAGE_CHARS_MAX,
  type Planned,
  type PlanQuestion,
} from '../../../src/protocol/host.ts'
import type { ModelCosts } from '../../planner/costs/model-costs.ts'
import type { PlannerName } from '../../planner/search/planners.ts'
import { messageOf } from '../events.ts'
import { nextStage } from './follow-stage.ts'

/** Plans that are made at a time. Each takes a core. */
export const PLANS_AT_ONCE_MAX = 2
/** A search is bounded by what it plays, not by time. This ends one that hangs. */
const PLAN_LIMIT_MS = 60_000
const PLAN_HEAP_MB_MAX = 2048

export class Coordinator {
  readonly #costs: readonly ModelCosts[]
  readonly #planner: PlannerName
  readonly #workers = new Set<Worker>()

  constructor(costs: readonly ModelCosts[], planner: PlannerName = 'ours') {
    this.#costs = costs
    this.#planner = planner
  }

  async plan(question: PlanQuestion): Promise<Planned> {
    const answer = (outcome: Planned['outcome']): Planned => ({ type: 'planned', id: question.id, outcome })
    if (this.#workers.size >= PLANS_AT_ONCE_MAX)
      return answer({ ok: false, reason: `this host makes ${PLANS_AT_ONCE_MAX} plans already. Ask again` })
    return answer(await this.#plan(question))
  }

  choose(question: ChooseQuestion): Chosen {
    const loadingS = (model: string, tp: number): number =>
      this.#costs.find((one) => one.model === model && one.tp === tp)?.loading_s ?? 0
    const { id, epoch } = question
    return { type: 'chosen', id, epoch, outcome: nextStage(question, loadingS) }
  }

  async stop(): Promise<void> {
    await Promise.all([...this.#workers].map((worker) => worker.terminate()))
  }

  async #plan(question: PlanQuestion): Promise<Planned['outcome']> {
    const { promise, resolve } = Promise.withResolvers<Planned['outcome']>()
    const worker = new Worker(new URL('./plan-worker.ts', import.meta.url), {
      workerData: { question, costs: this.#costs, planner: this.#planner },
      resourceLimits: { maxOldGenerationSizeMb: PLAN_HEAP_MB_MAX },
    })
    this.#workers.add(worker)
    const refuse = (reason: string): void => resolve({ ok: false, reason: reason.slice(0, MESSAGE_CHARS_MAX) })
    worker.once('message', resolve)
    worker.once('error', (error) => refuse(`the planner failed: ${messageOf(error)}`))
    worker.once('exit', () => refuse('the planner ended without a plan'))
    const timer = setTimeout(() => refuse(`the planner took more than ${PLAN_LIMIT_MS / 1000} s`), PLAN_LIMIT_MS)
    try {
      return await promise
    } finally {
      clearTimeout(timer)
      this.#workers.delete(worker)
      void worker.terminate()
    }
  }
}
