/** The lines of a batch: how they are checked, and what each asks for and is answered. */
import { checkLine } from '../../core/batch/batch-line.ts'
import { BATCH_REQUESTS_MAX, type BatchState, type Place } from '../../core/batch/batch-state.ts'
import { type LineFault, lineFault } from '../../core/batch/json-line.ts'
import { answeredLine, expiredLine } from '../../core/batch/line-result.ts'
import type { NextRequest, RequestSource } from './line-run.ts'
import { LineSource } from './line-source.ts'
import type { LineRules } from './validation.ts'

/** `models`: that lines may ask for. */
export function batchRules({ tenant, input, endpoint }: BatchState, models: ReadonlySet<string>): LineRules {
  return {
    ...{ tenant, input, id_field: 'custom_id', requests_max: BATCH_REQUESTS_MAX, deleted: inputDeleted },
    check: (file_line) => {
      const checked = checkLine(file_line, endpoint)
      if (checked.status !== 'line') return checked
      const { custom_id, model } = checked.line
      const message = `the model ${JSON.stringify(model)} does not exist or you do not have access to it.`
      const fault = lineFault(file_line.number, 'model_not_found', message, 'body.model')
      return { status: 'line', id: custom_id, requests: 1, faults: models.has(model) ? [] : [fault] }
    },
    tooMany: (line) => {
      const message = `The input file has more than ${BATCH_REQUESTS_MAX} requests. Split it.`
      return { code: 'too_many_requests', line, message, param: null }
    },
  }
}

export function inputDeleted(file: string): LineFault {
  const message = `The input file ${file} was deleted while the batch needed it. What had finished is in the output file.`
  return { code: 'input_file_deleted', line: null, message, param: 'input_file_id' }
}

export class BatchRequests implements RequestSource {
  readonly #state: BatchState
  readonly #source: LineSource
  /** Read up to here. */
  #read: Place
  /** Read, and not given. */
  #held: NextRequest | null = null

  constructor(state: BatchState, bucket: R2Bucket) {
    this.#state = state
    this.#source = new LineSource(bucket, state.tenant, state.input.parts, state.done)
    this.#read = state.done
  }

  async next(isDone: (request: number) => boolean, only: number | null): Promise<NextRequest> {
    this.#held ??= await this.#readNext(isDone)
    const next = this.#held
    if (next.status === 'request' && only !== null && next.request.request !== only) return { status: 'later' }
    this.#held = null
    return next
  }

  async #readNext(isDone: (request: number) => boolean): Promise<NextRequest> {
    const { endpoint, id } = this.#state
    for (;;) {
      const next = await this.#source.next()
      if (next.status !== 'line') return next
      const { line } = next
      const checked = checkLine(line, endpoint)
      if (checked.status === 'fault') throw new Error(`line ${line.number} was valid and is not`)
      const { requests: request } = this.#read
      this.#read = { ...line.end, requests: request + (checked.status === 'line' ? 1 : 0), unit: 0 }
      if (checked.status === 'blank' || isDone(request)) continue
      const { custom_id, body } = checked.line
      const request_id = `batch_req_${id.slice('batch_'.length)}_${request}`
      return {
        status: 'request',
        request: {
          ...{ request, end: this.#read, bytes: line.bytes?.length ?? 0, call: { endpoint, body } },
          answered: (answer) => answeredLine(request_id, custom_id, answer),
          expired: () => expiredLine(request_id, custom_id),
        },
      }
    }
  }
}
