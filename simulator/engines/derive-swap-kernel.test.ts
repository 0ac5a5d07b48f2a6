import { expect, test } from 'vitest'
import { derivedKernels } from './derive-swap-kernel.ts'
import { SWAP_KERNEL_NAMES, SWAP_KERNELS } from './swap-kernels.ts'

test('the shipped kernels are those that the measurements give', () => {
  expect(derivedKernels()).toEqual(SWAP_KERNELS)
})

test.each(SWAP_KERNEL_NAMES)('%s is within 15 %% of what was measured for 8,192 tokens', (name) => {
  const measured_ms = { 'copy-per-block': 64.0, 'batch-copy': 31.6, gather: 1.49 + 0.0386 * (20.9 - 1.49) }[name]
  const { base_us, save_us_per_token } = SWAP_KERNELS[name].swap_costs
  const predicted_ms = (base_us + 8192 * save_us_per_token) / 1000
  expect(Math.abs(predicted_ms / measured_ms - 1)).toBeLessThan(0.15)
})
