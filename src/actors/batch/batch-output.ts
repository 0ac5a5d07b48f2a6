/**
 * The output and the error file of a batch as they grow. Results come in the order of the input and are gathered in memory
 * until they make a part. The part goes to R2 under a name that follows from its number, and then the state takes it up with
 * the place up to which it reaches. A part that was written before a crash and not taken up is written over.
 */
import { addTokens, type BatchPlace, type BatchState, NO_TOKENS } from '../../core/batch/batch-state.ts'
import { FILE_PART_BYTES, partName, putPart } from '../../store/file-contents.ts'
import { joined } from '../../store/segments.ts'
import type { BatchStorage, StoredResult } from './batch-storage.ts'

export class BatchOutput {
  readonly #storage: BatchStorage
  readonly #bucket: R2Bucket
  readonly #state: BatchState
  #ok: Uint8Array[] = []
  #failed: Uint8Array[] = []
  #bytes = 0
  #tokens = NO_TOKENS
  #end: BatchPlace | null = null

  constructor(storage: BatchStorage, bucket: R2Bucket, state: BatchState) {
    this.#storage = storage
    this.#bucket = bucket
    this.#state = state
  }

  /** Results that are in no part yet. */
  get counts(): { ok: number; failed: number } {
    return { ok: this.#ok.length, failed: this.#failed.length }
  }

  get isFull(): boolean {
    return this.#bytes >= FILE_PART_BYTES
  }

  add({ ok, bytes, tokens, end }: StoredResult): void {
    ;(ok ? this.#ok : this.#failed).push(bytes)
    this.#bytes += bytes.length
    this.#tokens = addTokens(this.#tokens, tokens)
    this.#end = end
  }

  /** R2 has what was added, and the state says so. */
  async write(): Promise<void> {
    const end = this.#end
    if (end === null) return
    const [ok, failed, tokens] = [this.#ok, this.#failed, this.#tokens]
    this.#ok = []
    this.#failed = []
    this.#bytes = 0
    this.#tokens = NO_TOKENS
    this.#end = null
    const state = this.#state
    await Promise.all([this.#writePart(state.output, ok), this.#writePart(state.errors, failed)])
    state.completed += ok.length
    state.failed += failed.length
    state.tokens = addTokens(state.tokens, tokens)
    state.done = end
    await this.#storage.putDone(state)
  }

  async #writePart(file: BatchState['output'], lines: readonly Uint8Array[]): Promise<void> {
    if (lines.length === 0) return
    const body = joined(lines)
    const name = partName(file.file, file.parts.length)
    await putPart(this.#bucket, this.#state.tenant, name, body)
    file.parts.push({ name, bytes: body.length })
  }
}
