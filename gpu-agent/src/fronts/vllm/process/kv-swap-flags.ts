/**
 * The flags with which vLLM swaps the KV of preempted calls to host memory (docs/kv-swap.md). Its workers take device memory of
 * their own for that, after vLLM has sized its KV cache, so vLLM is told to leave it free: swap is compared with recompute at equal
 * memory.
 */
import { hasVllmFlag } from './vllm-flags.ts'
import type { VllmHost } from './vllm-host.ts'

/** Images pass through the one on their way out, and wait in the other on their way back. A call of 8k tokens of an 8B model is 1 GiB. */
const RING_GIB = { cuda: 1, cpu: 0.125 }
/** vLLM's own default of what it takes of a GPU. */
const GPU_SHARE = 0.92
const MIB_PER_GIB = 1024

export interface KvSwapWish {
  /** Host memory for the images of each worker (of each GPU); null: no swap. */
  kv_swap_gib: number | null
  args: readonly string[]
}

export function kvSwapFlags({ kv_swap_gib, args }: KvSwapWish, host: VllmHost, gpus: readonly number[]): string[] {
  if (kv_swap_gib === null) return []
  const ring_gib = RING_GIB[host.device]
  const words: string[] = []
  if (!hasVllmFlag(args, 'gpu-memory-utilization', 'kv-cache-memory-bytes', 'kv-cache-memory') && gpus.length > 0) {
    const smallest_mib = Math.min(...host.gpus.filter(({ index }) => gpus.includes(index)).map((gpu) => gpu.memory_mib))
    const share = GPU_SHARE - (2 * ring_gib * MIB_PER_GIB) / smallest_mib
    if (share > 0) words.push('--gpu-memory-utilization', (Math.floor(share * 1000) / 1000).toFixed(3))
  }
  const transfer = {
    kv_connector: 'BulkSwapConnector',
    kv_connector_module_path: 'switchyard_vllm.swap.connector',
    kv_role: 'kv_producer',
    kv_connector_extra_config: { arena_gib: kv_swap_gib, ring_gib, prefetch_gib: ring_gib },
  }
  return [...words, '--kv-transfer-config', JSON.stringify(transfer)]
}
