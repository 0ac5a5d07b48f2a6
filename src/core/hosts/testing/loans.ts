/** Plans and loans for tests: nodes a and b, two GPUs on each host, one node on each GPU. */
import type { HostPlan } from '../../../protocol/host.ts'
import type { Loan } from '../loan.ts'

export const PLAN: HostPlan = {
  nodes: [
    { ids: ['a', 'a2'], model: 'small', inputs: [] },
    { ids: ['b'], model: 'large', inputs: [0] },
  ],
  stages: [
    { start_s: 0, end_s: 5, nodes: [plannedNode(0, [0])] },
    { start_s: 5, end_s: 9, nodes: [plannedNode(1, [0, 1])] },
  ],
  total_s: 9,
  planning_ms: 1,
  guessed_lengths: [],
}

function plannedNode(node: number, gpus: number[]): HostPlan['stages'][number]['nodes'][number] {
  const plan = { dp: 1, tp: gpus.length }
  return { node, plan, loading_s: 1, gpus: [gpus], finishes: true, busy_gpu_s: 1 }
}

export function loanOf(change: Partial<Loan> = {}): Loan {
  return {
    ...{ tenant: 't', application: 'app', plan_id: 'plan', plan: PLAN, coordinator: 'host-1', epoch: 3 },
    hosts: ['host-1', 'host-2'].map((agent) => ({ agent, region: 'here', gpus: 2 })),
    ...{ state: 'lent', since_ms: 0, asked_ms: 0, done: [], placed: [] },
    ...change,
  }
}
