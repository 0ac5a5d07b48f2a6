/** What `bench:vllm` serves: the named model, else on the CPU the shipped small one, and on a GPU a large one of random weights. */
import type { VllmDevice } from '../../../ops/vllm/host.ts'
import { vllmModel } from '../../../ops/vllm/model.ts'
import { type RandomModel, randomModel } from './random-model.ts'

interface Wanted {
  python: string
  /** Null: the default. */
  model: string | null
  /** Where a model without weights is written. */
  folder: string
}

export async function servedModel(device: VllmDevice, { python, model, folder }: Wanted): Promise<RandomModel> {
  if (model !== null) return await vllmModel({ python, model })
  return device === 'gpu' ? randomModel(folder) : await vllmModel({ python })
}
