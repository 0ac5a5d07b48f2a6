/**
 * Reads the answer of a call whose conversation is followed, as its engine streams it, and keeps of it what clients send
 * again: the text and the tool calls of its first choice. It observes only. What it cannot read is passed over, since the
 * client's stream reports errors.
 */
import { type AnswerMarks, MessageHash } from '../core/conversation/message-hash.ts'
import type { HashKey } from '../core/wire/keyed-hash.ts'
import { type EventReader, isNativeEvent } from '../core/wire/native/event-reading.ts'
import { MessagesReader } from '../core/wire/native/messages-reader.ts'
import { ResponsesReader } from '../core/wire/native/responses-reader.ts'
import { FrameTooLarge, SseSplitter } from '../core/wire/sse.ts'
import type { AnswerFormat, ResponseBuilder, StreamTranslator } from './dialects/dialect.ts'

/** UTF-16 units of an answer that are kept; what is cut off no longer tells answers apart. */
export const OBSERVED_CHARS_MAX = 1024 * 1024
/** As engines write a chunk of text of the first choice, up to the text. */
const TEXT_CHUNK = '"choices":[{"index":0,"delta":{"content":"'
/** Tool calls of one answer. */
const TOOL_CALLS_MAX = 128

interface ObservedTool {
  id: string | null
  name: string
  arguments: string
}

interface Delta {
  content?: unknown
  tool_calls?: unknown
}

export class AnswerObserver {
  readonly #splitter = new SseSplitter()
  #text = ''
  readonly #tools: ObservedTool[] = []
  #chars = 0
  #readable = true
  /** Of a server that speaks the client's API. */
  #native: EventReader | null = null

  /** Bytes of the engine's stream. */
  bytes(bytes: Uint8Array): void {
    if (!this.#readable) return
    try {
      for (const frame of this.#splitter.frames(bytes)) if (frame.kind === 'event') this.chunk(frame.data)
    } catch (error) {
      if (!(error instanceof FrameTooLarge)) throw error
      this.#readable = false
    }
  }

  /** The data of one event of it. */
  chunk(data: string): void {
    if (!data.startsWith('{') || this.#chars > OBSERVED_CHARS_MAX) return
    const text = plainText(data)
    if (text !== null) {
      this.#text += this.#counted(text)
      return
    }
    const delta = this.#deltaOf(data)
    if (delta === null) return
    if (typeof delta.content === 'string') this.#text += this.#counted(delta.content)
    if (!Array.isArray(delta.tool_calls)) return
    for (const piece of delta.tool_calls as unknown[]) this.#tool(piece)
  }

  marks(key: HashKey): AnswerMarks {
    const tool_calls = this.#tools.map(({ id, ...called }) => ({ id, function: called }))
    return new MessageHash(key).answer({ content: this.#text, tool_calls })
  }

  /** Of the first choice. Null: the chunk has none. */
  #deltaOf(data: string): Delta | null {
    const chunk = asRecord(jsonOf(data))
    const { choices } = isNativeEvent(chunk) ? this.#pieceOf(chunk) : chunk
    if (!Array.isArray(choices)) return null
    const first = choices.map(asRecord).find(({ index }) => index === undefined || index === 0)
    return first === undefined ? null : asRecord(first.delta)
  }

  #pieceOf(event: Readonly<Record<string, unknown>> & { type: string }): Record<string, unknown> {
    this.#native ??= event.type.startsWith('response.') ? new ResponsesReader() : new MessagesReader()
    const reading = this.#native.read(event)
    return reading.ok ? asRecord(reading.piece) : {}
  }

  #tool(piece: unknown): void {
    const { index, id, function: called } = asRecord(piece)
    const at = typeof index === 'number' ? index : 0
    if (!Number.isInteger(at) || at < 0 || at >= TOOL_CALLS_MAX) return
    while (this.#tools.length <= at) this.#tools.push({ id: null, name: '', arguments: '' })
    const tool = this.#tools[at]
    if (tool === undefined) return
    const { name, arguments: args } = asRecord(called)
    if (typeof id === 'string') tool.id = this.#counted(id)
    if (typeof name === 'string') tool.name += this.#counted(name)
    if (typeof args === 'string') tool.arguments += this.#counted(args)
  }

  #counted(text: string): string {
    this.#chars += text.length
    return text
  }
}

/** The same format, whose chunks `observer` sees as well. A stream whose bytes flow unread is seen by `bytes`. */
export function observed(format: AnswerFormat, observer: AnswerObserver): AnswerFormat {
  const seen = (add: (data: string) => void) => (data: string) => {
    observer.chunk(data)
    add(data)
  }
  return {
    whole: (facts) => {
      const builder = format.whole(facts)
      return { add: seen((data) => builder.add(data)), finish: () => builder.finish(), ...keeper(builder) }
    },
    stream: (facts) => {
      const stream = format.stream(facts)
      const watched = (translator: StreamTranslator): StreamTranslator => ({
        add: (data) => {
          observer.chunk(data)
          return translator.add(data)
        },
        finish: () => translator.finish(),
        ...keeper(translator),
      })
      const { translator, reader } = stream
      return {
        waiting: () => stream.waiting(),
        fail: (status, error) => stream.fail(status, error),
        translator: translator === null ? null : watched(translator),
        ...(reader === undefined ? {} : { reader: watched(reader) }),
      }
    },
  }
}

/** What stores the answer, if anything does. */
function keeper(builder: Pick<ResponseBuilder, 'keep'>): Pick<ResponseBuilder, 'keep'> {
  return builder.keep === undefined ? {} : { keep: builder.keep.bind(builder) }
}

/**
 * The text of a chunk that has nothing else, found without parsing the chunk. Null: it is another chunk, or its text has
 * escapes.
 */
function plainText(data: string): string | null {
  const at = data.indexOf(TEXT_CHUNK)
  if (at === -1) return null
  const from = at + TEXT_CHUNK.length
  const to = data.indexOf('"', from)
  if (to === -1 || data[to + 1] !== '}') return null
  const text = data.slice(from, to)
  return text.includes('\\') ? null : text
}

/** Null: it is none. */
function jsonOf(data: string): unknown {
  try {
    return JSON.parse(data)
  } catch (error) {
    if (error instanceof SyntaxError) return null
    throw error
  }
}

function asRecord(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
}
