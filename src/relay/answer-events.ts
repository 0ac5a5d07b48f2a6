/**
 * Reads an answer event by event, over all engines that serve it. The Worker is the one process that survives an engine and
 * knows what the client has, so it keeps that (core/call/answer-so-far.ts). When an engine fails in the middle, the call goes
 * on at another one from there, and whoever reads here sees one answer.
 *
 * A living agent says something every 2 s, so silence is a failure, and no other watch is needed. A Worker that did not run
 * does not take its own pause for silence (platform/pause-proof-timer.ts).
 *
 * What ends an answer, its finish reason and its usage, is held until the engine's [DONE], so that a client never sees two ends.
 */
import { parseFrame, SseSplitter, withoutId } from '../core/wire/sse.ts'
import { within } from '../platform/deadline.ts'
import { DONE, EVENT_ERROR } from '../protocol/index.ts'
import { type AgentFailure, errorEvent } from './agent-connection.ts'
import { type AnswerContext, brokenAnswer, ENDED_EARLY, type Served } from './answer.ts'
import { StatedFault } from './dialects/aggregate.ts'

export type AnswerEvent =
  /** `bytes`: the frame as the client may see it. */
  | { kind: 'chunk'; data: string; bytes: Uint8Array }
  /** An engine lives, or one is being found. */
  | { kind: 'comment' }

export type AnswerEnd =
  /** The engine's [DONE]. */
  | { status: 'done' }
  | { status: 'failed'; failure: AgentFailure }
  /** The last event was an error that a server wrote in the client's own API. */
  | { status: 'stated'; failure: AgentFailure }
  /** The client has left. */
  | { status: 'cancelled' }

/** In the longest silence. */
const WATCHES = 4

type Data = Served & { status: 'data' }
type ChunkEvent = AnswerEvent & { kind: 'chunk' }
type Context = Pick<AnswerContext, 'gone' | 'times' | 'answer' | 'startAnew'>
/**
 * Takes events in order. May throw what a ResponseBuilder throws, and answers false when the client has left. `are_last`: [DONE]
 * has come with them.
 */
type Take = (events: readonly AnswerEvent[], are_last: boolean) => boolean | Promise<boolean>

export async function readAnswer(served: Data, context: Context, take: Take): Promise<AnswerEnd> {
  for (let serving = served; ; ) {
    const end = await readEngine(serving, context, take)
    if (end.status !== 'broken') return end
    const next = await goOn(serving, end.failure, context, take)
    if (next.status === 'cancelled') return next
    if (next.status === 'failed') return { status: 'failed', failure: end.failure }
    if (next.anew) context.startAnew?.()
    serving = next
  }
}

type EngineEnd = AnswerEnd | { status: 'broken'; failure: AgentFailure }

async function readEngine(served: Data, context: Context, take: Take): Promise<EngineEnd> {
  const { rest: reader } = served
  const frames = new EventFrames(context)
  const silence = new SilenceWatch(context.times.stream_silence_ms_max, served.cut)
  try {
    for (let bytes = served.head; ; ) {
      const { events, end } = frames.read(bytes)
      if (events.length > 0 && !(await take(events, end?.status === 'done'))) return { status: 'cancelled' }
      if (end !== null) {
        if (end.status === 'broken') await cancelQuietly(reader, new Error('the engine failed'))
        return end
      }
      silence.waits()
      const read = await nextRead(reader)
      silence.hears()
      if (read.status === 'broken') {
        if (context.gone.aborted) return { status: 'cancelled' }
        await cancelQuietly(reader, new Error(read.reason))
        return frames.ended(read.reason)
      }
      bytes = read.bytes
    }
  } catch (error) {
    if (context.gone.aborted) return { status: 'cancelled' }
    await cancelQuietly(reader, error)
    return { status: 'failed', failure: failureOf(error) }
  } finally {
    silence.stop()
    served.over()
  }
}

/**
 * Cuts a stream that is silent while it is read. One timer for all reads of it: a timer for each costs as much as the read.
 * It fires several times before it cuts, so that a pause of this process counts as one of them (platform/pause-proof-timer.ts).
 */
class SilenceWatch {
  readonly #timer: ReturnType<typeof setInterval>
  #waiting = false
  #silent = 0

  constructor(silence_ms_max: number, cut: (reason: string) => void) {
    this.#timer = setInterval(() => {
      if (!this.#waiting) return
      this.#silent += 1
      if (this.#silent >= WATCHES) cut(`it was silent for ${silence_ms_max} ms`)
    }, silence_ms_max / WATCHES)
  }

