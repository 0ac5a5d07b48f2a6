import { expect, test } from 'vitest'
import { compilesKernels, driverFault, flashinferDefaults, flashinferNote } from './gpu-readiness.ts'
import { parseGpus, type VllmHost } from './vllm-host.ts'

const HOST: VllmHost = {
  device: 'cuda',
  vllm_version: '0.32.0',
  versions_run: ['0.32.0'],
  entry: [],
  plugin_folder: null,
  gpus: parseGpus('0, NVIDIA H100 80GB HBM3, 81559, 580.159.04\n'),
  cuda: '13.0',
  cuda_driver: '13.0',
  flashinfer: 'precompiled',
}

const OLD = parseGpus('0, NVIDIA H100 80GB HBM3, 81559, 550.90.07\n')

function builtFor(cuda: string | null, cuda_driver: string | null = '12.4'): VllmHost {
  return { ...HOST, cuda, cuda_driver, gpus: OLD }
}

test('a driver that is too old for the CUDA of that vLLM is named with what to do', () => {
  expect(driverFault(HOST, 'python3', {})).toBe(null)
  expect(driverFault(builtFor('13.0'), '/opt/vllm/bin/python', {})).toMatch(
    /driver 550\.90\.07 runs CUDA 12\.4, and torch in \/opt\/vllm\/bin\/python is built for CUDA 13\.0: install driver 580 or later/,
  )
  expect(driverFault(builtFor('12.9'), 'python3', {})).toBe(null)
  expect(driverFault(builtFor('12.9', '11.8'), 'python3', {})).toMatch(/install driver 525 or later/)
  expect(driverFault(builtFor('99.1'), 'python3', {})).toMatch(/install a newer driver/)
})

test('what is not known stops nothing, nor does the compatibility package', () => {
  expect(driverFault(builtFor(null), 'python3', {})).toBe(null)
  expect(driverFault(builtFor('13.0', null), 'python3', {})).toBe(null)
  expect(driverFault({ ...builtFor('13.0'), device: 'cpu' }, 'python3', {})).toBe(null)
  expect(driverFault(builtFor('13.0'), 'python3', { VLLM_ENABLE_CUDA_COMPATIBILITY: '0' })).not.toBe(null)
  expect(driverFault(builtFor('13.0'), 'python3', { VLLM_ENABLE_CUDA_COMPATIBILITY: '1' })).toBe(null)
})

test('without compiled kernels or a compiler vLLM samples without FlashInfer, and the operator hears of it', () => {
  const cannot: VllmHost = { ...HOST, flashinfer: 'cannot' }
  expect(flashinferDefaults(cannot)).toEqual({ VLLM_USE_FLASHINFER_SAMPLER: '0' })
  expect(flashinferNote(cannot, 'py')).toMatch(/no nvcc and ninja.*py -m vllm\.entrypoints\.cli\.main download-kernels/)
  const absent: VllmHost = { ...HOST, flashinfer: 'absent' }
  expect(flashinferDefaults(absent)).toEqual({ VLLM_USE_FLASHINFER_SAMPLER: '0' })
  expect(flashinferNote(absent, 'py')).toMatch(/FlashInfer is not installed in py/)
  const compiles: VllmHost = { ...HOST, flashinfer: 'compiles' }
  expect(flashinferDefaults(compiles)).toEqual({})
  expect(flashinferNote(compiles, 'py')).toMatch(/compiles its kernels when vLLM first starts here.*download-kernels/)
  for (const host of [HOST, { ...cannot, device: 'cpu' } as const]) {
    expect(flashinferDefaults(host)).toEqual({})
    expect(flashinferNote(host, 'py')).toBe(null)
  }
})

test('FlashInfer’s compilers are told from vLLM’s own processes and from those of Triton', () => {
  expect(compilesKernels(['python', 'VLLM::EngineCore', 'ninja', 'nvcc'])).toBe(true)
  expect(compilesKernels(['python', 'VLLM::EngineCore', 'ptxas', 'gcc'])).toBe(false)
})
