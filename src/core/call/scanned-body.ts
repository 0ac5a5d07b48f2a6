/**
 * Reads the body of a chat or a completion without parsing its prompt: every other field is parsed, and of the prompt only
 * what the control plane needs is noted. The prompt's bytes go to the engine's agent as they came.
 *
 * Only an ordinary body is read so. Null: it is none, and is parsed whole. That is every body that is not valid, that has a
 * field of no effect inside its prompt (the client is warned of it), or that is written in a way that no client's library
 * writes: the name of a field escaped, a field of the prompt twice. So what a client is told of its body has one home, the
 * dialect's schema.
 */
import { ROLES } from '../../protocol/openai.ts'
import { CHAT_BODY_FIELDS, type FieldRule, MESSAGE_FIELDS } from '../../protocol/request-fields.ts'
import { END, JsonScanner } from '../wire/json-scanner.ts'
import { ScannedMessage, type Span } from './scanned-message.ts'

type Json = Record<string, unknown>

/** The field that has the prompt. */
export type PromptField = 'messages' | 'prompt'

export interface ScannedBody {
  /**
   * All fields. In place of the prompt there is one without text, which is as valid and has the same hints, and in place of
   * tools an empty list.
   */
  fields: Readonly<Json>
  /** `messages` and `tools`, as far as they are looked at. Empty: the prompt is one text. */
  prompt: Readonly<{ messages?: readonly ScannedMessage[]; tools?: readonly Json[] }>
  /** Bytes of the prompt's text, and of its tools and tool calls as JSON. */
  prompt_bytes: number
  /** The values that `fields` has stand-ins for, as the client wrote them. */
  raw: ReadonlyMap<string, Uint8Array>
}

/** A prompt that has its first hint of a name behind so many messages is parsed whole. */
export const HINT_MESSAGES_MAX = 64

export function scanBody(bytes: Uint8Array, prompt_field: PromptField): ScannedBody | null {
  return new BodyScan(bytes, prompt_field).body()
}

const QUOTE = 0x22
const OPEN_BRACKET = 0x5b
const NULL = 0x6e
/** Arrays and objects around a value: of the body, of a message, of a part of its content. */
const LEVELS = { field: 1, message_field: 3, part_field: 5 } as const

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

class BodyScan {
  readonly #scanner: JsonScanner
  readonly #prompt_field: PromptField
  readonly #raw = new Map<string, Uint8Array>()
  readonly #messages: ScannedMessage[] = []
  /** Each with the message in which it was seen first. */
  readonly #hints = new Map<string, number>()
  readonly #seen = new Set<string>()
  #tools: Json[] | null = null
  #prompt_bytes = 0
  /** The body as JSON, with zeros in place of what is not parsed. */
  #fields = ''

  constructor(bytes: Uint8Array, prompt_field: PromptField) {
    this.#scanner = new JsonScanner(bytes)
    this.#prompt_field = prompt_field
  }

