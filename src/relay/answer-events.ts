/**
 * Reads an engine's answer event by event, for a response that is not the engine's bytes: one in one piece, or a stream in
 * another dialect. A living agent is never silent for long, so silence ends the reading.
 */
import { SseSplitter } from '../core/wire/sse.ts'
import { within } from '../platform/deadline.ts'
import { DONE, EVENT_ERROR } from '../protocol/index.ts'
import { type AgentFailure, errorEvent } from './agent-connection.ts'
import { type AnswerContext, brokenAnswer, ENDED_EARLY, type Served } from './answer.ts'
import { StatedFault } from './dialects/aggregate.ts'

export type AnswerEvent =
  | { kind: 'chunk'; data: string }
  /** The engine says that it lives. */
  | { kind: 'comment' }

export type AnswerEnd =
  /** The engine's [DONE]. */
  | { status: 'done' }
  | { status: 'failed'; failure: AgentFailure }
  /** The client has left. */
  | { status: 'cancelled' }

type Data = Served & { status: 'data' }

/**
 * Hands the events of each read to `take`, in order. `take` may throw what a ResponseBuilder throws, and answers false when
 * the client has left.
 */
export async function readAnswer(
  served: Data,
  context: Pick<AnswerContext, 'gone' | 'times'>,
  take: (events: readonly AnswerEvent[]) => boolean | Promise<boolean>,
): Promise<AnswerEnd> {
  const reader = served.body.getReader()
  try {
    const splitter = new SseSplitter()
    for (let bytes = served.head; ; ) {
      const { events, end } = eventsOf(splitter, bytes)
      if (events.length > 0 && !(await take(events))) return { status: 'cancelled' }
      if (end !== null) return end
      const read = await within(reader.read(), context.times.silence_ms_max)
      if (read.status === 'late') throw new Error(`it was silent for ${context.times.silence_ms_max} ms`)
      if (read.value.done) throw new Error(ENDED_EARLY)
      bytes = read.value.value
    }
  } catch (error) {
    if (context.gone.aborted) return { status: 'cancelled' }
    await cancelQuietly(reader, error)
    return { status: 'failed', failure: failureOf(error) }
  }
}

function eventsOf(splitter: SseSplitter, bytes: Uint8Array): { events: AnswerEvent[]; end: AnswerEnd | null } {
  const events: AnswerEvent[] = []
  for (const frame of splitter.frames(bytes)) {
    if (frame.kind === 'comment') events.push({ kind: 'comment' })
    else if (frame.event === EVENT_ERROR) return { events, end: { status: 'failed', failure: errorEvent(frame.data) } }
    else if (frame.data === DONE) return { events, end: { status: 'done' } }
    else events.push({ kind: 'chunk', data: frame.data })
  }
  return { events, end: null }
}

async function cancelQuietly(reader: ReadableStreamDefaultReader<Uint8Array>, reason: unknown): Promise<void> {
  try {
    await reader.cancel(reason)
  } catch {
    // A stream that is already broken rejects with its cause, which is being reported.
  }
}

/** Every failure while reading is the engine's: its error, its data, or its connection. */
function failureOf(error: unknown): AgentFailure {
  if (error instanceof StatedFault) return errorEvent(error.data)
  return brokenAnswer(error instanceof Error ? error.message : String(error))
}
