/**
 * How KV is moved when a call is swapped, as cost models of an 8B model's KV. Written by derive-swap-kernels.ts.
 *
 * - `copy-per-block`: one copy for each block and layer, as vLLM swapped when Autellix was written. Steps wait for all of it.
 * - `batch-copy`: all of these copies in one call of the driver, as vLLM does today. Steps wait for all of it.
 * - `gather`: the blocks are gathered on the GPU and leave in one copy. Steps wait for the gather alone.
 */
import type { LatencyProfile } from '../../gpu-agent/engine/backends/emulated/profiles/index.ts'
import type { SwapKernel } from './derive-swap-kernel.ts'
import kernels from './swap-kernels.json' with { type: 'json' }

export const SWAP_KERNEL_NAMES = ['copy-per-block', 'batch-copy', 'gather'] as const
export type SwapKernelName = (typeof SWAP_KERNEL_NAMES)[number]

export const SWAP_KERNELS: Readonly<Record<SwapKernelName, SwapKernel>> = kernels
/** The profile whose KV has as many bytes a token as what was measured. */
const PROFILE = 'a100-8b'

/** Throws RangeError for a profile of another model. */
export function withSwapKernel(profile: LatencyProfile, kernel: SwapKernelName): LatencyProfile {
  if (profile.name !== PROFILE) throw new RangeError(`swap kernels were measured for the KV of ${PROFILE} alone`)
  return { ...profile, swap_costs: SWAP_KERNELS[kernel].swap_costs }
}
