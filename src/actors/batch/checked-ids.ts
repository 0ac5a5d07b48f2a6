/** The ids of lines that validation has seen, as an actor stores them: a piece for each slice of validation. */
import { deleteKeys, keyOf } from './result-packs.ts'

const IDS = 'ids:'

export class CheckedIds {
  readonly #storage: DurableObjectStorage

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage
  }

  /** Awaited together with the state of the slice, it is both or neither. */
  async put(slice: number, ids: Uint8Array): Promise<void> {
    if (ids.length > 0) await this.#storage.put(keyOf(IDS, slice), ids)
  }

  /** Those of all slices. */
  async load(): Promise<Uint8Array[]> {
    const stored = await this.#storage.list<Uint8Array>({ prefix: IDS })
    return [...stored.values()]
  }

  async drop(): Promise<void> {
    const stored = await this.#storage.list({ prefix: IDS })
    await deleteKeys(this.#storage, [...stored.keys()])
  }
}
