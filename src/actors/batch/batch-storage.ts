/**
 * What a batch's actor stores: its state, what validation must remember of lines, and results that are in no part of a file
 * yet. Results are stored in packs, so that a line costs no row. A pack that is lost costs its lines a second run.
 */
import { z } from 'zod'
import { type BatchPlace, BatchState, BatchTokens } from '../../core/batch/batch-state.ts'
import { type LineResult, RESULT_BYTES_MAX } from '../../core/batch/line-result.ts'
import { joined } from '../../store/segments.ts'

const STATE = 'batch'
const IDS = 'ids:'
const PACK = 'pack:'
/** Below 2 MB, the most that a Durable Object stores under one key. */
export const PACK_BYTES_MAX = RESULT_BYTES_MAX + 256 * 1024
const DELETED_AT_ONCE = 128
const NUMBER_DIGITS = 8

export interface StoredResult extends LineResult {
  /** Its place among the requests. */
  request: number
  /** After its line. */
  end: BatchPlace
}

const Pack = z.object({
  results: z.array(
    z.object({
      request: z.number(),
      ok: z.boolean(),
      length: z.number(),
      tokens: BatchTokens,
      end: BatchState.shape.done,
    }),
  ),
  bytes: z.instanceof(Uint8Array),
})

export class BatchStorage {
  readonly #storage: DurableObjectStorage
  #packs = new Map<string, number>()
  #next_pack = 0

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage
  }

  async state(): Promise<BatchState | null> {
    const stored = await this.#storage.get(STATE)
    return stored === undefined ? null : BatchState.parse(stored)
  }

  async putState(state: BatchState): Promise<void> {
    await this.#storage.put(STATE, state)
  }

  /** A slice of validation, with the ids of its lines. Both or neither. */
  async putChecked(state: BatchState, slice: number, ids: Uint8Array): Promise<void> {
    await this.#storage.put({ [STATE]: state, ...(ids.length > 0 ? { [keyOf(IDS, slice)]: ids } : {}) })
  }

  /** Those of all slices. */
  async checkedIds(): Promise<Uint8Array[]> {
    const stored = await this.#storage.list<Uint8Array>({ prefix: IDS })
    return [...stored.values()]
  }

  async dropCheckedIds(): Promise<void> {
    const stored = await this.#storage.list({ prefix: IDS })
    await this.#delete([...stored.keys()])
  }

  /** Not awaited by what goes out: a result that is lost is made again. */
  async putPack(results: readonly StoredResult[]): Promise<void> {
    const key = keyOf(PACK, this.#next_pack++)
    this.#packs.set(key, Math.max(...results.map(({ request }) => request)))
    const listed = results.map(({ request, ok, bytes, tokens, end }) => ({
      ...{ request, ok, tokens, end },
      length: bytes.length,
    }))
    const pack = { results: listed, bytes: joined(results.map(({ bytes }) => bytes)) }
    await this.#storage.put(key, pack, { allowUnconfirmed: true })
  }

  async packed(): Promise<StoredResult[]> {
    const stored = await this.#storage.list({ prefix: PACK })
    const found: StoredResult[] = []
    this.#packs = new Map()
    for (const [key, value] of stored) {
      const { results, bytes } = Pack.parse(value)
      let from = 0
      for (const { length, ...result } of results) {
        found.push({ ...result, bytes: bytes.subarray(from, from + length) })
        from += length
      }
      this.#packs.set(key, Math.max(...results.map(({ request }) => request)))
      this.#next_pack = Math.max(this.#next_pack, Number(key.slice(PACK.length)) + 1)
    }
    return found
  }

  /** The state as of a part that R2 has, without the packs whose results are in it. Both or neither. */
  async putDone(state: BatchState): Promise<void> {
    const over = [...this.#packs].filter(([, last]) => last < state.done.requests).map(([key]) => key)
    for (const key of over) this.#packs.delete(key)
    await Promise.all([this.putState(state), this.#delete(over)])
  }

  async clear(): Promise<void> {
    await Promise.all([this.#storage.deleteAlarm(), this.#storage.deleteAll()])
  }

  async #delete(keys: readonly string[]): Promise<void> {
    const deleting: Promise<number>[] = []
    for (let from = 0; from < keys.length; from += DELETED_AT_ONCE) {
      deleting.push(this.#storage.delete(keys.slice(from, from + DELETED_AT_ONCE)))
    }
    await Promise.all(deleting)
  }
}

/** In the order of their numbers. */
function keyOf(prefix: string, number: number): string {
  return prefix + String(number).padStart(NUMBER_DIGITS, '0')
}
