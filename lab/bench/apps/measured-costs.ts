/** The planner's costs of the benchmark's models on each number of GPUs, measured by `npm run calibrate` one after the other. */

import { flagList } from '../../testbed/repository.ts'
import { runCommandOrThrow } from '../../testbed/run-command.ts'
import type { LentModel } from './lent-host.ts'

export async function measureCosts(
  file: string,
  models: readonly LentModel[],
  { gpus, seats, threads_per_gpu }: { gpus: number; seats: number; threads_per_gpu: number },
): Promise<void> {
  for (const { model, path: gguf, context_tokens } of models) {
    for (let degree = 1; degree <= gpus; degree *= 2) {
      process.stderr.write(`calibrate ${model} on ${degree}\n`)
      const flags = {
        ...{ costs: file, name: model, model: gguf, gpus: degree, threads: degree * threads_per_gpu },
        ...{ seats, slots: seats, 'context-tokens': context_tokens },
      }
      const { stdout } = await runCommandOrThrow('lab/calibrate/main.ts', flagList(flags))
      process.stderr.write(stdout)
    }
  }
}
