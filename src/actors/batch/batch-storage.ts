/** What a batch's actor stores: its state, what validation must remember of lines, and results that are in no part yet. */
import { BatchState } from '../../core/batch/batch-state.ts'
import { CheckedIds } from './checked-ids.ts'
import { ResultPacks } from './result-packs.ts'

const STATE = 'batch'

export class BatchStorage {
  readonly #storage: DurableObjectStorage
  readonly packs: ResultPacks
  readonly ids: CheckedIds

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage
    this.packs = new ResultPacks(storage, 'pack:')
    this.ids = new CheckedIds(storage)
  }

  async state(): Promise<BatchState | null> {
    const stored = await this.#storage.get(STATE)
    return stored === undefined ? null : BatchState.parse(stored)
  }

  async putState(state: BatchState): Promise<void> {
    await this.#storage.put(STATE, state)
  }

  /** The state as of a part that R2 has, without the packs whose results are in it. Both or neither. */
  async putDone(state: BatchState): Promise<void> {
    await Promise.all([this.putState(state), this.packs.dropBefore(state.done.requests)])
  }

  async clear(): Promise<void> {
    await Promise.all([this.#storage.deleteAlarm(), this.#storage.deleteAll()])
  }
}
