/**
 * What stops or delays a vLLM on a GPU although it is installed: a driver that is older than the CUDA that its torch was built for,
 * and FlashInfer, whose kernels are compiled at the first start unless they were installed beforehand.
 */
import type { Environment, VllmHost } from './vllm-host.ts'

/** Oldest driver by major version of CUDA: NVIDIA's "CUDA Compatibility", minor version compatibility. */
const DRIVER_MIN: Readonly<Record<number, number>> = { 11: 450, 12: 525, 13: 580 }

/** Why the driver cannot run this vLLM; null where it can, or where that is not known. */
export function driverFault(host: VllmHost, python: string, env: Environment): string | null {
  const { device, cuda, cuda_driver, gpus } = host
  // Within a major version newer libraries run on an older driver.
  const [built, runs] = [cuda, cuda_driver].map((version) => Number.parseInt(version ?? '', 10))
  if (device === 'cpu' || built === undefined || runs === undefined || !(built > runs)) return null
  // vLLM itself loads NVIDIA's compatibility package, which brings newer libraries to an older driver.
  if (env.VLLM_ENABLE_CUDA_COMPATIBILITY === '1') return null
  const least = DRIVER_MIN[built]
  const newer = least === undefined ? 'a newer driver' : `driver ${least} or later`
  return (
    `the NVIDIA driver ${gpus[0]?.driver ?? ''} runs CUDA ${cuda_driver}, and torch in ${python} is built for CUDA ${cuda}: install ${newer}, ` +
    "or name with --vllm-python a vLLM for an older CUDA. On a data-centre GPU NVIDIA's package cuda-compat and the variable " +
    'VLLM_ENABLE_CUDA_COMPATIBILITY=1 will do too'
  )
}

/** Set unless the operator sets them. */
export function flashinferDefaults({ device, flashinfer }: VllmHost): Record<string, string> {
  // vLLM's sampler would ask for a kernel that nothing here can compile, or for the package, and vLLM would end.
  return device === 'cuda' && (flashinfer === 'cannot' || flashinfer === 'absent')
    ? { VLLM_USE_FLASHINFER_SAMPLER: '0' }
    : {}
}

/** For the operator, before a start; null: there is nothing to tell. */
export function flashinferNote({ device, flashinfer }: VllmHost, python: string): string | null {
  if (device === 'cpu' || flashinfer === 'precompiled') return null
  if (flashinfer === 'absent')
    return `FlashInfer is not installed in ${python}: vLLM samples without it (VLLM_USE_FLASHINFER_SAMPLER=0)`
  const install = `${python} -m vllm.entrypoints.cli.main download-kernels`
  return flashinfer === 'compiles'
    ? `FlashInfer compiles its kernels when vLLM first starts here, for minutes. What is compiled is kept. To start without that: ${install}`
    : `FlashInfer has no compiled kernels and finds no nvcc and ninja to compile them: vLLM samples without it (VLLM_USE_FLASHINFER_SAMPLER=0). To have them: ${install}`
}

/** What FlashInfer compiles with. Triton and torch's own compiler call none of these. */
const COMPILERS = new Set(['ninja', 'nvcc', 'cicc', 'cudafe++'])

export function compilesKernels(commands: readonly string[]): boolean {
  return commands.some((command) => COMPILERS.has(command))
}
