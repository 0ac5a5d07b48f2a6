/**
 * Joins the chunks of one answer into fewer events. Engines may write a token each millisecond, and every event costs the
 * Worker a read, a parse and a write, and the client a parse. Text that comes within `after_ms` of the last event waits for
 * more of it, until `interval_ms` after that event at most. The first text goes at once, so TTFT is as the engine's.
 *
 * Pure: the caller supplies the time, and asks again when an event is due.
 */

import { type Generated, joinedGenerated } from '../../../src/protocol/index.ts'
import { NativeFrame } from '../openai/native-frame.ts'

/** An engine that writes a token each 20 ms has two in an event, and ITL grows by a step. */
export const EVENT_TIMES: EventTimes = { after_ms: 26, interval_ms: 42 }

export interface EventTimes {
  /** Text that comes later than this after an event goes at once. */
  after_ms: number
  /** No text waits longer than this after an event. */
  interval_ms: number
}

/** As our own fronts make them. Others are passed on as they are. */
interface Chunk {
  choices?: readonly Choice[]
  usage?: unknown
}

interface Choice {
  index: number
  text?: string
  delta?: Delta
  logprobs?: Logprobs | null
  finish_reason?: unknown
}

type Delta = Readonly<Record<string, unknown>> & { tool_calls?: readonly ToolPiece[] }
type Logprobs = Readonly<Record<string, readonly unknown[] | null>>

interface ToolPiece {
  index: number
  id?: string
  function?: { name?: string; arguments?: string }
}

/** Deltas of which nothing but these pieces may be joined. */
const JOINED: ReadonlySet<string> = new Set(['content', 'reasoning', 'reasoning_content', 'tool_calls'])

export interface MergedEvent {
  chunk: object
  /** Generated since the last event that told of any. */
  tokens: Generated
}

export class EventMerger {
  readonly #times: EventTimes
  #held: MergedEvent | null = null
  /** When the last event with text went. Null: none has. */
  #sent_ms: number | null = null

  constructor(times: EventTimes = EVENT_TIMES) {
    this.#times = times
  }

  /** Events that go now, in order. */
  add(chunk: object, tokens: Generated, now_ms: number): MergedEvent[] {
    const held = this.#held
    if (held !== null) {
      const joined = joinedChunks(held.chunk, chunk)
      if (joined !== null) {
        this.#held = { chunk: joined, tokens: joinedGenerated(held.tokens, tokens) }
        return this.#isLate(now_ms) ? this.flush(now_ms) : []
      }
    }
    const before = this.flush(now_ms)
    if (!isText(chunk)) return [...before, { chunk, tokens }]
    this.#held = { chunk, tokens }
    return this.#isLate(now_ms) ? [...before, ...this.flush(now_ms)] : before
  }

  /** When the event that is held is to go. Null: none is held. */
  get due_ms(): number | null {
    return this.#held === null || this.#sent_ms === null ? null : this.#sent_ms + this.#times.interval_ms
  }

  #isLate(now_ms: number): boolean {
    return this.#sent_ms === null || now_ms - this.#sent_ms >= this.#times.after_ms
  }

  /** The event that is held. */
  flush(now_ms: number): MergedEvent[] {
    if (this.#held === null) return []
    const held = this.#held
    this.#held = null
    this.#sent_ms = now_ms
    return [held]
  }
}

function isText(chunk: object): boolean {
  // A server's own event goes as it came.
  if (chunk instanceof NativeFrame) return false
  const choice = onlyChoice(chunk)
  if (choice === null) return false
  const { delta, text } = choice
  if (delta === undefined) return text !== undefined && text !== ''
  return Object.keys(delta).some((key) => JOINED.has(key)) && Object.keys(delta).every((key) => JOINED.has(key))
}

/** The one choice of a chunk that has no end and no usage. */
function onlyChoice(chunk: object): Choice | null {
  const { choices, usage } = chunk as Chunk
  const [choice] = choices ?? []
  if (choice === undefined || choices?.length !== 1 || (usage ?? null) !== null) return null
  return (choice.finish_reason ?? null) === null ? choice : null
}

/** Null: they are to stay two. */
function joinedChunks(first: object, second: object): object | null {
  const [a, b] = [onlyChoice(first), onlyChoice(second)]
  if (a === null || b === null || a.index !== b.index || !isText(second)) return null
  const logprobs = joinedLogprobs(a.logprobs ?? null, b.logprobs ?? null)
  if (logprobs === undefined) return null
  if (a.text !== undefined && b.text !== undefined) return withChoice(first, { ...a, text: a.text + b.text, logprobs })
  if (a.delta === undefined || b.delta === undefined) return null
  const delta = joinedDeltas(a.delta, b.delta)
  return delta === null ? null : withChoice(first, { ...a, delta, logprobs })
}

function withChoice(chunk: object, choice: Choice): object {
  return { ...chunk, choices: [choice] }
}

/** Pieces of one kind, so that a client's order of text, reasoning and calls stays. */
function joinedDeltas(a: Delta, b: Delta): Delta | null {
  const [keys, others] = [Object.keys(a), Object.keys(b)]
  const [key] = keys
  if (key === undefined || keys.length !== 1 || others.length !== 1 || others[0] !== key) return null
  if (key === 'tool_calls') return joinedCalls(a.tool_calls ?? [], b.tool_calls ?? [])
  const [x, y] = [a[key], b[key]]
  return typeof x === 'string' && typeof y === 'string' ? { [key]: x + y } : null
}

function joinedCalls(a: readonly ToolPiece[], b: readonly ToolPiece[]): Delta | null {
  const [x, y] = [a[0], b[0]]
  if (x === undefined || y === undefined || a.length !== 1 || b.length !== 1) return null
  if (x.index !== y.index || y.id !== undefined || y.function?.name !== undefined) return null
  const text = (x.function?.arguments ?? '') + (y.function?.arguments ?? '')
  return { tool_calls: [{ ...x, function: { ...x.function, arguments: text } }] }
}

/** Undefined: they do not fit together. */
function joinedLogprobs(a: Logprobs | null, b: Logprobs | null): Logprobs | null | undefined {
  if (a === null || b === null) return a === b ? null : undefined
  const joined: Record<string, readonly unknown[] | null> = {}
  for (const key of new Set([...Object.keys(a), ...Object.keys(b)])) {
    const [x, y] = [a[key] ?? null, b[key] ?? null]
    if ((x === null) !== (y === null)) return undefined
    joined[key] = x === null || y === null ? null : [...x, ...y]
  }
  return joined
}
