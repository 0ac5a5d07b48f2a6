/**
 * Checks the lines of a batch's input, a slice at a time, so that no event of its actor takes long or holds much. A slice
 * begins where the last one ended. The ids of lines are kept between slices and for an actor that starts again.
 */

import type { LineFault } from '../../core/batch/batch-line.ts'
import { checkLine } from '../../core/batch/batch-line.ts'
import { BATCH_REQUESTS_MAX, BATCH_START, type BatchState, FAULTS_MAX } from '../../core/batch/batch-state.ts'
import { CustomIds } from '../../core/batch/custom-ids.ts'
import type { BatchStorage } from './batch-storage.ts'
import { LineSource } from './line-source.ts'

/** Of one slice: some 50 ms of CPU. */
const SLICE_BYTES = 4 * 1024 * 1024
export const SLICE_LINES = 10_000

export class Validation {
  readonly #storage: BatchStorage
  readonly #bucket: R2Bucket
  readonly #ids: CustomIds
  #slice: number
  #source: LineSource | null = null

  private constructor(storage: BatchStorage, bucket: R2Bucket, ids: CustomIds, slice: number) {
    this.#storage = storage
    this.#bucket = bucket
    this.#ids = ids
    this.#slice = slice
  }

  static async resume(storage: BatchStorage, bucket: R2Bucket): Promise<Validation> {
    const ids = new CustomIds()
    const slices = await storage.checkedIds()
    for (const slice of slices) ids.restore(slice)
    return new Validation(storage, bucket, ids, slices.length)
  }

  /** `models`: that lines may ask for. `valid`, `invalid`: all lines are checked, and the state says so. */
  async check(state: BatchState, models: ReadonlySet<string>): Promise<'more' | 'valid' | 'invalid'> {
    const checked = await this.#checkSlice(state, models)
    if (checked === 'more') {
      await this.#storage.putChecked(state, this.#slice++, this.#ids.take())
      return checked
    }
    if (state.done.requests === 0 && state.faults.length === 0) {
      addFault(state, { code: 'empty_file', line: null, message: 'The input file has no requests.', param: null })
    }
    if (state.faults.length > 0) return 'invalid'
    state.total = state.done.requests
    state.done = BATCH_START
    return 'valid'
  }

  async #checkSlice(state: BatchState, models: ReadonlySet<string>): Promise<'more' | 'over'> {
    const { input, tenant, endpoint } = state
    this.#source ??= new LineSource(this.#bucket, tenant, input.parts, state.done)
    const start = state.done
    for (let lines = 0; lines < SLICE_LINES && state.done.offset - start.offset < SLICE_BYTES; lines += 1) {
      if (state.faults.length >= FAULTS_MAX) return 'over'
      const next = await this.#source.next()
      if (next.status === 'deleted') {
        addFault(state, inputDeleted(input.file))
        return 'over'
      }
      if (next.status === 'end') return 'over'
      const { line } = next
      const checked = checkLine(line, endpoint)
      if (checked.status === 'fault') addFault(state, checked.fault)
      if (checked.status === 'line') this.#addRequest(state, line.number, checked.line, models)
      state.done = { ...line.end, requests: state.done.requests + (checked.status === 'blank' ? 0 : 1) }
      if (state.done.requests > BATCH_REQUESTS_MAX) {
        const message = `The input file has more than ${BATCH_REQUESTS_MAX} requests. Split it.`
        addFault(state, { code: 'too_many_requests', line: line.number, message, param: null })
        return 'over'
      }
    }
    return 'more'
  }

  #addRequest(
    state: BatchState,
    number: number,
    { custom_id, model }: { custom_id: string; model: string },
    models: ReadonlySet<string>,
  ): void {
    if (!models.has(model)) {
      const message = `Line ${number}: the model ${JSON.stringify(model)} does not exist or you do not have access to it.`
      addFault(state, { code: 'model_not_found', line: number, message, param: 'body.model' })
    }
    const before = this.#ids.add(custom_id, number)
    if (before === null) return
    const message = `Line ${number}: the custom_id ${JSON.stringify(custom_id)} is that of line ${before}.`
    addFault(state, { code: 'duplicate_custom_id', line: number, message, param: 'custom_id' })
  }
}

export function inputDeleted(file: string): LineFault {
  const message = `The input file ${file} was deleted while the batch needed it. What had finished is in the output file.`
  return { code: 'input_file_deleted', line: null, message, param: 'input_file_id' }
}

function addFault(state: BatchState, fault: LineFault): void {
  if (state.faults.length < FAULTS_MAX) state.faults.push(fault)
}
