/**
 * The serving systems that are compared: a policy with the engine features that belong to it. All have the same seats, KV and
 * step times (Autellix §6.2: "the same max batch size").
 *
 * vllm is FCFS without prefix cache and chunked prefill, deciding at every step. Every other one has both and decides once in
 * ten steps, which is what vLLM's own figures for multi-step scheduling use (--num-scheduler-steps 10 in the 0.6 series).
 * FCFS never preempts, so what it evicts for want of memory is computed again, as vLLM does; the preemptive ones may swap.
 * They all swap by the one batched kernel, ours and the baselines alike, so that figure 12 compares orders and nothing else;
 * figure 19 has the kernels.
 *
 * The paper's MLFQ and RR queue calls; their forms by program, and FCFS by program, stand beside them as references.
 */
import type { Ties } from '../../gpu-agent/engine/order/policy.ts'
import type { ServiceReading } from '../../src/core/call/service.ts'
import type { PolicyName } from '../policies/index.ts'

export interface System {
  label: string
  policy: PolicyName
  /** Of the policies that queue both ways. */
  ties?: Ties
  /** Which reading of service orders calls. The baselines are charged in the paper's wall time, ours in a call's own work. */
  reading: ServiceReading
  prefix_cache: boolean
  chunked_prefill: boolean
  steps_per_decision: number
  swaps: boolean
}

export const STEPS_PER_DECISION = 10

const OPTIMISED = {
  prefix_cache: true,
  chunked_prefill: true,
  steps_per_decision: STEPS_PER_DECISION,
  reading: 'wall',
} as const
const PREEMPTIVE = { ...OPTIMISED, swaps: true }
const OURS = { ...PREEMPTIVE, reading: 'modelled' } as const

/**
 * LAMPS §4.3: "iteration-level scheduling". All of its systems find what a program left in their cache, and compute prompts in
 * chunks, which the paper's vLLM did not. vLLM never moves KV.
 */
const ITERATION = { prefix_cache: true, chunked_prefill: true, steps_per_decision: 1, reading: 'modelled' } as const

export const SYSTEMS = {
  vllm: {
    ...{ label: 'vLLM', policy: 'fcfs', reading: 'wall', prefix_cache: false, chunked_prefill: false },
    ...{ steps_per_decision: 1, swaps: false },
  },
  'vllm-opt': { ...OPTIMISED, label: 'vLLM-opt', policy: 'fcfs', swaps: false },
  mlfq: { ...PREEMPTIVE, label: 'MLFQ', policy: 'mlfq', ties: 'call' },
  rr: { ...PREEMPTIVE, label: 'RR', policy: 'rr', ties: 'call' },
  'fcfs-program': { ...OURS, label: 'FCFS by program', policy: 'fcfs-program' },
  'mlfq-program': { ...PREEMPTIVE, label: 'MLFQ by program', policy: 'mlfq', ties: 'program' },
  'rr-program': { ...PREEMPTIVE, label: 'RR by program', policy: 'rr', ties: 'program' },
  plas: { ...OURS, label: 'PLAS (ours)', policy: 'plas' },
  atlas: { ...OURS, label: 'ATLAS (ours)', policy: 'atlas' },
  learned: { ...OURS, label: 'learned (ours)', policy: 'learned' },
  'vllm-discard': { ...ITERATION, label: 'vLLM (discard)', policy: 'vllm-discard', swaps: false },
  'vllm-preserve': { ...ITERATION, label: 'vLLM (preserve)', policy: 'vllm-preserve', swaps: false },
  infercept: { ...ITERATION, label: 'InferCept', policy: 'infercept', swaps: true },
  lamps: { ...ITERATION, label: 'LAMPS', policy: 'lamps', swaps: true },
  'learned-memory': { ...ITERATION, label: 'learned-memory (ours)', policy: 'learned-memory', swaps: true },
  srpt: { ...OURS, label: 'SRPT (clairvoyant)', policy: 'srpt' },
  wsrpt: { ...OURS, label: 'WSRPT (clairvoyant)', policy: 'wsrpt' },
} as const satisfies Record<string, System>

export type SystemName = keyof typeof SYSTEMS

export function systemOf(name: SystemName): System {
  return SYSTEMS[name]
}
