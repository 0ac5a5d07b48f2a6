/** What a response in one piece and a stream share: what an engine gave, how the call ended, and writing to the client. */

import type { AnswerSoFar } from '../core/call/answer-so-far.ts'
import { type ApiErrorFields, apiError, type ErrorFormat } from '../platform/api-error.ts'
import { type Within, within } from '../platform/deadline.ts'
import { type ErrorBody, KEEPALIVE_INTERVAL_MS, type Outcome, type Resume } from '../protocol/index.ts'
import type { AgentConnection, AgentFailure } from './agent-connection.ts'
import type { ResponseStore } from './response-store.ts'

const HEADERS_HOLD_MS = 1000
/** Headers wait so much longer for an engine that has not taken the call yet, since it may still refuse it. */
const ACCEPTANCE_HOLD_MS = 10_000
/** Between two comments, or two spaces of a response in one piece. */
const WAITING_INTERVAL_MS = 1000
/** A stream is silent for so long only if its agent is gone: three comments of it have not come. */
const STREAM_SILENCE_MS_MAX = 3 * KEEPALIVE_INTERVAL_MS
/** nginx's status for a request whose client has left. No client reads it. */
const CLIENT_LEFT_STATUS = 499

export const ENDED_EARLY = 'its stream ended too early'

/** The result of finding an engine. */
export type Served =
  | (AgentConnection & { status: 'data' } & { goOn: GoOn | null; anew: boolean })
  | { status: 'failed'; failure: AgentFailure; retry_after_s: number | null }
  | { status: 'cancelled' }

/**
 * Another engine goes on with the answer after `failure` of this one, or computes one in one piece `anew`. `so_far`: what has come
 * of it, null where no engine can be told. Null where the client asks for none of it.
 */
export type GoOn = (so_far: Resume | null, failure: AgentFailure) => Promise<Served>

/** How the call ended for its client. */
export interface Ending {
  outcome: Outcome
  error_code: string | null
  /** The body of a response in one piece. */
  json?: string
}

export interface Answer {
  response: Response
  /** Settles when the client has the whole response, or has left. */
  ended: Promise<Ending>
}

export interface SettledAnswer extends Answer {
  /** Settles when the ProgramActor has been notified. */
  settled: Promise<void>
}

export interface AnswerTimes {
  headers_hold_ms: number
  acceptance_hold_ms: number
  waiting_interval_ms: number
  /** The longest wait between two reads of an engine whose answer has begun. */
  stream_silence_ms_max: number
}

export const ANSWER_TIMES: AnswerTimes = {
  headers_hold_ms: HEADERS_HOLD_MS,
  acceptance_hold_ms: ACCEPTANCE_HOLD_MS,
  waiting_interval_ms: WAITING_INTERVAL_MS,
  stream_silence_ms_max: STREAM_SILENCE_MS_MAX,
}

export interface AnswerContext {
  times: AnswerTimes
  errors: ErrorFormat
  store: ResponseStore
  /** Fires when the client has left. */
  gone: AbortSignal
  /** Resolves when an engine has read the call and not refused it. It may never resolve. */
  accepted: Promise<void>
  /** Declares that the client has left: a write to it failed. Aborts the connection to the agent. */
  clientLeft(): void
  /** What the client has. Null: it is not kept. */
  answer: AnswerSoFar | null
  /** Forgets what has come of the answer, since the client has nothing of it and another engine computes all of it. Null: it has. */
  startAnew: (() => void) | null
  /** The data of an event with sound usage only. */
  sound(data: string): string
  /** Headers that say who serves the call, as known at this moment. */
  headers(): Headers
}

export const CANCELLED: Ending = { outcome: 'cancelled', error_code: 'client_left' }

/**
 * `work`'s value if it comes before the headers must go out. They wait for HEADERS_HOLD_MS, and on until an engine has taken
 * the call: a refusal then still has its status, and SDKs do not send the call again in vain.
 */
export async function beforeHeaders<T>(work: Promise<T>, { times, accepted }: AnswerContext): Promise<Within<T>> {
  const early = await within(work, times.headers_hold_ms)
  if (early.status === 'in_time') return early
  await within(Promise.race([work, accepted]), times.acceptance_hold_ms)
  return within(work, 0)
}

/** The answer to a call that failed, or whose client left, before anything was sent. */
export function plainAnswer(served: Exclude<Served, { status: 'data' }>, context: AnswerContext): Answer {
  if (served.status === 'cancelled') {
    return { response: new Response(null, { status: CLIENT_LEFT_STATUS }), ended: Promise.resolve(CANCELLED) }
  }
  const { failure, retry_after_s } = served
  const headers = context.headers()
  if (retry_after_s !== null) headers.set('retry-after', String(retry_after_s))
  return {
    response: apiError(failure.status, failure.error satisfies ApiErrorFields, headers, context.errors),
    ended: Promise.resolve({ outcome: 'failed', error_code: failure.error.code }),
  }
}

/**
 * Returns `work`'s value. Until it settles, `filler` is written, at once and at every interval, to notice a client that has
 * left. `work` rejects only because of a bug in this code. Then the response breaks off, since silence must not look like
 * an end.
 */
export async function keepClient<T>(
  writer: WritableStreamDefaultWriter<Uint8Array>,
  work: Promise<T>,
  filler: () => Uint8Array,
  context: AnswerContext,
): Promise<T> {
  try {
    let waited = await within(work, 0)
    while (waited.status === 'late') {
      if (!(await delivered(writer.write(filler()), context))) return await work
      waited = await within(work, context.times.waiting_interval_ms)
    }
    return waited.value
  } catch (error) {
    await breakOff(writer, error)
    throw error
  }
}

/** Breaks the client's connection. */
export async function breakOff(writer: WritableStreamDefaultWriter<Uint8Array>, reason: unknown): Promise<void> {
  try {
    await writer.abort(reason)
  } catch {
    // The client already broke the stream, which has the same effect.
  }
}

/** False: the client has left. That is the only reason for a write to a client to reject. */
export async function delivered(write: Promise<void>, context: AnswerContext): Promise<boolean> {
  try {
    await write
    return true
  } catch {
    context.clientLeft()
    return false
  }
}

export function engineFailed(reason: string): ErrorBody {
  const message = `The engine failed while it was answering: ${reason}`
  return { message, type: 'server_error', param: null, code: 'engine_failed' }
}

/** A failure while an engine's answer is read. It is the engine's, and it is too late to take another one. */
export function brokenAnswer(reason: string): AgentFailure {
  return { status: 502, error: engineFailed(reason), replaceable: false, retry_after_s: null }
}
