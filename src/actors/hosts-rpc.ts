/**
 * What the control plane may ask of the HostsActor: plans for offline applications, and engines lent to them stage by stage. One object for the
 * deployment.
 *
 * How an application uses it: `plan` once, then `run` on each change and at least every RUN_INTERVAL_MS, then `release`. `run` is idempotent: the
 * same nodes done give the same stage. Calls go to the engines through the pools as all calls do.
 */
import type { LoanHost } from '../core/hosts/loan.ts'
import type { NodeEngines } from '../core/hosts/node-engines.ts'
import type { ApplicationTokens } from '../protocol/application-tokens.ts'
import type { HostPlan, HostStatus, LendPolicy } from '../protocol/host.ts'

/** A host that came back for an online call stays at home until its own models have had no online call for so long. */
export const HOME_KEPT_MS = 300_000
/** How often a running application asks. */
export const RUN_INTERVAL_MS = 5000

export interface PlanRequest {
  tenant: string
  application: string
  nodes: ApplicationTokens
  /** Null: any. */
  regions: readonly string[] | null
  /** Null: as many as the tenant may borrow. */
  gpus_max: number | null
  /** Of the output lengths that are drawn. */
  seed: number
}

export type PlanReply =
  | {
      status: 'planned'
      /** Given to `run`. Another plan of the same application makes this one unknown. */
      plan_id: string
      plan: HostPlan
      /** In the order in which the plan counts GPUs. */
      hosts: LoanHost[]
    }
  | {
      status: 'refused'
      /**
       * `may_not_borrow`: the operator has to allow it. `no_host`: no linked host can run all its models; `message` says why, host by host.
       * `no_plan`: the planner finds none. `no_answer`: ask again.
       */
      reason: 'may_not_borrow' | 'no_host' | 'no_plan' | 'no_answer'
      message: string
    }

export interface RunRequest {
  tenant: string
  application: string
  plan_id: string
  /** Ids of the application's nodes that have no requests left. */
  done: readonly string[]
}

export type RunReply =
  | {
      status: 'running'
      /** Grows with each stage. */
      epoch: number
      nodes: NodeEngines[]
    }
  /** Hosts are lent to others, or do not answer. Ask again: the application keeps its place. */
  | { status: 'waiting'; message: string }
  /** A host of the plan is gone for good, or the hosts were not kept by asking. Plan again. */
  | { status: 'lost'; message: string }
  /** All nodes have ended, and the hosts are returned. */
  | { status: 'done' }

export interface HostReport {
  agent: string
  region: string
  linked: boolean
  /** The operator drains it. */
  draining: boolean
  gpus: number
  lend: LendPolicy
  models: string[]
  /** Null: it is at home. */
  lent_to: { tenant: string; application: string; since_ms: number } | null
  /** Null: not known since the actor started. */
  engines: HostStatus['engines'] | null
}

export interface HostsRpc {
  /** The hosts of an earlier plan of the same application are returned. */
  plan(request: PlanRequest): Promise<PlanReply>
  run(request: RunRequest): Promise<RunReply>
  /** Returns the hosts and forgets the plan. Nothing to release is no error. */
  release(loan: { tenant: string; application: string }): Promise<void>
  /**
   * An online call found no engine of its model in these regions. A lent host that has one at home returns, and its application waits. Where another
   * host with one is at home or on its way, nothing happens.
   */
  returnFor(call: { model: string; regions: readonly string[] }): Promise<void>
  /** For operators. By agent. */
  hosts(): Promise<HostReport[]>
  /** A drained host is lent no more, and returns. Unknown agents are no error. */
  drainAgent(change: { agent: string; draining: boolean }): Promise<void>
  /** Closes the agent's links, but for those of the token with this key id. */
  refuseAgent(change: { agent: string; except_kid: string | null }): Promise<void>
}
