/** The lines of a file in R2, one after another, from any place on. It holds one block and one line. */

import type { FilePart } from '../../core/batch/file-part.ts'
import { LINE_BYTES_MAX } from '../../core/batch/json-line.ts'
import { type FileLine, type FilePosition, LineSplitter } from '../../core/batch/line-splitter.ts'
import { readBytesAt } from '../../store/file-contents.ts'

/** Read from R2 at a time. */
const BLOCK_BYTES = 1024 * 1024

/** `deleted`: the contents are gone. */
type NextLine = { status: 'line'; line: FileLine } | { status: 'end' } | { status: 'deleted' }

export class LineSource {
  readonly #bucket: R2Bucket
  readonly #tenant: string
  readonly #parts: readonly FilePart[]
  readonly #splitter: LineSplitter
  /** Of the next byte to read. */
  #offset: number
  #lines: Iterator<FileLine> | null = null
  #is_over = false

  constructor(
    bucket: R2Bucket,
    tenant: string,
    parts: readonly FilePart[],
    start: FilePosition,
    line_bytes_max = LINE_BYTES_MAX,
  ) {
    this.#bucket = bucket
    this.#tenant = tenant
    this.#parts = parts
    this.#offset = start.offset
    this.#splitter = new LineSplitter(start, line_bytes_max)
  }

  async next(): Promise<NextLine> {
    for (;;) {
      const found = this.#lines?.next()
      if (found !== undefined && found.done !== true) return { status: 'line', line: found.value }
      if (this.#is_over) return { status: 'end' }
      const bytes = await readBytesAt(this.#bucket, this.#tenant, this.#parts, this.#offset, BLOCK_BYTES)
      if (bytes === null) return { status: 'deleted' }
      this.#is_over = bytes.length === 0
      this.#offset += bytes.length
      this.#lines = this.#is_over ? this.#splitter.end() : this.#splitter.push(bytes)
    }
  }
}
