/**
 * multipart/form-data (RFC 7578) as a stream: bytes in pieces of any size → fields and the bytes of files, as they come.
 * What it holds is bounded by HEADERS_BYTES_MAX and FIELD_BYTES_MAX, so a file of any size passes through.
 *
 * A boundary is found where a line begins with it. The last bytes of a piece may be the beginning of one, so as many are
 * held back.
 */

/** Headers of one part. */
export const HEADERS_BYTES_MAX = 8 * 1024
/** Of a field that is no file. */
export const FIELD_BYTES_MAX = 64 * 1024
export const FIELDS_MAX = 64

export type MultipartEvent =
  | { kind: 'field'; name: string; value: string }
  | { kind: 'file'; name: string; filename: string }
  /** Of the file that began last. Views of what was pushed. */
  | { kind: 'bytes'; bytes: Uint8Array }
  | { kind: 'file_end' }

/** `fault`: why the body is not valid. Nothing more can be pushed after one. */
type MultipartRead = { status: 'read'; events: MultipartEvent[] } | { status: 'fault'; fault: string }

/** Of a Content-Type. Null: it is not multipart/form-data with a boundary. */
export function boundaryOf(content_type: string | null): string | null {
  if (!/^multipart\/form-data\s*(;|$)/i.test(content_type ?? '')) return null
  const [, quoted, plain] = /;\s*boundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))/i.exec(content_type ?? '') ?? []
  return quoted ?? plain ?? null
}

const encoder = new TextEncoder()
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
const HEADERS_END = encoder.encode('\r\n\r\n')
const HYPHEN = 0x2d
const RETURN = 0x0d
const NEWLINE = 0x0a

type State = 'preamble' | 'boundary' | 'headers' | 'field' | 'file' | 'over'

export class MultipartReader {
  /** Line break and boundary, as they end a part. */
  readonly #mark: Uint8Array
  #state: State = 'preamble'
  /** Not looked at yet. A line break in front lets the first boundary stand at the beginning. */
  #held: Uint8Array = new Uint8Array([RETURN, NEWLINE])
  #field: { name: string; parts: Uint8Array[]; bytes: number } | null = null
  #fields = 0
  #events: MultipartEvent[] = []

  constructor(boundary: string) {
    this.#mark = encoder.encode(`\r\n--${boundary}`)
  }

  push(bytes: Uint8Array): MultipartRead {
    this.#held = this.#held.length === 0 ? bytes : joined(this.#held, bytes)
    this.#events = []
    let fault: string | null | 'more' = null
    do fault = this.#step()
    while (fault === 'more')
    return fault === null ? { status: 'read', events: this.#events } : { status: 'fault', fault }
  }

  /** Whether the last boundary has come. */
  get isOver(): boolean {
    return this.#state === 'over'
  }

  /** Null: it needs more bytes. */
  #step(): 'more' | string | null {
    switch (this.#state) {
      case 'preamble':
      case 'field':
      case 'file':
        return this.#body()
      case 'boundary':
        return this.#afterBoundary()
      case 'headers':
        return this.#headers()
      case 'over':
        this.#held = new Uint8Array(0)
        return null
    }
  }

