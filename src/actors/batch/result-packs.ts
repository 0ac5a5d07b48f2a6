/**
 * Results that are in no part of a file yet, as an actor stores them: in packs, so that a line costs no row. A pack that is
 * lost costs its lines a second run.
 */
import { z } from 'zod'
import { BatchTokens, Place } from '../../core/batch/batch-state.ts'
import { type LineResult, RESULT_BYTES_MAX } from '../../core/batch/line-result.ts'
import { joined } from '../../store/segments.ts'

/** Below 2 MB, the most that a Durable Object stores under one key. */
export const PACK_BYTES_MAX = RESULT_BYTES_MAX + 256 * 1024
const DELETED_AT_ONCE = 128
const NUMBER_DIGITS = 8

export interface StoredResult extends LineResult {
  /** Its place among the requests. */
  request: number
  /** After it. */
  end: Place
}

const Pack = z.object({
  results: z.array(
    z.object({ request: z.number(), ok: z.boolean(), length: z.number(), tokens: BatchTokens, end: Place }),
  ),
  bytes: z.instanceof(Uint8Array),
})

export class ResultPacks {
  readonly #storage: DurableObjectStorage
  readonly #prefix: string
  #packs = new Map<string, number>()
  #next_pack = 0

  /** `prefix`: of its keys, and of no others. */
  constructor(storage: DurableObjectStorage, prefix: string) {
    this.#storage = storage
    this.#prefix = prefix
  }

  /** Not awaited by what goes out: a result that is lost is made again. What is stored later is not there without it. */
  async put(results: readonly StoredResult[]): Promise<void> {
    const key = keyOf(this.#prefix, this.#next_pack++)
    this.#packs.set(key, lastOf(results))
    const listed = results.map(({ request, ok, bytes, tokens, end }) => ({
      ...{ request, ok, tokens, end },
      length: bytes.length,
    }))
    const pack = { results: listed, bytes: joined(results.map(({ bytes }) => bytes)) }
    await this.#storage.put(key, pack, { allowUnconfirmed: true })
  }

  /** All that are stored, and some that are in parts already. */
  async load(): Promise<StoredResult[]> {
    const stored = await this.#storage.list({ prefix: this.#prefix })
    const found: StoredResult[] = []
    for (const [key, value] of stored) {
      const { results, bytes } = Pack.parse(value)
      let from = 0
      for (const { length, ...result } of results) {
        found.push({ ...result, bytes: bytes.subarray(from, from + length) })
        from += length
      }
      this.#packs.set(key, lastOf(results))
      this.#next_pack = Math.max(this.#next_pack, Number(key.slice(this.#prefix.length)) + 1)
    }
    return found
  }

  /** Drops the packs whose results are all before `requests`. Awaited together with what says so, it is both or neither. */
  async dropBefore(requests: number): Promise<void> {
    const over = [...this.#packs].filter(([, last]) => last < requests).map(([key]) => key)
    for (const key of over) this.#packs.delete(key)
    await deleteKeys(this.#storage, over)
  }
}

export async function deleteKeys(storage: DurableObjectStorage, keys: readonly string[]): Promise<void> {
  const deleting: Promise<number>[] = []
  for (let from = 0; from < keys.length; from += DELETED_AT_ONCE) {
    deleting.push(storage.delete(keys.slice(from, from + DELETED_AT_ONCE)))
  }
  await Promise.all(deleting)
}

/** In the order of their numbers. */
export function keyOf(prefix: string, number: number): string {
  return prefix + String(number).padStart(NUMBER_DIGITS, '0')
}

function lastOf(results: readonly { request: number }[]): number {
  return Math.max(...results.map(({ request }) => request))
}
