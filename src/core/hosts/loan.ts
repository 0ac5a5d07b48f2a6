/**
 * A loan: the hosts of a plan, lent to one application (SamuLLM §4.3). Pure decisions of the HostsActor.
 *
 * What holds:
 * - A host is in one loan at a time. Applications that want the same host get it in the order in which they first asked for it.
 * - An application that does not ask for LOAN_IDLE_MS loses its hosts, and its place in the order.
 * - What a coordinator places is checked: its nodes are open, its GPUs exist, and no two replicas share one.
 */
import { z } from 'zod'
import type { ApplicationTokens } from '../../protocol/application-tokens.ts'
import { HOSTS_PER_PLAN_MAX, HostPlan, PlacedNode, type WantedEngine } from '../../protocol/host.ts'
import { Count, Id } from '../../protocol/ids.ts'

/** An application that does not ask for so long loses its hosts. */
export const LOAN_IDLE_MS = 60_000
/** A plan that nothing runs is kept for so long. */
export const PLAN_KEPT_MS = 3_600_000

const LoanHost = z.object({
  agent: Id,
  region: Id,
  /** That the application may have, from GPU 0 on. */
  gpus: z.int().min(1),
})
export type LoanHost = z.infer<typeof LoanHost>

export const Loan = z.object({
  tenant: z.string(),
  application: z.string(),
  plan_id: z.string(),
  plan: HostPlan,
  /** In the order in which the plan counts GPUs. */
  hosts: z.array(LoanHost).min(1).max(HOSTS_PER_PLAN_MAX),
  /** `planned`: nothing runs. `waiting`: it wants the hosts. `lent`: it has them. */
  state: z.enum(['planned', 'waiting', 'lent']),
  /** When it was planned, first wanted, or lent: by state. */
  since_ms: z.number(),
  /** When it last asked. */
  asked_ms: z.number(),
  /** Answers `choose`. */
  coordinator: Id,
  /** Of its stage; 0: it has none. */
  epoch: Count,
  /** Nodes of the plan that had ended when the stage was chosen. */
  done: z.array(z.int()),
  placed: z.array(PlacedNode),
})
export type Loan = z.infer<typeof Loan>

export function sameLoan(a: Pick<Loan, 'tenant' | 'application'>, b: Pick<Loan, 'tenant' | 'application'>): boolean {
  return a.tenant === b.tenant && a.application === b.application
}

/** When a loan ends by itself. */
export function loanEndsMs({ state, since_ms, asked_ms }: Loan): number {
  return state === 'planned' ? since_ms + PLAN_KEPT_MS : asked_ms + LOAN_IDLE_MS
}

/** The loan that keeps this one waiting: one that has a host of it, or wanted one earlier. Null: none. */
export function blockerOf(loan: Loan, loans: Iterable<Loan>): Loan | null {
  const agents = new Set(loan.hosts.map(({ agent }) => agent))
  let blocker: Loan | null = null
  for (const other of loans) {
    if (sameLoan(loan, other) || other.state === 'planned') continue
    if (!other.hosts.some(({ agent }) => agents.has(agent))) continue
    if (other.state === 'lent') return other
    const earlier = loan.state !== 'waiting' || other.since_ms < loan.since_ms
    if (earlier && (blocker === null || other.since_ms < blocker.since_ms)) blocker = other
  }
  return blocker
}

/** Nodes of the plan whose nodes of the application have all ended. */
export function nodesDone({ nodes }: HostPlan, ids: readonly string[]): number[] {
  const ended = new Set(ids)
  return [...nodes.keys()].filter((node) => nodes[node]?.ids.every((id) => ended.has(id)))
}

/** Why what a coordinator sent is no plan for this application on these hosts. Null: it is one. */
export function planFault(
  { nodes, stages }: HostPlan,
  application: ApplicationTokens,
  hosts: readonly { gpus: number }[],
): string | null {
  const models = new Map(application.nodes.map(({ id, model }) => [id, model]))
  for (const { ids, model, inputs } of nodes) {
    for (const id of ids) {
      if (models.get(id) !== model) return `node ${id} does not run ${model}, or is there twice`
      models.delete(id)
    }
    if (inputs.some((input) => nodes[input] === undefined)) return 'a node takes outputs of one that is not there'
  }
  if (models.size > 0) return `it leaves out ${[...models.keys()].join(', ')}`
  const gpus = hosts.reduce((sum, host) => sum + host.gpus, 0)
  for (const placed of stages.flatMap((stage) => stage.nodes)) {
    if (nodes[placed.node] === undefined) return `there is no node ${placed.node}`
    if (placed.gpus.flat().some((gpu) => gpu >= gpus)) return `there are ${gpus} GPUs`
  }
  return null
}

/** Why a stage that a coordinator chose cannot be. Null: it can. */
export function stageFault(
  placed: readonly PlacedNode[],
  { plan, hosts }: Pick<Loan, 'plan' | 'hosts'>,
  done: readonly number[],
): string | null {
  const owners = new Map<number, number>()
  const seen = new Set<number>()
  for (const { node, tp, first_gpus } of placed) {
    if (plan.nodes[node] === undefined) return `there is no node ${node}`
    if (done.includes(node)) return `node ${node} has ended`
    if (seen.has(node)) return `node ${node} is placed twice`
    seen.add(node)
    for (const first of first_gpus) {
      if (hostOf(hosts, first, tp) === null) return `GPUs ${first} to ${first + tp - 1} are not in one host`
      for (let gpu = first; gpu < first + tp; gpu += 1) {
        if (owners.has(gpu)) return `GPU ${gpu} is in two engines`
        owners.set(gpu, node)
      }
    }
  }
  return null
}

/** Which host has these GPUs, and their numbers there. Null: no single one has them. */
export function hostOf(
  hosts: readonly { gpus: number }[],
  first: number,
  tp: number,
): { at: number; gpus: number[] } | null {
  let before = 0
  for (const [at, host] of hosts.entries()) {
    if (first >= before && first + tp <= before + host.gpus)
      return { at, gpus: Array.from({ length: tp }, (_, gpu) => first - before + gpu) }
    before += host.gpus
  }
  return null
}

/** What host number `at` is to run. */
export function wantedOf({ plan, hosts, placed }: Pick<Loan, 'plan' | 'hosts' | 'placed'>, at: number): WantedEngine[] {
  const wanted: WantedEngine[] = []
  for (const { node, tp, first_gpus } of placed) {
    const model = plan.nodes[node]?.model
    for (const first of first_gpus) {
      const place = hostOf(hosts, first, tp)
      if (place?.at === at && model !== undefined) wanted.push({ model, gpus: place.gpus })
    }
  }
  return wanted
}
