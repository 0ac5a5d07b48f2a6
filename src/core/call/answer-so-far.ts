/**
 * What a client has of an answer: text, reasoning and calls of tools of its first choice, and the tokens behind them where the
 * engine names them. A conversation is told apart by it, and another engine goes on from it (protocol/resume.ts).
 *
 * It is given each event once its client has it. What it cannot read is passed over, since the client's stream reports errors,
 * but such an answer is not resumed.
 */
import {
  generatedBy,
  RESUME_CHARS_MAX,
  RESUME_TOKENS_MAX,
  type Resume,
  TOOLS_PER_CALL_MAX,
} from '../../protocol/index.ts'
import { type EventReader, isNativeEvent } from '../wire/native/event-reading.ts'
import { MessagesReader } from '../wire/native/messages-reader.ts'
import { ResponsesReader } from '../wire/native/responses-reader.ts'

/** UTF-16 units of an answer that are kept. */
export const ANSWER_CHARS_MAX = 1024 * 1024
/** As engines write a chunk of text of the first choice, up to the text. */
const TEXT_CHUNKS = ['"choices":[{"index":0,"delta":{"content":"', '"choices":[{"index":0,"text":"']
const TOOLS_MAX = TOOLS_PER_CALL_MAX
/** Parts of an answer that another engine can be told of. Others, unless they are empty, keep it from being resumed. */
const RESUMABLE: ReadonlySet<string> = new Set(['role', 'content', 'reasoning', 'reasoning_content', 'tool_calls'])

export interface AnsweredTool {
  id: string | null
  name: string
  arguments: string
}

type Fields = Readonly<Record<string, unknown>>

export class AnswerSoFar {
  #content = ''
  #reasoning = ''
  readonly #tools: AnsweredTool[] = []
  /** Ids of events, as they came. */
  #ids: string[] = []
  #chars = 0
  /** Of the chunks. Null: none has come. */
  #frame: Pick<Resume, 'created_s' | 'system_fingerprint'> | null = null
  #resumable = true
  /** Of a server that speaks the client's API. */
  #native: EventReader | null = null

  get content(): string {
    return this.#content
  }

  get tools(): readonly AnsweredTool[] {
    return this.#tools
  }

  /** The data of one event, and its id. */
  add(data: string, id: string | null = null): void {
    if (this.#chars > ANSWER_CHARS_MAX) return
    if (id !== null) this.#ids.push(this.#counted(id))
    const text = this.#frame === null ? null : plainText(data)
    if (text !== null) this.#content += this.#counted(text)
    else this.#read(data)
  }

  /** The client has nothing of it, and it is computed again. */
  forget(): void {
    this.#content = ''
    this.#reasoning = ''
    this.#tools.length = 0
    this.#ids = []
    this.#chars = 0
    this.#frame = null
    this.#resumable = true
    this.#native = null
  }

  /** What another engine needs to go on. Null: none can. */
  resume(): Resume | null {
    const frame = this.#frame
    if (!this.#resumable || frame === null || this.#chars > RESUME_CHARS_MAX) return null
    const generated = generatedBy(this.#ids)
    if (generated === null || generated.output_tokens > RESUME_TOKENS_MAX) return null
    const tool_calls = this.#tools.map((tool) => ({ name: tool.name, arguments: tool.arguments }))
    return { ...generated, content: this.#content, reasoning: this.#reasoning, tool_calls, ...frame }
  }

  #read(data: string): void {
    const chunk = data.startsWith('{') ? asFields(jsonOf(data)) : {}
    const is_native = isNativeEvent(chunk)
    if (is_native) this.#resumable = false
    const { choices } = is_native ? this.#pieceOf(chunk) : chunk
    if (!Array.isArray(choices)) {
      this.#resumable = false
      return
    }
    this.#frame ??= frameOf(chunk)
    for (const choice of choices.map(asFields)) {
      const { index, text } = choice
      if (index !== undefined && index !== 0) this.#resumable = false
      else this.#take(text === undefined ? asFields(choice.delta) : { content: text })
    }
  }

  #take(delta: Fields): void {
    const { content, reasoning, reasoning_content, tool_calls } = delta
    for (const [part, value] of Object.entries(delta)) {
      if (!RESUMABLE.has(part) && value !== null && value !== '') this.#resumable = false
    }
    if (typeof content === 'string') this.#content += this.#counted(content)
    const thought = reasoning ?? reasoning_content
    if (typeof thought === 'string') this.#reasoning += this.#counted(thought)
    if (Array.isArray(tool_calls)) for (const piece of tool_calls as unknown[]) this.#tool(piece)
  }

  #pieceOf(event: Fields & { type: string }): Fields {
    this.#native ??= event.type.startsWith('response.') ? new ResponsesReader() : new MessagesReader()
    const reading = this.#native.read(event)
    return reading.ok ? asFields(reading.piece) : {}
  }

  #tool(piece: unknown): void {
    const { index, id, function: called } = asFields(piece)
    const at = typeof index === 'number' ? index : 0
    if (!Number.isInteger(at) || at < 0 || at >= TOOLS_MAX) {
      this.#resumable = false
      return
    }
    while (this.#tools.length <= at) this.#tools.push({ id: null, name: '', arguments: '' })
    const tool = this.#tools[at]
    if (tool === undefined) return
    const { name, arguments: args } = asFields(called)
    if (typeof id === 'string') tool.id = this.#counted(id)
    if (typeof name === 'string') tool.name += this.#counted(name)
    if (typeof args === 'string') tool.arguments += this.#counted(args)
  }

  #counted(text: string): string {
    this.#chars += text.length
    return text
  }
}

function frameOf({ created, system_fingerprint }: Fields): Pick<Resume, 'created_s' | 'system_fingerprint'> {
  return {
    created_s: typeof created === 'number' && Number.isSafeInteger(created) && created >= 0 ? created : 0,
    system_fingerprint: typeof system_fingerprint === 'string' ? system_fingerprint : null,
  }
}

/**
 * The text of a chunk that has nothing else, found without parsing the chunk. Null: it is another chunk, or its text has
 * escapes.
 */
function plainText(data: string): string | null {
  for (const begin of TEXT_CHUNKS) {
    const at = data.indexOf(begin)
    if (at === -1) continue
    const from = at + begin.length
    const to = data.indexOf('"', from)
    if (to === -1 || (data[to + 1] !== '}' && data[to + 1] !== ',')) return null
    if (begin === TEXT_CHUNKS[0] && data[to + 1] === ',') return null
    const text = data.slice(from, to)
    return text.includes('\\') || data.includes('{"index":', to) ? null : text
  }
  return null
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

function asFields(value: unknown): Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : {}
}
