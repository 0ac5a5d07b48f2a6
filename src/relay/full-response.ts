/**
 * The response to a client that did not ask for a stream. The engine streams all the same, and its chunks are joined.
 *
 * Nothing is sent until HEADERS_HOLD_MS, nor until an engine has taken the call, so a call that ends, fails or is refused by
 * then has its proper status and length. A longer call gets 200, and a space at every interval until the JSON. JSON allows
 * leading white space, and only a write shows that the client has left. A failure after that breaks the connection: the 200
 * cannot be taken back, and a partial answer must not look complete.
 *
 * Nothing of the answer is sent before its end, so where no engine goes on with one that broke, another computes all of it.
 */

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
import { readAnswer } from './answer-events.ts'
import type { ResponseBuilder } from './dialects/dialect.ts'

type Collected = { status: 'complete'; json: string } | Exclude<Served, { status: 'data' }>

const encoder = new TextEncoder()
const SPACE = encoder.encode(' ')

export async function fullResponse(
  serving: Promise<Served>,
  newBuilder: () => ResponseBuilder,
  context: AnswerContext,
): Promise<Answer> {
  const collecting = collect(serving, newBuilder, context)
  const early = await beforeHeaders(collecting, context)
  if (early.status === 'in_time' && early.value.status !== 'complete') return plainAnswer(early.value, context)
  const headers = context.headers()
  headers.set('content-type', 'application/json')
  headers.set('cache-control', 'no-store, no-transform')
  if (early.status === 'in_time' && early.value.status === 'complete') {
    const { json } = early.value
    return { response: new Response(json, { headers }), ended: Promise.resolve(completed(json)) }
  }
  const { readable, writable } = new IdentityTransformStream()
  return { response: new Response(readable, { headers }), ended: fillResponse(writable, collecting, context) }
}

async function fillResponse(
  writable: WritableStream<Uint8Array>,
  collecting: Promise<Collected>,
  context: AnswerContext,
): Promise<Ending> {
  const writer = writable.getWriter()
  const collected = await keepClient(writer, collecting, () => SPACE, context)
  if (collected.status === 'cancelled') {
    await breakOff(writer, context.gone.reason)
    return CANCELLED
  }
  if (collected.status === 'failed') {
    // workerd logs the reason, and an engine's message may quote the prompt: its code alone is told.
    await breakOff(writer, new Error(`the engine failed: ${collected.failure.error.code}`))
    return { outcome: 'failed', error_code: collected.failure.error.code }
  }
  if (!(await delivered(writer.write(encoder.encode(collected.json)), context))) return CANCELLED
  await delivered(writer.close(), context)
  return completed(collected.json)
}

function completed(json: string): Ending {
  return { outcome: 'completed', error_code: null, json }
}

async function collect(
  serving: Promise<Served>,
  newBuilder: () => ResponseBuilder,
  context: AnswerContext,
): Promise<Collected> {
  const served = await serving
  if (served.status !== 'data') return served
  let builder = newBuilder()
  const startAnew = (): void => {
    builder = newBuilder()
    context.answer?.forget()
  }
  const end = await readAnswer(served, { ...context, startAnew }, (events) => {
    for (const event of events) if (event.kind === 'chunk') builder.add(event.data)
    return true
  })
  if (end.status === 'done') {
    const json = JSON.stringify(builder.finish())
    await builder.keep?.(context.store)
    return { status: 'complete', json }
  }
  if (end.status === 'cancelled') return end
  return { status: 'failed', failure: end.failure, retry_after_s: null }
}