  /** A read has begun. */
  waits(): void {
    this.#waiting = true
    this.#silent = 0
  }

  hears(): void {
    this.#waiting = false
  }

  stop(): void {
    clearInterval(this.#timer)
  }
}

type Read = { status: 'bytes'; bytes: Uint8Array } | { status: 'broken'; reason: string }

async function nextRead(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<Read> {
  try {
    const { done, value } = await reader.read()
    return done ? { status: 'broken', reason: ENDED_EARLY } : { status: 'bytes', bytes: value }
  } catch (error) {
    return { status: 'broken', reason: messageOf(error) }
  }
}

/** The events of one engine's stream. */
class EventFrames {
  readonly #splitter = new SseSplitter()
  readonly #answer: AnswerContext['answer']
  /** What may end the answer. */
  #held: { event: ChunkEvent; id: string | null }[] = []
  #last = ''

  constructor({ answer }: Pick<AnswerContext, 'answer'>) {
    this.#answer = answer
  }

  /** Throws FrameTooLarge. */
  read(bytes: Uint8Array): { events: AnswerEvent[]; end: EngineEnd | null } {
    const events: AnswerEvent[] = []
    this.#splitter.push(bytes)
    for (let frame = this.#splitter.next(); frame !== null; frame = this.#splitter.next()) {
      const parsed = parseFrame(frame)
      if (parsed.kind === 'comment') events.push({ kind: 'comment' })
      else if (parsed.event === EVENT_ERROR) {
        const failure = errorEvent(parsed.data)
        if (failure.replaceable) return { events, end: { status: 'broken', failure } }
        return { events: [...events, ...this.#release()], end: { status: 'failed', failure } }
      } else if (parsed.data === DONE) return { events: [...events, ...this.#release()], end: this.#done() }
      else this.#chunk({ kind: 'chunk', data: parsed.data, bytes: withoutId(frame) }, parsed.id ?? null, events)
    }
    return { events, end: null }
  }

  /** The connection is over, and [DONE] has not come. */
  ended(reason: string): EngineEnd {
    const stated = statedError(this.#last)
    return stated === null
      ? { status: 'broken', failure: brokenAnswer(reason) }
      : { status: 'stated', failure: errorEvent(stated) }
  }

  #done(): EngineEnd {
    // Some servers send [DONE] behind an error too.
    const stated = statedError(this.#last)
    return stated === null ? { status: 'done' } : { status: 'stated', failure: errorEvent(stated) }
  }

  #chunk(event: ChunkEvent, id: string | null, events: AnswerEvent[]): void {
    this.#last = event.data
    if (mayEnd(event.data)) {
      this.#held.push({ event, id })
      return
    }
    if (this.#held.length > 0) events.push(...this.#release())
    this.#answer?.add(event.data, id)
    events.push(event)
  }

  #release(): ChunkEvent[] {
    const held = this.#held
    this.#held = []
    for (const { event, id } of held) this.#answer?.add(event.data, id)
    return held.map(({ event }) => event)
  }
}

/** A quote inside of text is escaped, so neither can be text. */
function mayEnd(data: string): boolean {
  return data.includes('"finish_reason":"') || data.includes('"choices":[]')
}

/** The data, if it is an error in a server's own form. */
function statedError(data: string): string | null {
  if (!data.includes('"error"')) return null
  try {
    const chunk: unknown = JSON.parse(data)
    return typeof chunk === 'object' && chunk !== null && 'error' in chunk && chunk.error !== null ? data : null
  } catch (error) {
    if (error instanceof SyntaxError) return null
    throw error
  }
}

/** Another engine that goes on, if one can. The client hears comments while it is found. */
async function goOn(broken: Data, failure: AgentFailure, context: Context, take: Take): Promise<Served> {
  if (broken.goOn === null) return { status: 'failed', failure, retry_after_s: null }
  const finding = broken.goOn(context.answer?.resume() ?? null, failure)
  let found = await within(finding, 0)
  while (found.status === 'late') {
    // A client that has left ends the search.
    await take([{ kind: 'comment' }], false)
    found = await within(finding, context.times.waiting_interval_ms)
  }
  return found.value
}

async function cancelQuietly(reader: ReadableStreamDefaultReader<Uint8Array>, reason: unknown): Promise<void> {
  try {
    await reader.cancel(reason)
  } catch {
    // A stream that is already broken rejects with its cause, which is being reported.
  }
}

/** The engine's data is no answer, or an error that it states. */
function failureOf(error: unknown): AgentFailure {
  return error instanceof StatedFault ? errorEvent(error.data) : brokenAnswer(messageOf(error))
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
