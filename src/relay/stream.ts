/**
 * The client's side of a call that an engine serves: one well-formed response, never buffered.
 *
 * The headers wait for the first data event, at most HEADERS_HOLD_MS, and longer where no engine has taken the call yet.
 * Until then a failure is a plain HTTP status. After that a stream carries comments until data comes. workerd learns that a
 * client has left only when a write fails, never while a response is silent. It fires `request.signal` with the first such
 * write.
 *
 * From the first data event on the bytes flow by `pipeTo` into an IdentityTransformStream, which workerd runs outside of
 * JavaScript. That costs 10 µs of CPU per token chunk as measured, against 65 µs through `read` and `write`, and 70 µs with
 * `new TransformStream()`, whose standard form is JavaScript. So frames in the middle are never read here: an error that an
 * engine reports inside its stream reaches the client as it is. `pipeTo` reports a broken connection. The last frames show
 * an error that ended the stream (stream-tail.ts).
 *
 * A native pipe does not report silence, and aborting it to look may lose the bytes that it holds. A process that dies
 * closes its socket, which is noticed. A host that loses its power closes nothing, so its agent is asked every few seconds
 * (lease-watch.ts). An agent whose link is down may still stream well, so the pool's view ends no stream. A response in one
 * piece is read here, so its silence is watched (full-response.ts).
 *
 * The stream of a dialect that no engine speaks is read and translated, and its silence watched likewise. So is the stream of
 * an agent that has stated nonsense before (doubted-agents.ts).
 */

import { within } from '../platform/deadline.ts'
import type { ErrorBody } from '../protocol/index.ts'
import { errorEvent } from './agent-connection.ts'
import {
  type Answer,
  type AnswerContext,
  beforeHeaders,
  breakOff,
  brokenAnswer,
  CANCELLED,
  delivered,
  ENDED_EARLY,
  type Ending,
  keepClient,
  plainAnswer,
  type Served,
} from './answer.ts'
import { type AnswerEvent, readAnswer } from './answer-events.ts'
import type { StreamFormat, StreamTranslator } from './dialects/dialect.ts'
import { watchLease } from './lease-watch.ts'
import { type StreamEnd, StreamTail } from './stream-tail.ts'

/** Both branches of a broken source break. A client that has broken its own leaves the other one open. */
const TAIL_OF_BROKEN_MS = 100

const encoder = new TextEncoder()

type Data = Served & { status: 'data' }
type ClientWriter = WritableStreamDefaultWriter<Uint8Array>

export async function answerStreaming(
  serving: Promise<Served>,
  format: StreamFormat,
  context: AnswerContext,
): Promise<Answer> {
  const early = await beforeHeaders(serving, context)
  if (early.status === 'in_time' && early.value.status !== 'data') return plainAnswer(early.value, context)
  const { readable, writable } = new IdentityTransformStream()
  const headers = context.headers()
  headers.set('content-type', 'text/event-stream; charset=utf-8')
  headers.set('cache-control', 'no-store, no-transform')
  const ended = fillStream(writable, early.status === 'in_time' ? early.value : serving, format, context)
  return { response: new Response(readable, { headers }), ended }
}

async function fillStream(
  writable: WritableStream<Uint8Array>,
  serving: Served | Promise<Served>,
  format: StreamFormat,
  context: AnswerContext,
): Promise<Ending> {
  const writer = writable.getWriter()
  const waiting = () => encoder.encode(format.waiting())
  const served = serving instanceof Promise ? await keepClient(writer, serving, waiting, context) : serving
  if (served.status === 'cancelled') {
    await breakOff(writer, context.gone.reason)
    return CANCELLED
  }
  if (served.status === 'failed') return endWithError(writer, served.failure, format, context)
  const translator = format.translator ?? (context.isDoubted() ? format.reader : undefined)
  if (translator !== undefined) return translate(served, writer, format, translator, context)
  if (!(await delivered(writer.write(served.head), context))) return CANCELLED
  writer.releaseLock()
  return pipe(served, writable, format, context)
}

/** Writes what a read brought in one piece, before it reads on: a slow client slows the engine's connection. */
async function translate(
  served: Data,
  writer: ClientWriter,
  format: StreamFormat,
  translator: StreamTranslator,
  context: AnswerContext,
): Promise<Ending> {
  const write = async (text: string): Promise<boolean> =>
    text === '' || (await delivered(writer.write(encoder.encode(text)), context))
  const textOf = (event: AnswerEvent): string =>
    event.kind === 'chunk' ? translator.add(event.data) : format.waiting()
  const end = await readAnswer(served, context, (events) => write(events.map(textOf).join('')))
  if (end.status === 'failed') return endWithError(writer, end.failure, format, context)
  if (end.status === 'cancelled' || !(await write(await finished(translator, context)))) {
    await breakOff(writer, context.gone.reason)
    return CANCELLED
  }
  await delivered(writer.close(), context)
  return { outcome: 'completed', error_code: null }
}

async function finished(translator: StreamTranslator, { store }: AnswerContext): Promise<string> {
  const text = translator.finish()
  await translator.keep?.(store)
  return text
}

async function pipe(
  { head, body, cut, check }: Data,
  writable: WritableStream<Uint8Array>,
  format: StreamFormat,
  context: AnswerContext,
): Promise<Ending> {
  const unwatch = watchLease(check, context.times, context.now, cut)
  const [flowing, branch] = body.tee()
  const tail = new StreamTail(head, branch, context.observe)
  let broken: string | null = null
  try {
    // No signal: workerd looks at one between chunks only, and leaves a rejection that no code can handle when it has fired
    // and the source breaks. A client that has left breaks the source by itself (agent-connection.ts).
    await flowing.pipeTo(writable, { preventClose: true, preventAbort: true })
  } catch (error) {
    if (context.gone.aborted) {
      await tail.stop(error)
      await breakOff(writable.getWriter(), context.gone.reason)
      return CANCELLED
    }
    broken = error instanceof Error ? error.message : String(error)
  } finally {
    unwatch()
  }
  // A connection may break behind the whole answer: its client has what it asked for.
  const end = broken === null ? await tail.end() : await endOfBroken(tail)
  if (end.status === 'cut' || (end.status === 'unknown' && broken !== null)) {
    return endWithError(writable.getWriter(), brokenAnswer(broken ?? ENDED_EARLY), format, context)
  }
  await delivered(writable.close(), context)
  if (end.status === 'done' && end.last !== null) context.checkLast(end.last)
  if (end.status === 'error') return { outcome: 'failed', error_code: errorEvent(end.data).error.code }
  return { outcome: 'completed', error_code: null }
}

/** How a stream had ended before its connection broke. */
async function endOfBroken(tail: StreamTail): Promise<StreamEnd> {
  const read = await within(tail.end(), TAIL_OF_BROKEN_MS)
  if (read.status === 'in_time') return read.value
  await tail.stop(new Error('the other branch is broken'))
  return { status: 'cut' }
}

/** An error inside a started stream. */
async function endWithError(
  writer: ClientWriter,
  { status, error }: { status: number; error: ErrorBody },
  format: StreamFormat,
  context: AnswerContext,
): Promise<Ending> {
  // Starts with a blank line, since the engine may have died inside a frame.
  const event = encoder.encode(`\n\n${format.fail(status, error)}`)
  if (!(await delivered(writer.write(event), context))) return CANCELLED
  await delivered(writer.close(), context)
  return { outcome: 'failed', error_code: error.code }
}
