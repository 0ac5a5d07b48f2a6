/**
 * A keyed hash of text: HalfSipHash-1-3 with 64 bits of state output (https://github.com/veorq/SipHash). It is for tables that
 * clients fill: without the key no client can make two texts collide. It is synchronous, since `crypto.subtle` costs more by its
 * promises alone for the short texts of a conversation.
 *
 * All rounds run in one loop over words, which a young isolate soon compiles. A text of some length is hashed as UTF-8, four
 * bytes at a time: 0.4 ns per byte of ASCII where reading UTF-16 units takes 1.1 ns. Its lone surrogates are all alike.
 *
 * A hash is a number of 53 bits, so that it is an exact JavaScript number and a cheap key of a Map.
 */

/** Two words of 32 bits. */
export type HashKey = readonly [number, number]

/** UTF-16 units of a text from which it is encoded. Below, a call of the encoder costs more than it saves. */
export const ENCODED_UNITS_MIN = 64
/** UTF-16 units that are encoded at a time. */
export const PIECE_UNITS = 16 * 1024

const HIGH_BITS = 21
const WORD_BYTES = 4
/** Words that wait for their rounds: at least those of a short text with its length, or of a number. */
const WAITING_WORDS = 128
/** Rounds of the end are rounds of words that are 0. */
const FINAL_ROUNDS = new Int32Array(3)
/** A unit has at most 3 bytes of UTF-8. Used within one synchronous call only. */
const encoded = new Uint8Array(3 * PIECE_UNITS)
const encodedWords = new Int32Array(encoded.buffer)
const encoder = new TextEncoder()

export class KeyedHash {
  readonly #key: HashKey
  readonly #state = new Int32Array(4)
  readonly #waiting = new Int32Array(WAITING_WORDS)
  #count = 0

  constructor(key: HashKey) {
    this.#key = key
    this.reset()
  }

  reset(): this {
    const [k0, k1] = this.#key
    this.#count = 0
    this.#set(k0, k1 ^ 0xee, 0x6c796765 ^ k0, 0x74656462 ^ k1)
    return this
  }

  /** Adds an integer below 2^53. */
  number(value: number): this {
    this.#makeRoom(2)
    this.#wait(value | 0)
    this.#wait(Math.floor(value / 2 ** 32))
    return this
  }

  /** Adds `text` from `from` to `to` with its length, so that texts side by side cannot be told otherwise. */
  text(text: string, from = 0, to = text.length): this {
    const is_short = to - from < ENCODED_UNITS_MIN
    this.#makeRoom(ENCODED_UNITS_MIN)
    if (is_short) this.#units(text, from, to)
    else for (let at = from; at < to; ) at = this.#piece(text, at, to)
    this.#wait(to - from)
    return this
  }

  /** The hash of what was added since the last reset; starts the next one. Never 0, which callers use for "none". */
  digest(): number {
    const hash = this.soFar()
    this.reset()
    return hash
  }

  /** The digest of what was added until now. More may be added to it. */
  soFar(): number {
    this.#makeRoom(WAITING_WORDS)
    const state = this.#state
    const before = [state[0] ?? 0, state[1] ?? 0, state[2] ?? 0, state[3] ?? 0] as const
    state[2] = before[2] ^ 0xee
    this.#absorb(FINAL_ROUNDS, FINAL_ROUNDS.length)
    const low = this.#folded()
    state[1] = (state[1] ?? 0) ^ 0xdd
    this.#absorb(FINAL_ROUNDS, FINAL_ROUNDS.length)
    const high = this.#folded() >>> (32 - HIGH_BITS)
    this.#set(...before)
    return high * 2 ** 32 + low || 1
  }

  #folded(): number {
    return ((this.#state[1] ?? 0) ^ (this.#state[3] ?? 0)) >>> 0
  }

  #units(text: string, from: number, to: number): void {
    for (let at = from; at < to; at += 2) {
      this.#wait(text.charCodeAt(at) | ((at + 1 < to ? text.charCodeAt(at + 1) : 0) << 16))
    }
  }

  /** Adds the next PIECE_UNITS, or what is left, and returns where they end: never within a surrogate pair. */
  #piece(text: string, from: number, to: number): number {
    let end = Math.min(to, from + PIECE_UNITS)
    if (end < to && isHighSurrogate(text.charCodeAt(end - 1))) end -= 1
    const { written } = encoder.encodeInto(text.slice(from, end), encoded)
    const words = Math.ceil(written / WORD_BYTES)
    encoded.fill(0, written, words * WORD_BYTES)
    this.#makeRoom(WAITING_WORDS)
    this.#absorb(encodedWords, words)
    this.#wait(~written)
    return end
  }

  #wait(word: number): void {
    this.#waiting[this.#count] = word
    this.#count += 1
  }

  /** Runs the rounds of the words that wait unless `words` more have room. */
  #makeRoom(words: number): void {
    if (this.#count + words <= WAITING_WORDS) return
    this.#absorb(this.#waiting, this.#count)
    this.#count = 0
  }

  #set(v0: number, v1: number, v2: number, v3: number): void {
    const state = this.#state
    state[0] = v0
    state[1] = v1
    state[2] = v2
    state[3] = v3
  }

  #absorb(words: Int32Array, count: number): void {
    const state = this.#state
    let v0 = state[0] ?? 0
    let v1 = state[1] ?? 0
    let v2 = state[2] ?? 0
    let v3 = state[3] ?? 0
    for (let at = 0; at < count; at += 1) {
      const word = words[at] ?? 0
      v3 ^= word
      v0 = (v0 + v1) | 0
      v1 = ((v1 << 5) | (v1 >>> 27)) ^ v0
      v0 = (v0 << 16) | (v0 >>> 16)
      v2 = (v2 + v3) | 0
      v3 = ((v3 << 8) | (v3 >>> 24)) ^ v2
      v0 = (v0 + v3) | 0
      v3 = ((v3 << 7) | (v3 >>> 25)) ^ v0
      v2 = (v2 + v1) | 0
      v1 = ((v1 << 13) | (v1 >>> 19)) ^ v2
      v2 = (v2 << 16) | (v2 >>> 16)
      v0 ^= word
    }
    this.#set(v0, v1, v2, v3)
  }
}

function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit < 0xdc00
}
