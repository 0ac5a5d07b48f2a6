/** What is compared, and the vLLM that each runs on. Four vLLMs serve all schedulers: ours changes its policy while it runs, and
 * the agent's queue goes before a stock one. */
import {
  MEMORY_POLICY_NAMES,
  type MemoryPolicyName,
  type PolicyName,
} from '../../../gpu-agent/engine/order/policies/index.ts'

/** `switchyard-swap`: ours too, and KV of preempted calls is swapped, and that of programs whose tools run. */
export const SERVERS = ['stock-fcfs', 'stock-priority', 'switchyard', 'switchyard-swap'] as const
export type ServerName = (typeof SERVERS)[number]

export interface SchedulerName {
  scheduler: ServerName
  /** Who is served first. A gateway before a stock vLLM can send calls in PLAS's order; it cannot take a seat away. */
  policy: PolicyName | MemoryPolicyName
  /** Calls wait in the agent's own queue before a stock vLLM. Absent: they are sent as they come. */
  queue?: true
}

export const SCHEDULERS: readonly SchedulerName[] = [
  { scheduler: 'stock-fcfs', policy: 'fcfs' },
  { scheduler: 'stock-priority', policy: 'plas' },
  { scheduler: 'stock-fcfs', policy: 'plas', queue: true },
  { scheduler: 'stock-fcfs', policy: 'learned', queue: true },
  { scheduler: 'switchyard', policy: 'fcfs-program' },
  { scheduler: 'switchyard', policy: 'mlfq' },
  { scheduler: 'switchyard', policy: 'plas' },
  { scheduler: 'switchyard', policy: 'atlas' },
  { scheduler: 'switchyard', policy: 'learned' },
  { scheduler: 'switchyard-swap', policy: 'plas' },
  { scheduler: 'switchyard', policy: 'vllm-discard' },
  { scheduler: 'switchyard', policy: 'vllm-preserve' },
  { scheduler: 'switchyard-swap', policy: 'infercept' },
  { scheduler: 'switchyard-swap', policy: 'lamps' },
  { scheduler: 'switchyard-swap', policy: 'learned-memory' },
]

/** Whether it handles contexts while tools run. */
export function handlesContexts({ policy }: SchedulerName): boolean {
  return MEMORY_POLICY_NAMES.some((name) => name === policy)
}

/** As flags and tables name it. */
export function nameOf(name: SchedulerName): string {
  const { scheduler, policy, queue } = name
  if (queue) return `queue-${policy}`
  if (handlesContexts(name)) return policy
  if (scheduler === 'switchyard-swap') return `${policy}-swap`
  return scheduler === 'switchyard' ? policy : scheduler
}