  #body(): 'more' | string | null {
    const held = this.#held
    const at = indexOf(held, this.#mark)
    const until = at === -1 ? Math.max(0, held.length - this.#mark.length + 1) : at
    const fault = this.#content(held.subarray(0, until))
    if (fault !== null) return fault
    this.#held = held.subarray(at === -1 ? until : until + this.#mark.length)
    if (at === -1) return null
    if (this.#state === 'file') this.#events.push({ kind: 'file_end' })
    const ended = this.#state === 'field' ? this.#fieldEnded() : null
    this.#state = 'boundary'
    return ended ?? 'more'
  }

  #content(bytes: Uint8Array): string | null {
    if (bytes.length === 0 || this.#state === 'preamble') return null
    if (this.#state === 'file') {
      this.#events.push({ kind: 'bytes', bytes })
      return null
    }
    const field = this.#field
    if (field === null) return null
    field.bytes += bytes.length
    if (field.bytes > FIELD_BYTES_MAX) return `its field "${field.name}" has more than ${FIELD_BYTES_MAX} bytes`
    field.parts.push(bytes)
    return null
  }

  #fieldEnded(): string | null {
    const field = this.#field
    if (field === null) return null
    this.#field = null
    try {
      const value = decoder.decode(field.parts.reduce(joined, new Uint8Array(0)))
      this.#events.push({ kind: 'field', name: field.name, value })
      return null
    } catch {
      // The decoder throws for nothing else.
      return `its field "${field.name}" is not valid UTF-8`
    }
  }

  #afterBoundary(): 'more' | string | null {
    const [first, second] = this.#held
    if (first === undefined || second === undefined) return null
    this.#held = this.#held.subarray(2)
    if (first === HYPHEN && second === HYPHEN) this.#state = 'over'
    else if (first === RETURN && second === NEWLINE) this.#state = 'headers'
    else return 'a boundary in it is not followed by a line break'
    return 'more'
  }

  #headers(): 'more' | string | null {
    const end = indexOf(this.#held, HEADERS_END)
    if (end > HEADERS_BYTES_MAX || (end === -1 && this.#held.length > HEADERS_BYTES_MAX)) {
      return `the headers of one of its parts have more than ${HEADERS_BYTES_MAX} bytes`
    }
    if (end === -1) return null
    let text: string
    try {
      text = decoder.decode(this.#held.subarray(0, end))
    } catch {
      // As above.
      return 'the headers of one of its parts are not valid UTF-8'
    }
    this.#held = this.#held.subarray(end + HEADERS_END.length)
    const named = dispositionOf(text)
    if (named === null) return 'one of its parts has no Content-Disposition with a name'
    this.#fields += 1
    if (this.#fields > FIELDS_MAX) return `it has more than ${FIELDS_MAX} parts`
    const { name, filename } = named
    if (filename !== null) {
      this.#state = 'file'
      this.#events.push({ kind: 'file', name, filename })
    } else {
      this.#state = 'field'
      this.#field = { name, parts: [], bytes: 0 }
    }
    return 'more'
  }
}

function dispositionOf(headers: string): { name: string; filename: string | null } | null {
  const line = headers.split('\r\n').find((one) => /^content-disposition\s*:/i.test(one))
  if (line === undefined) return null
  const name = parameterOf(line, 'name')
  if (name === null) return null
  const encoded = /;\s*filename\*=utf-8''([^;\s]+)/i.exec(line)?.[1]
  return { name, filename: decodedOr(encoded, parameterOf(line, 'filename')) }
}

/** Browsers and SDKs write `%22` for a quote in a name. */
function parameterOf(line: string, parameter: string): string | null {
  const found = new RegExp(`;\\s*${parameter}=(?:"((?:[^"\\\\]|\\\\.)*)"|([^;\\s]+))`, 'i').exec(line)
  const value = found?.[1]?.replaceAll(/\\(.)/g, '$1') ?? found?.[2]
  return value?.replaceAll('%22', '"') ?? null
}

function decodedOr(encoded: string | undefined, plain: string | null): string | null {
  if (encoded === undefined) return plain
  try {
    return decodeURIComponent(encoded)
  } catch {
    // It is not what it says it is.
    return plain
  }
}

function indexOf(bytes: Uint8Array, mark: Uint8Array): number {
  const first = mark[0] as number
  const last = bytes.length - mark.length
  for (let at = bytes.indexOf(first); at !== -1 && at <= last; at = bytes.indexOf(first, at + 1)) {
    let same = 1
    while (same < mark.length && bytes[at + same] === mark[same]) same += 1
    if (same === mark.length) return at
  }
  return -1
}

function joined(a: Uint8Array, b: Uint8Array): Uint8Array {
  const all = new Uint8Array(a.length + b.length)
  all.set(a)
  all.set(b, a.length)
  return all
}
