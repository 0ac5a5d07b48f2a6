/**
 * Bytes of a file → its lines, whatever the pieces in which they come. It holds at most one line of `line_bytes_max`, so a
 * file of any size costs that much memory. A longer line is passed over byte by byte and reported without its bytes.
 *
 * `position` is where the unfinished line begins. A splitter that starts there, with the bytes from there on, goes on as
 * this one would have: that makes reading resumable.
 */

export interface FilePosition {
  /** Of the first byte that belongs to no line before. */
  offset: number
  /** Lines before it. */
  lines: number
}

export const FILE_START: FilePosition = { offset: 0, lines: 0 }

export interface FileLine {
  /** The first is 1. */
  number: number
  /** Without its line break. Null: it has more than `line_bytes_max`. */
  bytes: Uint8Array | null
  /** After it and its line break. */
  end: FilePosition
}

const NEWLINE = 0x0a
const RETURN = 0x0d

export class LineSplitter {
  readonly #line_bytes_max: number
  #position: FilePosition
  /** Of the unfinished line. Empty once it is too long. */
  #held: Uint8Array[] = []
  #held_bytes = 0

  constructor(start: FilePosition, line_bytes_max: number) {
    this.#position = start
    this.#line_bytes_max = line_bytes_max
  }

  get position(): FilePosition {
    return this.#position
  }

  /** The lines that `bytes` finish. */
  *push(bytes: Uint8Array): Generator<FileLine> {
    let from = 0
    for (let at = bytes.indexOf(NEWLINE); at !== -1; at = bytes.indexOf(NEWLINE, from)) {
      this.#hold(bytes.subarray(from, at))
      from = at + 1
      yield this.#finish(1)
    }
    this.#hold(bytes.subarray(from))
  }

  /** A last line without a line break. */
  *end(): Generator<FileLine> {
    if (this.#held_bytes > 0) yield this.#finish(0)
  }

  #hold(bytes: Uint8Array): void {
    this.#held_bytes += bytes.length
    // One more byte may be the return of a line break.
    if (this.#held_bytes > this.#line_bytes_max + 1) this.#held = []
    else if (bytes.length > 0) this.#held.push(bytes)
  }

  #finish(break_bytes: number): FileLine {
    const line = this.#held_bytes > this.#line_bytes_max + 1 ? null : withoutReturn(this.#held, this.#held_bytes)
    const { offset, lines } = this.#position
    this.#position = { offset: offset + this.#held_bytes + break_bytes, lines: lines + 1 }
    this.#held = []
    this.#held_bytes = 0
    const bytes = line !== null && line.length > this.#line_bytes_max ? null : line
    return { number: lines + 1, bytes, end: this.#position }
  }
}

function withoutReturn(parts: readonly Uint8Array[], bytes: number): Uint8Array {
  const [only] = parts
  const line = parts.length === 1 && only !== undefined ? only : joined(parts, bytes)
  return line.at(-1) === RETURN ? line.subarray(0, -1) : line
}

function joined(parts: readonly Uint8Array[], bytes: number): Uint8Array {
  const all = new Uint8Array(bytes)
  let at = 0
  for (const part of parts) {
    all.set(part, at)
    at += part.length
  }
  return all
}