  body(): ScannedBody | null {
    const scanner = this.#scanner
    const isWhole = scanner.object((from, to) => this.#field(from, to)) && scanner.next() === END
    if (!isWhole || !this.#raw.has(this.#prompt_field)) return null
    const fields = JSON.parse(`{${this.#fields.slice(1)}}`) as Json
    const raw = { prompt_bytes: this.#prompt_bytes, raw: this.#raw }
    if (this.#prompt_field === 'prompt') return { fields: Object.assign(fields, { prompt: '' }), prompt: {}, ...raw }
    const tools = this.#tools
    Object.assign(fields, { messages: this.#standIns() }, tools === null ? {} : { tools: [] })
    return { fields, prompt: { messages: this.#messages, ...(tools === null ? {} : { tools }) }, ...raw }
  }

  #standIns(): Json[] {
    const messages: Json[] = Array.from({ length: 1 + Math.max(0, ...this.#hints.values()) }, () => {
      return { role: 'user', content: '' }
    })
    for (const [name, at] of this.#hints) Object.assign(messages[at] as Json, { [name]: '' })
    return messages
  }

  #field(from: number, to: number): boolean {
    const scanner = this.#scanner
    if (!scanner.is_verbatim) return false
    const name = decoder.decode(scanner.bytes.subarray(from, to))
    const starts = scanner.next()
    const value_from = scanner.at
    const isPrompt = name === this.#prompt_field
    const isTools = name === 'tools' && this.#prompt_field === 'messages'
    if (isPrompt || isTools) {
      if (this.#seen.has(name)) return false
      this.#seen.add(name)
    }
    if (isTools && starts !== OPEN_BRACKET && starts !== NULL) return false
    if (!isPrompt && (!isTools || starts === NULL)) {
      if (!scanner.value(LEVELS.field)) return false
      this.#fields += `,"${name}":${decoder.decode(scanner.bytes.subarray(value_from, scanner.at))}`
      return true
    }
    if (!this.#prompt(name)) return false
    this.#fields += `,"${name}":0`
    this.#raw.set(name, scanner.bytes.subarray(value_from, scanner.at))
    return true
  }

  #prompt(name: string): boolean {
    if (name === 'tools') return this.#toolList()
    if (name === 'prompt') return this.#text()
    return this.#scanner.array((index) => this.#message(index)) && this.#messages.length > 0
  }

  /** A completion's prompt of one text. */
  #text(): boolean {
    const scanner = this.#scanner
    if (scanner.next() !== QUOTE || !scanner.string()) return false
    this.#prompt_bytes += scanner.text_bytes
    return true
  }

  #message(index: number): boolean {
    const scanner = this.#scanner
    scanner.next()
    const message_from = scanner.at
    let role: string | null = null
    let text_bytes = 0
    let tool_calls_bytes = 0
    let tool_call_id: Span | null = null
    const isMessage = scanner.object((from, to) => {
      const name = MESSAGE_NAMES.find(scanner.bytes, from, to)
      switch (name) {
        case null:
          return false
        case 'role':
          role = this.#role()
          return role !== null
        case 'content':
          text_bytes = this.#content()
          return text_bytes !== END
        case 'tool_calls': {
          const isNull = scanner.next() === NULL
          if (!isNull && !this.#objects(TOOL_CALL_FIELDS, LEVELS.message_field)) return false
          if (isNull && !scanner.value(LEVELS.message_field)) return false
          tool_calls_bytes = isNull ? 0 : scanner.written_bytes
          return true
        }
        case 'tool_call_id': {
          scanner.next()
          const id_from = scanner.at
          if (!scanner.value(LEVELS.message_field)) return false
          tool_call_id = { from: id_from, to: scanner.at }
          return true
        }
        default:
          return this.#other(name, MESSAGE_FIELDS[name] as FieldRule, index)
      }
    })
    if (!isMessage || role === null) return false
    this.#prompt_bytes += text_bytes + tool_calls_bytes
    const whole = { from: message_from, to: scanner.at }
    this.#messages.push(new ScannedMessage(role, text_bytes, scanner.bytes, whole, tool_call_id))
    return true
  }

  #role(): string | null {
    const scanner = this.#scanner
    if (scanner.next() !== QUOTE) return null
    const from = scanner.at + 1
    return scanner.string() ? ROLE_NAMES.find(scanner.bytes, from, scanner.at - 1) : null
  }

  /** Bytes of its text. END: it is no ordinary content. */
  #content(): number {
    const scanner = this.#scanner
    const starts = scanner.next()
    if (starts === QUOTE) return scanner.string() ? scanner.text_bytes : END
    if (starts === NULL) return scanner.value(LEVELS.message_field) ? 0 : END
    let bytes = 0
    const isList = scanner.array(() => {
      const part_bytes = this.#part()
      bytes += part_bytes
      return part_bytes !== END
    })
    return isList ? bytes : END
  }

  #part(): number {
    const scanner = this.#scanner
    let hasType = false
    let text_bytes = 0
    const isPart = scanner.object((from, to) => {
      const name = PART_NAMES.find(scanner.bytes, from, to)
      if (name === null) return false
      const isText = scanner.next() === QUOTE
      if (!scanner.value(LEVELS.part_field)) return false
      if (name === 'type') hasType = isText
      if (name === 'text') text_bytes = isText ? scanner.text_bytes : 0
      return true
    })
    return isPart && hasType ? text_bytes : END
  }

  /** A field that is not looked into. An ignored one must ask for nothing, so that there is nothing to warn of. */
  #other(name: string, rule: FieldRule, index: number): boolean {
    const isNull = this.#scanner.next() === NULL
    if (rule.class === 'ignored' && !isNull) return isEmptyListNeutral(rule) && this.#scanner.array(() => false)
    if (!this.#scanner.value(LEVELS.message_field)) return false
    if (rule.class !== 'hint' || isNull || this.#hints.has(name)) return true
    this.#hints.set(name, index)
    return index < HINT_MESSAGES_MAX
  }

  /** A list of objects that have binding fields only, or one such object. */
  #objects(fields: BindingFields, levels: number): boolean {
    const scanner = this.#scanner
    if (scanner.next() !== OPEN_BRACKET) return this.#object(fields, levels + 1)
    let written = 1
    const isList = scanner.array(() => {
      if (!this.#object(fields, levels + 2)) return false
      written += scanner.written_bytes + 1
      return true
    })
    scanner.written_bytes = Math.max(2, written)
    return isList
  }

  /** `levels`: around its fields. */
  #object({ names, inner }: BindingFields, levels: number): boolean {
    const scanner = this.#scanner
    let written = 1
    const isObject = scanner.object((from, to) => {
      const name = names.find(scanner.bytes, from, to)
      if (name === null) return false
      const inner_fields = scanner.next() === NULL ? undefined : inner.get(name)
      const isOrdinary = inner_fields === undefined ? scanner.value(levels) : this.#object(inner_fields, levels + 1)
      // Two quotes, a colon, and a comma or the closing brace.
      written += name.length + 4 + scanner.written_bytes
      return isOrdinary
    })
    scanner.written_bytes = Math.max(2, written)
    return isObject
  }

  /** Of a tool only its name is of interest. */
  #toolList(): boolean {
    const scanner = this.#scanner
    const from = scanner.at
    if (!this.#objects(TOOL_FIELDS, LEVELS.field)) return false
    this.#prompt_bytes += scanner.written_bytes
    this.#tools = toolsByName(scanner.bytes.subarray(from, scanner.at))
    return true
  }
}

/** Tools of an ordinary list, with their names alone. */
function toolsByName(json: Uint8Array): Json[] {
  const scanner = new JsonScanner(json)
  const tools: Json[] = []
  scanner.array(() => {
    let called: Json = {}
    tools.push(called)
    return scanner.object((from, to) => {
      if (scanner.ascii(from, to) !== 'function') return scanner.value(LEVELS.part_field)
      called = {}
      tools[tools.length - 1] = { function: called }
      if (scanner.next() === NULL) return scanner.value(LEVELS.part_field)
      return scanner.object((name_from, name_to) => {
        const isName = scanner.ascii(name_from, name_to) === 'name'
        scanner.next()
        const value_from = scanner.at
        const isValue = scanner.value(LEVELS.part_field)
        if (isName) called.name = JSON.parse(decoder.decode(json.subarray(value_from, scanner.at)))
        return isValue
      })
    })
  })
  return tools
}

function isEmptyListNeutral({ neutral = [] }: FieldRule): boolean {
  return neutral.some((value) => Array.isArray(value))
}

/** Finds names among the bytes of a text without making a text of them. */
class FieldNames {
  /** By length and first byte. */
  readonly #names = new Map<number, { name: string; bytes: Uint8Array }[]>()

  constructor(names: Iterable<string>) {
    for (const name of names) {
      const bytes = Uint8Array.from(name, (char) => char.charCodeAt(0))
      const place = placeOf(bytes.length, bytes[0] as number)
      this.#names.set(place, [...(this.#names.get(place) ?? []), { name, bytes }])
    }
  }

  find(bytes: Uint8Array, from: number, to: number): string | null {
    for (const named of this.#names.get(placeOf(to - from, bytes[from] as number)) ?? []) {
      let at = 0
      while (at < named.bytes.length && bytes[from + at] === named.bytes[at]) at += 1
      if (at === named.bytes.length) return named.name
    }
    return null
  }
}

function placeOf(length: number, first: number): number {
  return length * 256 + first
}

interface BindingFields {
  names: FieldNames
  inner: ReadonlyMap<string, BindingFields>
}

function bindingFields({ inner: table = {} }: FieldRule = { class: 'binding' }): BindingFields {
  const binding = Object.entries(table).filter(([, rule]) => rule.class === 'binding')
  const nested = binding.filter(([, rule]) => rule.inner !== undefined)
  return {
    names: new FieldNames(binding.map(([name]) => name)),
    inner: new Map(nested.map(([name, rule]) => [name, bindingFields(rule)])),
  }
}

const MESSAGE_NAMES = new FieldNames(Object.keys(MESSAGE_FIELDS))
const ROLE_NAMES = new FieldNames(ROLES)
const PART_NAMES = bindingFields(MESSAGE_FIELDS.content).names
const TOOL_CALL_FIELDS = bindingFields(MESSAGE_FIELDS.tool_calls)
const TOOL_FIELDS = bindingFields(CHAT_BODY_FIELDS.tools)
