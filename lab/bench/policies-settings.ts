/**
 * How `bench:policies` plays each workload on the embedded engine. A run takes about a minute in an order that keeps prefixes;
 * one that loses them takes several times as long, since this model computes some 200 prompt tokens a second on one thread.
 *
 * `chats`: 12 slots a seat hold the live programs of most of a run, and their KV is 570 MB.
 * `react` and `trees`: KV holds 5 contexts of 350 tokens, or 4 of 343, and 16 or 13 programs are live at the last arrival: it holds
 * 0.31 of them. The load is high because few programs fit a run, and the queue must still grow beyond the KV.
 */
import { BLOCK_TOKENS, SEATS } from './real-engine.ts'
import type { WorkloadName, WorkloadSetting } from './workload.ts'

export const BENCH_SLOTS = 48
/** No program of the chats grows beyond. */
export const BENCH_CONTEXT_TOKENS = 512
/** As much KV as 48 slots of 512; the scheduler may fill `kv_tokens` of it. */
const LONG_SLOTS = 32
/** No program of `react` or `trees` grows beyond; llama.cpp rounds to multiples of 256. */
const LONG_CONTEXT_TOKENS = 768
/** Half of a short ReAct program's work, if it is computed once. */
const FIRST_PROMPT_TOKENS = [140, 200] as const

export interface PoliciesSetting extends WorkloadSetting {
  workload: PoliciesWorkload
  slots: number
  context_tokens: number
}

const LONG = { slots: LONG_SLOTS, context_tokens: LONG_CONTEXT_TOKENS, first_prompt_tokens: FIRST_PROMPT_TOKENS }

export const POLICIES_WORKLOADS = ['chats', 'react', 'trees'] as const satisfies readonly WorkloadName[]
export type PoliciesWorkload = (typeof POLICIES_WORKLOADS)[number]

export const POLICIES_SETTINGS: Readonly<Record<PoliciesWorkload, PoliciesSetting>> = {
  chats: {
    ...{ workload: 'chats', programs: 60, load: 1.4, kv_tokens: null, first_prompt_tokens: null },
    ...{ slots: BENCH_SLOTS, context_tokens: BENCH_CONTEXT_TOKENS },
    ...{ capacity_programs: 30, capacity_live_programs: 2 * SEATS },
  },
  react: {
    ...{ workload: 'react', programs: 24, load: 3, kv_tokens: 112 * BLOCK_TOKENS, ...LONG },
    ...{ capacity_programs: 12, capacity_live_programs: 4 },
  },
  trees: {
    ...{ workload: 'trees', programs: 20, load: 3, kv_tokens: 90 * BLOCK_TOKENS, ...LONG },
    ...{ capacity_programs: 10, capacity_live_programs: 3 },
  },
}
