/**
 * Messages of OpenAI's chat form, as the relay has them for every API, reduced to what clients keep when
 * they send their history again: role, text, tool calls by name and arguments, tool results. Left out is what clients drop,
 * add or rewrite: ids, names, cache marks, reasoning, white space around a text, the order of keys in JSON arguments. Null,
 * empty and missing content are equal, and so are a text and a list of text parts.
 *
 * Linear in the size of the messages. Nothing of a text is kept.
 */
import type { HashKey } from '../wire/keyed-hash.ts'
import { KeyedHash } from '../wire/keyed-hash.ts'

/** Nesting of JSON arguments that counts. Deeper values are all alike. */
const ARGUMENTS_DEPTH_MAX = 64
/** Characters at the beginning of an answer that tell it apart when its end was cut off or added to. */
const HEAD_CHARS = 32

/** Characters at either end of a text that make its sample. */
const SAMPLE_CHARS = 512
/** Where the id of a tool call is looked for in an answer without tool calls. */
const ID_SEARCH_CHARS = 512
/** As engines write them. */
const TOOL_CALL_ID = /(?:call_|chatcmpl-tool-|toolu_)[A-Za-z0-9_-]{4,64}/
const SUM_MODULUS = 2 ** 52
const THINK_OPEN = '<think>'
const THINK_CLOSE = '</think>'

/** Hashes by which an answer is recognised in later calls; 0: it has no such part. */
export interface AnswerMarks {
  /** Id of its first tool call, or one that its text names. */
  id: number
  /** All tool calls, in any order. */
  tools: number
  first_tool: number
  text: number
  head: number
  /** Long or rich enough to be found without the messages before it. */
  distinct: boolean
}

/** What of a message counts. */
export interface HashedMessage {
  role: Role
  /** 0: it has none. */
  text: number
  /** As of an answer; 0: it has none. */
  tools: number
  first_tool: number
}

export type Role = 'system' | 'user' | 'assistant' | 'tool' | 'other'

type Json = Readonly<Record<string, unknown>>

const ROLES: ReadonlyMap<unknown, Role> = new Map<unknown, Role>([
  ['system', 'system'],
  ['developer', 'system'],
  ['user', 'user'],
  ['assistant', 'assistant'],
  ['tool', 'tool'],
  ['function', 'tool'],
])
/** As a message's hash has it. */
export const ROLE_NUMBERS: Readonly<Record<Role, number>> = { other: 0, system: 1, user: 2, assistant: 3, tool: 4 }

export class MessageHash {
  readonly #hash: KeyedHash

  constructor(key: HashKey) {
    this.#hash = new KeyedHash(key)
  }

  message(value: unknown): HashedMessage {
    const message = asJson(value)
    const role = ROLES.get(message.role) ?? 'other'
    const hashed = { role, text: this.#content(message.content, role === 'assistant'), tools: 0, first_tool: 0 }
    if (role === 'assistant') this.#addTools(hashed, message)
    return hashed
  }

  /** Of a message's role and the two ends of its text, in time that does not grow with it. */
  sample(value: unknown): number {
    const { role, content } = asJson(value)
    const text = textOf(content)
    const [from, to] = textRange(text, false)
    return this.#hash
      .number(ROLE_NUMBERS[ROLES.get(role) ?? 'other'])
      .text(text, from, Math.min(to, from + SAMPLE_CHARS))
      .text(text, Math.max(from, to - SAMPLE_CHARS), to)
      .digest()
  }

  /** Marks of an answer that was sent, or of a message in a conversation. */
  answer(value: unknown, { text, tools, first_tool }: HashedMessage = this.#answered(value)): AnswerMarks {
    const message = asJson(value)
    const head = this.#head(message.content)
    return { id: this.#id(message), tools, first_tool, text, head, distinct: head !== 0 || tools !== 0 }
  }

  #answered(value: unknown): HashedMessage {
    return this.message({ ...asJson(value), role: 'assistant' })
  }

  #addTools(hashed: HashedMessage, message: Json): void {
    for (const call of toolCalls(message)) {
      const tool = this.#toolCall(call)
      hashed.tools = toolsSum(hashed.tools, tool)
      hashed.first_tool ||= tool
    }
  }

