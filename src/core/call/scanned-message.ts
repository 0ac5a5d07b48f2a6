/**
 * A message of a body that was scanned (scanned-body.ts). Its role and the size of its text are known. Its other fields are
 * parsed when one of them is read first, so that who looks at the ends of a conversation does not pay for its middle.
 */
import { MESSAGE_FIELDS } from '../../protocol/request-fields.ts'

type Json = Readonly<Record<string, unknown>>

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** Where a value stands in a body. */
export interface Span {
  from: number
  to: number
}

export class ScannedMessage {
  readonly role: string
  /** UTF-8 bytes of its content, of all parts together. */
  readonly text_bytes: number
  readonly #body: Uint8Array
  readonly #whole: Span
  readonly #tool_call_id: Span | null
  #parsed: Json | null = null

  constructor(role: string, text_bytes: number, body: Uint8Array, whole: Span, tool_call_id: Span | null) {
    this.role = role
    this.text_bytes = text_bytes
    this.#body = body
    this.#whole = whole
    this.#tool_call_id = tool_call_id
  }

  /** Apart from the rest: a tool's result may be long, and only its size is of interest. */
  get tool_call_id(): unknown {
    return this.#tool_call_id === null ? undefined : parsed(this.#body, this.#tool_call_id)
  }

  field(name: string): unknown {
    this.#parsed ??= parsed(this.#body, this.#whole) as Json
    return this.#parsed[name]
  }
}

for (const name of Object.keys(MESSAGE_FIELDS)) {
  if (name in ScannedMessage.prototype || name === 'role') continue
  Object.defineProperty(ScannedMessage.prototype, name, {
    get(this: ScannedMessage) {
      return this.field(name)
    },
  })
}

function parsed(body: Uint8Array, { from, to }: Span): unknown {
  return JSON.parse(decoder.decode(body.subarray(from, to)))
}
