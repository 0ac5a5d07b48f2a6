/**
 * How `bench:vllm` plays each workload. `chats` has all the KV that the server allots (1 GiB). For `react` and `trees` vLLM is
 * started with fewer blocks (`--num-gpu-blocks-override`): they hold 6 contexts of some 900 tokens, and 20 or 18 programs are live at the
 * last arrival, so that a third of them fits. The 8 seats are not what is scarce, as on a GPU with vLLM's default of 256.
 *
 * `writers`: KV holds 3 to 4 writers. When questions preempt them, they take their blocks as well, and what a writer had computed is lost or
 * swapped. The load is low, so that questions come as long as writers write: in overload they all go first, and preempt no call.
 */

import type { VllmDevice } from '../../../ops/vllm/host.ts'
import { BLOCK_TOKENS, SEATS } from '../../testbed/vllm-server.ts'
import type { GpuWorkload, SmallWorkload, WorkloadSetting } from '../workload.ts'

/** Half a second to compute on two cores, as much as all other work of a short ReAct program. */
const FIRST_PROMPT_TOKENS = [600, 840] as const

export const VLLM_SETTINGS: Readonly<Record<SmallWorkload, WorkloadSetting>> = {
  chats: {
    ...{ workload: 'chats', programs: 120, load: 1.5, kv_tokens: null, first_prompt_tokens: null },
    ...{ capacity_programs: 60, capacity_live_programs: 2 * SEATS },
  },
  react: {
    ...{ workload: 'react', programs: 40, load: 2, kv_tokens: 173 * BLOCK_TOKENS },
    ...{ first_prompt_tokens: FIRST_PROMPT_TOKENS, capacity_programs: 24, capacity_live_programs: 5 },
  },
  trees: {
    ...{ workload: 'trees', programs: 36, load: 2, kv_tokens: 160 * BLOCK_TOKENS },
    ...{ first_prompt_tokens: FIRST_PROMPT_TOKENS, capacity_programs: 20, capacity_live_programs: 4 },
  },
  writers: {
    ...{ workload: 'writers', programs: 80, load: 1.2, kv_tokens: 104 * BLOCK_TOKENS },
    ...{ first_prompt_tokens: FIRST_PROMPT_TOKENS, capacity_programs: 20, capacity_live_programs: 3 },
  },
}

/** As `gpu-check` has them: a model of Llama-3-8B's shape, whose KV is 5 GiB. */
export const GPU_KV_TOKENS = 40_960
export const GPU_SIZE = { seats: 48, context_tokens: 12_288 }

const GPU = {
  ...{ kv_tokens: GPU_KV_TOKENS, first_prompt_tokens: null, capacity_without_pauses: true },
  ...{ programs: 160, load: 3, capacity_programs: 40 },
} as const

/** On a GPU: KV holds 19 contexts of `mixed`, and 12 of `tools`. */
export const GPU_SETTINGS: Readonly<Record<GpuWorkload, WorkloadSetting>> = {
  mixed: { workload: 'mixed', ...GPU, capacity_live_programs: 14 },
  tools: { workload: 'tools', ...GPU, capacity_live_programs: 10 },
}

export function settingsOf(device: VllmDevice): readonly WorkloadSetting[] {
  return Object.values(device === 'gpu' ? GPU_SETTINGS : VLLM_SETTINGS)
}
