/**
 * Checks the lines of an input file, a slice at a time, so that no event of its actor takes long or holds much. A slice
 * begins where the last one ended. The ids of lines are kept between slices and for an actor that starts again.
 */

import { FAULTS_MAX, type Place } from '../../core/batch/batch-state.ts'
import { SLICE_BYTES, SLICE_LINES } from '../../core/batch/check-slice.ts'
import { CustomIds } from '../../core/batch/custom-ids.ts'
import type { FilePart } from '../../core/batch/file-part.ts'
import { type LineFault, lineFault } from '../../core/batch/json-line.ts'
import type { FileLine } from '../../core/batch/line-splitter.ts'
import type { CheckedIds } from './checked-ids.ts'
import { LineSource } from './line-source.ts'

/** `id`: that no other line may have; null: it has none. `requests`: that it counts for. */
type CheckedLine =
  | { status: 'line'; id: string | null; requests: number; faults: readonly LineFault[] }
  | { status: 'blank' }
  | { status: 'fault'; fault: LineFault }

/** The rules of what is checked. */
export interface LineRules {
  tenant: string
  input: { file: string; parts: readonly FilePart[] }
  /** By this name a line has its id. */
  id_field: string
  requests_max: number
  check(line: FileLine): CheckedLine
  deleted(file: string): LineFault
  tooMany(line: number): LineFault
}

/** What has been found. It is changed in place. */
export interface CheckState {
  faults: LineFault[]
  /** Lines before it are checked. */
  place: Place
}

export class Validation {
  readonly #rules: LineRules
  readonly #stored: CheckedIds
  readonly #bucket: R2Bucket
  readonly #ids: CustomIds
  #slice: number
  #source: LineSource | null = null

  private constructor(rules: LineRules, stored: CheckedIds, bucket: R2Bucket, ids: CustomIds, slice: number) {
    this.#rules = rules
    this.#stored = stored
    this.#bucket = bucket
    this.#ids = ids
    this.#slice = slice
  }

  static async resume(rules: LineRules, stored: CheckedIds, bucket: R2Bucket): Promise<Validation> {
    const ids = new CustomIds()
    const slices = await stored.load()
    for (const slice of slices) ids.restore(slice)
    return new Validation(rules, stored, bucket, ids, slices.length)
  }

  /** `over`: all lines are checked, or there are as many faults as are told. `save` stores the state; with the ids, or neither. */
  async check(state: CheckState, save: () => Promise<void>): Promise<'more' | 'over'> {
    const checked = await this.#checkSlice(state)
    if (checked === 'more') await Promise.all([save(), this.#stored.put(this.#slice++, this.#ids.take())])
    return checked
  }

  async #checkSlice(state: CheckState): Promise<'more' | 'over'> {
    const { input, tenant, requests_max } = this.#rules
    this.#source ??= new LineSource(this.#bucket, tenant, input.parts, state.place)
    const start = state.place
    for (let lines = 0; lines < SLICE_LINES && state.place.offset - start.offset < SLICE_BYTES; lines += 1) {
      if (state.faults.length >= FAULTS_MAX) return 'over'
      const next = await this.#source.next()
      if (next.status === 'deleted') {
        addFault(state, this.#rules.deleted(input.file))
        return 'over'
      }
      if (next.status === 'end') return this.#end(state)
      const { line } = next
      const checked = this.#rules.check(line)
      let requests = checked.status === 'blank' ? 0 : 1
      if (checked.status === 'fault') addFault(state, checked.fault)
      if (checked.status === 'line') {
        for (const fault of checked.faults) addFault(state, fault)
        this.#addId(state, line.number, checked.id)
        ;({ requests } = checked)
      }
      state.place = { ...line.end, requests: state.place.requests + requests, unit: 0 }
      if (state.place.requests > requests_max) {
        addFault(state, this.#rules.tooMany(line.number))
        return 'over'
      }
    }
    return 'more'
  }

  #end(state: CheckState): 'over' {
    if (state.place.requests === 0 && state.faults.length === 0) {
      addFault(state, { code: 'empty_file', line: null, message: 'The input file has no requests.', param: null })
    }
    return 'over'
  }

  #addId(state: CheckState, number: number, id: string | null): void {
    const before = id === null ? null : this.#ids.add(id, number)
    if (before === null) return
    const { id_field } = this.#rules
    const message = `the ${id_field} ${JSON.stringify(id)} is that of line ${before}.`
    addFault(state, lineFault(number, `duplicate_${id_field}`, message, id_field))
  }
}

export function addFault(state: Pick<CheckState, 'faults'>, fault: LineFault): void {
  if (state.faults.length < FAULTS_MAX) state.faults.push(fault)
}
