/**
 * The client's side of a call that engines serve: one well-formed response, never buffered.
 *
 * The headers wait for the first data event, at most HEADERS_HOLD_MS, and longer where no engine has taken the call yet.
 * Until then a failure is a plain HTTP status. After that a stream carries comments until data comes. workerd learns that a
 * client has left only when a write fails, never while a response is silent. It fires `request.signal` with the first such
 * write.
 *
 * Events are read one by one (answer-events.ts), since the call goes on at another engine when one fails. A dialect that
 * engines speak gets their frames as they came, those of one read in one write. Agents join tokens into events
 * (gpu-agent/src/data-plane/event-merger.ts), so this costs less for each token than a native pipe of one event a token did.
 */
import { joined } from '../core/wire/joined.ts'
import { DONE, type ErrorBody } from '../protocol/index.ts'
import {
  type Answer,
  type AnswerContext,
  beforeHeaders,
  breakOff,
  CANCELLED,
  delivered,
  type Ending,
  keepClient,
  plainAnswer,
  type Served,
} from './answer.ts'
import { type AnswerEnd, type AnswerEvent, readAnswer } from './answer-events.ts'
import type { StreamFormat, StreamTranslator } from './dialects/dialect.ts'

const encoder = new TextEncoder()
const LAST = encoder.encode(`data: ${DONE}\n\n`)

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
  const { translator } = format
  return translator === null
    ? passOn(served, writer, format, context)
    : translate(served, writer, format, translator, context)
}

/** The frames of an engine that speaks the client's dialect. A slow client slows the engine's connection. */
async function passOn(
  served: Data,
  writer: ClientWriter,
  format: StreamFormat,
  context: AnswerContext,
): Promise<Ending> {
  const bytesOf = (event: AnswerEvent): Uint8Array => {
    if (event.kind === 'comment') return encoder.encode(format.waiting())
    const data = context.sound(event.data)
    return data === event.data ? event.bytes : encoder.encode(`data: ${data}\n\n`)
  }
  // What ends a whole answer goes out with the last of it, since each write costs a turn of the isolate.
  let last = LAST
  const end = await readAnswer(served, context, (events, are_last) => {
    const bytes = events.map(bytesOf)
    if (are_last) {
      last = joined([...bytes, LAST])
      return true
    }
    return delivered(writer.write(joined(bytes)), context)
  })
  return finish(end, writer, () => Promise.resolve(last), format, context)
}

async function translate(
  served: Data,
  writer: ClientWriter,
  format: StreamFormat,
  translator: StreamTranslator,
  context: AnswerContext,
): Promise<Ending> {
  const textOf = (event: AnswerEvent): string =>
    event.kind === 'chunk' ? translator.add(event.data) : format.waiting()
  let held = ''
  const end = await readAnswer(served, context, (events, are_last) => {
    const text = events.map(textOf).join('')
    if (are_last) held = text
    return text === '' || are_last || delivered(writer.write(encoder.encode(text)), context)
  })
  const last = async (): Promise<Uint8Array> => {
    const text = held + translator.finish()
    await translator.keep?.(context.store)
    return encoder.encode(text)
  }
  return finish(end, writer, last, format, context)
}

/** `last`: what ends a whole answer. */
async function finish(
  end: AnswerEnd,
  writer: ClientWriter,
  last: () => Promise<Uint8Array>,
  format: StreamFormat,
  context: AnswerContext,
): Promise<Ending> {
  if (end.status === 'failed') return endWithError(writer, end.failure, format, context)
  const bytes = end.status === 'done' ? await last() : null
  if (
    end.status === 'cancelled' ||
    (bytes !== null && bytes.length > 0 && !(await delivered(writer.write(bytes), context)))
  ) {
    await breakOff(writer, context.gone.reason)
    return CANCELLED
  }
  await delivered(writer.close(), context)
  // Its client has the error as the server wrote it.
  if (end.status === 'stated') return { outcome: 'failed', error_code: end.failure.error.code }
  return { outcome: 'completed', error_code: null }
}

/** An error inside a started stream. */
async function endWithError(
  writer: ClientWriter,
  { status, error }: { status: number; error: ErrorBody },
  format: StreamFormat,
  context: AnswerContext,
): Promise<Ending> {
  if (!(await delivered(writer.write(encoder.encode(format.fail(status, error))), context))) return CANCELLED
  await delivered(writer.close(), context)
  return { outcome: 'failed', error_code: error.code }
}
