/**
 * Splits a byte stream into server-sent event frames. It copies no more than necessary and does not decode frames that only
 * pass through: a frame is returned as the bytes that arrived, including its terminator. Text is decoded per whole frame,
 * so a character that was cut between two reads stays whole.
 *
 * Line ends are LF or CR LF, in any mixture. The specification also allows a lone CR, but no engine sends it.
 */
import { joined } from './joined.ts'

/** One frame may hold this many bytes; a larger one means that the upstream does not speak SSE. */
export const FRAME_BYTES_MAX = 1024 * 1024

const LF = 10
const CR = 13
const DATA = 'data: '
const ID = 'id: '
/** The bytes of ID. */
const ID_BYTES = [105, 100, 58, 32] as const

export type Frame =
  /** Comment lines only: keep-alive. `text` is the last one's. */
  | { kind: 'comment'; text: string }
  /** `event` is null for an unnamed event. Several data lines are joined by a line feed. `id` is left out where it has none. */
  | { kind: 'event'; event: string | null; data: string; id?: string }

export class FrameTooLarge extends Error {
  override readonly name = 'FrameTooLarge'
}

export class SseSplitter {
  #pending: Uint8Array = new Uint8Array(0)
  /** Bytes of `#pending` that were searched and end no frame. */
  #searched = 0

  /** Adds bytes; `next` is to be called until it answers null before more are added, so that what is held stays bounded. */
  push(bytes: Uint8Array): void {
    this.#pending = this.#pending.length === 0 ? bytes : joined([this.#pending, bytes])
  }

  /** The next whole frame, or null when more bytes are needed. Throws FrameTooLarge past FRAME_BYTES_MAX. */
  next(): Uint8Array | null {
    const end = endOfFrame(this.#pending, this.#searched)
    const bytes = end === -1 ? this.#pending.length : end
    if (bytes > FRAME_BYTES_MAX) throw new FrameTooLarge(`an event is larger than ${FRAME_BYTES_MAX} bytes`)
    if (end === -1) {
      // The last two bytes may begin a terminator that goes on in the next read.
      this.#searched = Math.max(0, bytes - 2)
      return null
    }
    const frame = this.#pending.subarray(0, end)
    this.#pending = this.#pending.subarray(end)
    this.#searched = 0
    return frame
  }

  /** Adds bytes and parses every frame that they complete. Throws FrameTooLarge past FRAME_BYTES_MAX. */
  *frames(bytes: Uint8Array): Generator<Frame> {
    this.push(bytes)
    for (let frame = this.next(); frame !== null; frame = this.next()) yield parseFrame(frame)
  }

  /** What was pushed and not handed out. Empties the splitter. */
  rest(): Uint8Array {
    const rest = this.#pending
    this.#pending = new Uint8Array(0)
    this.#searched = 0
    return rest
  }
}

/** Index behind the first blank line at or after `from`, or -1. */
function endOfFrame(bytes: Uint8Array, from: number): number {
  for (let at = bytes.indexOf(LF, from); at !== -1; at = bytes.indexOf(LF, at + 1)) {
    if (bytes[at + 1] === LF) return at + 2
    if (bytes[at + 1] === CR && bytes[at + 2] === LF) return at + 3
  }
  return -1
}

const decoder = new TextDecoder()

export function parseFrame(bytes: Uint8Array): Frame {
  const text = decoder.decode(bytes)
  if (text.startsWith(ID)) {
    const end = text.indexOf('\n')
    const rest = text.slice(end + 1)
    if (end > 0 && isOneDataLine(rest)) {
      return { kind: 'event', event: null, data: rest.slice(DATA.length, -2), id: text.slice(ID.length, end) }
    }
  }
  return isOneDataLine(text) ? { kind: 'event', event: null, data: text.slice(DATA.length, -2) } : parseLines(text)
}

/** Almost every frame of an engine: one line of data behind `data: `. */
function isOneDataLine(text: string): boolean {
  return text.startsWith(DATA) && text.indexOf('\n') === text.length - 2 && !text.includes('\r')
}

function parseLines(text: string): Frame {
  let event: string | null = null
  let id: string | null = null
  let comment = ''
  const data: string[] = []
  for (const line of text.split(/\r?\n/)) {
    const colon = line.indexOf(':')
    const field = colon === -1 ? line : line.slice(0, colon)
    const value = colon === -1 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1)
    if (colon === 0) comment = value
    else if (field === 'event') event = value
    else if (field === 'id') id = value
    else if (field === 'data') data.push(value)
  }
  if (data.length === 0) return { kind: 'comment', text: comment }
  const read = { kind: 'event' as const, event, data: data.join('\n') }
  return id === null ? read : { ...read, id }
}

/** The frame without the `id` that it begins with. */
export function withoutId(frame: Uint8Array): Uint8Array {
  if (ID_BYTES.some((byte, at) => frame[at] !== byte)) return frame
  return frame.subarray(frame.indexOf(LF) + 1)
}
