/** How `bench:vllm` starts vLLM on a GPU, as `gpu-check` does: decoding in CUDA graphs, and nothing compiled before the first call. */
import { spawnSync } from 'node:child_process'
import type { VllmSize } from '../../testbed/vllm-server.ts'
import { GPU_SIZE } from './settings.ts'

/** Of the GPU's memory, for all vLLMs together. */
const MEMORY_SHARE = 0.9
const GRAPHS = JSON.stringify({ mode: 0, cudagraph_mode: 'FULL_DECODE_ONLY' })
const GPU_TOOL = 'nvidia-smi'
const FACTS = 'name,memory.total,driver_version'
const FACTS_TIMEOUT_MS = 20_000

/** All vLLMs run side by side; one computes at a time. */
export function gpuSize(servers: number, random_weights: boolean): VllmSize {
  const share = Math.floor((MEMORY_SHARE / servers) * 100) / 100
  return {
    ...GPU_SIZE,
    args: [
      ...['--compilation-config', GRAPHS, '--gpu-memory-utilization', String(share)],
      ...(random_weights ? ['--load-format', 'dummy'] : []),
    ],
    // Its kernels are compiled at their first use, for which a host may lack the compiler.
    env: { VLLM_USE_FLASHINFER_SAMPLER: '0' },
  }
}

/** The first GPU's name, memory and driver, as nvidia-smi has them. */
export function gpuFacts(): string {
  const asked = spawnSync(GPU_TOOL, [`--query-gpu=${FACTS}`, '--format=csv,noheader'], {
    ...{ encoding: 'utf8', timeout: FACTS_TIMEOUT_MS },
  })
  return asked.stdout?.split('\n')[0]?.trim() || 'unknown GPU'
}
