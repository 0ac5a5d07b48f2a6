/**
 * What the HostsActor asks of agents: a plan, and the next stage of one. An agent that does not answer in time, or answers with what cannot be, is
 * passed over for another host of the plan.
 */
import { type Loan, type LoanHost, planFault, stageFault } from '../../core/hosts/loan.ts'
import { log } from '../../platform/log.ts'
import type { Chosen, HostDownMessage, HostPlan, PlacedNode, Planned } from '../../protocol/host.ts'
import type { PlanRequest } from '../hosts-rpc.ts'
import { HostQuestions } from './host-questions.ts'

/** For a plan. The search takes at most a second where it was measured; the rest is for a host that is busy. */
const PLAN_WAIT_MS = 30_000
/** For a stage, which is looked up in the plan. */
const CHOOSE_WAIT_MS = 5000
/** Agents that are asked before the answer is that there is none. */
const COORDINATORS_MAX = 2

interface Hosts {
  isLinked(agent: string): boolean
  send(agent: string, message: HostDownMessage): void
}

export type PlanAnswer =
  | { status: 'planned'; plan: HostPlan; coordinator: string }
  | { status: 'refused'; reason: string }
  | { status: 'no_answer' }

export class Coordinators {
  readonly #hosts: Hosts
  // No question of an earlier life of the object had such a number.
  readonly #questions = new HostQuestions(Date.now())

  constructor(hosts: Hosts) {
    this.#hosts = hosts
  }

  async plan({ nodes, seed }: PlanRequest, hosts: readonly LoanHost[]): Promise<PlanAnswer> {
    const gpus = hosts.map((host) => ({ gpus: host.gpus }))
    for (const { agent } of hosts.slice(0, COORDINATORS_MAX)) {
      const wait = { epoch: null, wait_ms: PLAN_WAIT_MS }
      const outcome = await this.#questions.ask('plan', agent, wait, (id) =>
        this.#hosts.send(agent, { type: 'plan', id, application: nodes, hosts: gpus, seed }),
      )
      if (outcome?.ok === false) return { status: 'refused', reason: outcome.reason }
      const fault = outcome === null ? 'no answer' : planFault(outcome.plan, nodes, hosts)
      if (outcome !== null && fault === null) return { status: 'planned', plan: outcome.plan, coordinator: agent }
      log('warn', 'plan_not_made', { agent, fault: fault ?? '' })
    }
    return { status: 'no_answer' }
  }

  /** The loan's coordinator is asked first. Null: no host of the plan answers. */
  async stage(
    { plan, placed, epoch, hosts, coordinator, application }: Loan,
    done: readonly number[],
  ): Promise<{ coordinator: string; placed: PlacedNode[] } | null> {
    const agents = new Set([coordinator, ...hosts.map(({ agent }) => agent)])
    const linked = [...agents].filter((agent) => this.#hosts.isLinked(agent))
    const gpus = hosts.map((host) => ({ gpus: host.gpus }))
    for (const agent of linked.slice(0, COORDINATORS_MAX)) {
      const outcome = await this.#questions.ask('choose', agent, { epoch, wait_ms: CHOOSE_WAIT_MS }, (id) =>
        this.#hosts.send(agent, { type: 'choose', id, epoch, plan, hosts: gpus, done: [...done], placed }),
      )
      const fault = stageOutcomeFault(outcome, { plan, hosts }, done)
      if (outcome?.ok === true && fault === null) return { coordinator: agent, placed: outcome.placed }
      log('warn', 'stage_not_chosen', { agent, application, fault: fault ?? '' })
    }
    return null
  }

  answered(agent: string, answer: Planned | Chosen): void {
    this.#questions.answered(agent, answer)
  }

  /** The agent's link is gone. */
  left(agent: string): void {
    this.#questions.left(agent)
  }
}

function stageOutcomeFault(
  outcome: Chosen['outcome'] | null,
  loan: Pick<Loan, 'plan' | 'hosts'>,
  done: readonly number[],
): string | null {
  if (outcome === null) return 'no answer'
  if (!outcome.ok) return outcome.reason
  return outcome.placed.length === 0 ? 'it places nothing' : stageFault(outcome.placed, loan, done)
}
