/**
 * Writes the cost models of swap kernels from the measured copies:
 *
 *   node simulator/engines/derive-swap-kernels.ts [FILE]     default: simulator/engines/swap-kernels.json
 */
import { writeFileSync } from 'node:fs'
import { derivedKernels } from './derive-swap-kernel.ts'

const file = process.argv[2] ?? 'simulator/engines/swap-kernels.json'
const kernels = derivedKernels()
writeFileSync(file, `${JSON.stringify(kernels, null, 2)}\n`)
for (const [name, { swap_costs, provenance }] of Object.entries(kernels))
  console.log(`${name}: ${JSON.stringify(swap_costs)}\n${provenance}\n`)