  #id(message: Json): number {
    const [first] = toolCalls(message)
    if (first === undefined) return this.#idInText(message.content)
    return typeof first.id === 'string' ? this.#hash.text(first.id).digest() : 0
  }

  /** Of several texts, such as `user` and `prompt_cache_key`; 0 if there is none. */
  texts(texts: readonly unknown[]): number {
    if (!texts.some((text) => typeof text === 'string')) return 0
    for (const text of texts) this.#hash.text(typeof text === 'string' ? text : '')
    return this.#hash.digest()
  }

  /** 0: there is no text and nothing else. */
  #content(content: unknown, is_answer: boolean): number {
    if (typeof content === 'string') {
      const [from, to] = textRange(content, is_answer)
      return from === to ? 0 : this.#hash.text(content, from, to).digest()
    }
    if (!Array.isArray(content)) return 0
    const text = textOf(content)
    const others = content.filter((part) => partText(part) === '' && !isReasoning(part))
    const [from, to] = textRange(text, is_answer)
    if (others.length === 0) return from === to ? 0 : this.#hash.text(text, from, to).digest()
    this.#hash.text(text, from, to)
    for (const part of others) this.#json(withoutCacheMark(part), 0)
    return this.#hash.digest()
  }

  #head(content: unknown): number {
    const text = textOf(content)
    const [from, to] = textRange(text, true)
    return to - from < HEAD_CHARS ? 0 : this.#hash.text(text, from, from + HEAD_CHARS).digest()
  }

  /** Some clients write their answers' tool calls as text, with their ids. */
  #idInText(content: unknown): number {
    const text = textOf(content).slice(0, ID_SEARCH_CHARS)
    const id = TOOL_CALL_ID.exec(text)?.[0]
    return id === undefined ? 0 : this.#hash.text(id).digest()
  }

  #toolCall(call: Json): number {
    const called = asJson(call.function ?? call.custom)
    this.#hash.text(typeof called.name === 'string' ? called.name : '')
    const given = called.arguments ?? called.input
    this.#json(typeof given === 'string' ? parsed(given) : given, 0)
    return this.#hash.digest()
  }

  #json(value: unknown, depth: number): void {
    if (depth > ARGUMENTS_DEPTH_MAX) return
    if (typeof value === 'string') this.#hash.number(1).text(value)
    else if (Array.isArray(value)) {
      this.#hash.number(2).number(value.length)
      for (const element of value) this.#json(element, depth + 1)
    } else if (typeof value === 'object' && value !== null) {
      const keys = Object.keys(value).sort()
      this.#hash.number(3).number(keys.length)
      for (const key of keys) {
        this.#hash.text(key)
        this.#json((value as Json)[key], depth + 1)
      }
    } else this.#hash.number(4).text(String(value ?? null))
  }
}

/** A sum, since clients send parallel calls again in another order or in messages of their own. Exact: 52 bits each. */
export function toolsSum(tools: number, more: number): number {
  return ((tools % SUM_MODULUS) + (more % SUM_MODULUS)) % SUM_MODULUS || 1
}

function toolCalls(message: Json): Json[] {
  if (Array.isArray(message.tool_calls)) return message.tool_calls.map(asJson)
  return message.function_call == null ? [] : [{ function: message.function_call }]
}

/** Arguments that are no JSON count as their text. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    if (error instanceof SyntaxError) return text.trim()
    throw error
  }
}

function textOf(content: unknown): string {
  if (typeof content === 'string') return content
  return Array.isArray(content) ? content.map(partText).join('') : ''
}

function partText(part: unknown): string {
  if (typeof part === 'string') return part
  const { text, refusal } = asJson(part)
  if (typeof text === 'string') return isReasoning(part) ? '' : text
  return typeof refusal === 'string' ? refusal : ''
}

function isReasoning(part: unknown): boolean {
  const { type } = asJson(part)
  return type === 'reasoning' || type === 'thinking' || type === 'redacted_thinking'
}

function withoutCacheMark(part: unknown): unknown {
  const { cache_control: _, ...rest } = asJson(part)
  return rest
}

/** Of the text without white space around it and, in an answer, without the reasoning before it. */
function textRange(text: string, is_answer: boolean): [from: number, to: number] {
  let from = firstVisible(text, 0)
  if (is_answer && text.startsWith(THINK_OPEN, from)) {
    const close = text.indexOf(THINK_CLOSE, from)
    if (close !== -1) from = firstVisible(text, close + THINK_CLOSE.length)
  }
  let to = text.length
  while (to > from && isSpace(text.charCodeAt(to - 1))) to -= 1
  return [from, to]
}

function firstVisible(text: string, from: number): number {
  let at = from
  while (at < text.length && isSpace(text.charCodeAt(at))) at += 1
  return at
}

function isSpace(unit: number): boolean {
  return unit === 0x20 || (unit >= 0x09 && unit <= 0x0d) || unit === 0xa0
}

function asJson(value: unknown): Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : {}
}
