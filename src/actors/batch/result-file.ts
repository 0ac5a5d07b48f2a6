/**
 * The files of results as they grow. Results come in the order of the input and are gathered in memory until they make a
 * part. The part goes to R2 under a name that follows from its number, and then the state takes it up with the place up to
 * which it reaches. A part that was written before a crash and not taken up is written over.
 */
import { addTokens, type BatchTokens, type OutputFile, type Place } from '../../core/batch/batch-state.ts'
import { FILE_PART_BYTES, partName, putPart } from '../../store/file-contents.ts'
import { joined } from '../../store/segments.ts'
import type { StoredResult } from './result-packs.ts'

/** What of a state follows its files. It is changed in place. */
export interface ResultCounts {
  /** Results before it are in R2. */
  done: Place
  completed: number
  failed: number
  tokens: BatchTokens
}

export interface ResultFiles {
  bucket: R2Bucket
  tenant: string
  /** Into which file a result goes. */
  fileOf(result: StoredResult): OutputFile
  /** The state was changed: it takes up parts that R2 has. `first`: of each file that got a part. `results`: all that they have. */
  save(first: ReadonlyMap<OutputFile, StoredResult>, results: readonly StoredResult[]): Promise<void>
}

export class ResultFile {
  readonly #files: ResultFiles
  readonly #counts: ResultCounts
  readonly #part_bytes: number
  #results: StoredResult[] = []
  #bytes = 0

  constructor(files: ResultFiles, counts: ResultCounts, part_bytes = FILE_PART_BYTES) {
    this.#files = files
    this.#counts = counts
    this.#part_bytes = part_bytes
  }

  /** Results that are in no part yet. */
  get counts(): { ok: number; failed: number } {
    const ok = this.#results.filter((result) => result.ok).length
    return { ok, failed: this.#results.length - ok }
  }

  get isFull(): boolean {
    return this.#bytes >= this.#part_bytes
  }

  add(result: StoredResult): void {
    this.#results.push(result)
    this.#bytes += result.bytes.length
  }

  /** R2 has what was added, and the state says so. */
  async write(): Promise<void> {
    const results = this.#results
    const last = results.at(-1)
    if (last === undefined) return
    this.#results = []
    this.#bytes = 0
    const parts = Map.groupBy(results, (result) => this.#files.fileOf(result))
    await Promise.all([...parts].map(([file, lines]) => this.#writePart(file, lines)))
    const counts = this.#counts
    const ok = results.filter((result) => result.ok).length
    counts.completed += ok
    counts.failed += results.length - ok
    counts.tokens = results.reduce((sum, { tokens }) => addTokens(sum, tokens), counts.tokens)
    counts.done = last.end
    await this.#files.save(new Map([...parts].map(([file, lines]) => [file, lines[0] as StoredResult])), results)
  }

  async #writePart(file: OutputFile, lines: readonly StoredResult[]): Promise<void> {
    const body = joined(lines.map(({ bytes }) => bytes))
    const name = partName(file.file, file.parts.length)
    await putPart(this.#files.bucket, this.#files.tenant, name, body)
    file.parts.push({ name, bytes: body.length })
  }
}
