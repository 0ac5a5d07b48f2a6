/**
 * The `custom_id`s of a batch so far, so that a second one of the same text is found with the line of the first. An id is
 * kept as 85 bits of hashes and its line: 16 bytes for each of a table that is at most two thirds full. A million lines
 * cost 33 MB, and the odds that two different ids of a million count as one are 1 in 10^13.
 *
 * `take` gives what was added since the last time as bytes, and `restore` adds them again, so that an actor can keep them
 * piece by piece.
 */
import { hash32 } from '../wire/hash.ts'
import { KeyedHash } from '../wire/keyed-hash.ts'

const ENTRY_BYTES = 16
const CAPACITY_MIN = 1024

export class CustomIds {
  /** The batch's own client is the only one who could gain from a collision, so the key is no secret. */
  readonly #hash = new KeyedHash([0x5357, 0x5943])
  #size = 0
  #wide = new Float64Array(CAPACITY_MIN)
  #narrow = new Uint32Array(CAPACITY_MIN)
  #lines = new Uint32Array(CAPACITY_MIN)
  #fresh: { wide: number; narrow: number; line: number }[] = []

  get size(): number {
    return this.#size
  }

  /** The line that has this id already. Null: none has, and from now on `line` does. */
  add(custom_id: string, line: number): number | null {
    const wide = this.#hash.reset().text(custom_id).digest()
    const narrow = hash32(custom_id)
    const before = this.#insert(wide, narrow, line)
    if (before === null) this.#fresh.push({ wide, narrow, line })
    return before
  }

  take(): Uint8Array {
    const bytes = new DataView(new ArrayBuffer(this.#fresh.length * ENTRY_BYTES))
    for (const [index, { wide, narrow, line }] of this.#fresh.entries()) {
      bytes.setFloat64(index * ENTRY_BYTES, wide)
      bytes.setUint32(index * ENTRY_BYTES + 8, narrow)
      bytes.setUint32(index * ENTRY_BYTES + 12, line)
    }
    this.#fresh = []
    return new Uint8Array(bytes.buffer)
  }

  restore(taken: Uint8Array): void {
    const bytes = new DataView(taken.buffer, taken.byteOffset, taken.byteLength)
    for (let at = 0; at < bytes.byteLength; at += ENTRY_BYTES) {
      this.#insert(bytes.getFloat64(at), bytes.getUint32(at + 8), bytes.getUint32(at + 12))
    }
  }

  #insert(wide: number, narrow: number, line: number): number | null {
    if (3 * (this.#size + 1) > 2 * this.#wide.length) this.#grow()
    const at = this.#place(wide, narrow)
    if (this.#wide[at] !== 0) return this.#lines[at] ?? null
    this.#set(at, wide, narrow, line)
    this.#size += 1
    return null
  }

  /** Where the id is, or the empty place where it belongs. A digest is never 0. */
  #place(wide: number, narrow: number): number {
    const mask = this.#wide.length - 1
    for (let at = narrow & mask; ; at = (at + 1) & mask) {
      if (this.#wide[at] === 0 || (this.#wide[at] === wide && this.#narrow[at] === narrow)) return at
    }
  }

  #set(at: number, wide: number, narrow: number, line: number): void {
    this.#wide[at] = wide
    this.#narrow[at] = narrow
    this.#lines[at] = line
  }

  #grow(): void {
    const [wide, narrow, lines] = [this.#wide, this.#narrow, this.#lines]
    const capacity = 2 * wide.length
    this.#wide = new Float64Array(capacity)
    this.#narrow = new Uint32Array(capacity)
    this.#lines = new Uint32Array(capacity)
    for (let at = 0; at < wide.length; at += 1) {
      const [one, other] = [wide[at] ?? 0, narrow[at] ?? 0]
      if (one !== 0) this.#set(this.#place(one, other), one, other, lines[at] ?? 0)
    }
  }
}
