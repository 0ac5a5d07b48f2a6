/**
 * One connection to an agent's data plane, read up to its first data event. Until then the client has seen nothing of this
 * engine, and another may take its place (src/protocol/stream.ts). Comments are dropped here. From the first data event on,
 * the bytes go to the client.
 *
 * A living agent is never silent for longer than KEEPALIVE_INTERVAL_MS. A host that loses its power closes no socket, so
 * silence counts as a failure.
 */
import type { z } from 'zod'
import { joined } from '../core/wire/joined.ts'
import { FrameTooLarge, parseFrame, SseSplitter } from '../core/wire/sse.ts'
import { startPauseProofTimer } from '../platform/pause-proof-timer.ts'
import {
  ACCEPTED_HEADER,
  COMMENT_ACCEPTED,
  type ErrorBody,
  EVENT_ERROR,
  KEEPALIVE_INTERVAL_MS,
  StreamError,
} from '../protocol/index.ts'

/** From the request to the agent's headers: it holds them for at most 250 ms, so this is network and start-up. */
const HEADERS_TIMEOUT_MS = 10_000
/** The longest wait between two reads. */
const SILENCE_MS_MAX = 6 * KEEPALIVE_INTERVAL_MS
/** Of a refusal's body. */
export const REFUSAL_BYTES_MAX = 64 * 1024
/** With these, ticket, lease or engine do not fit together. That is never the client's mistake. */
const OUR_STATUSES: ReadonlySet<number> = new Set([401, 403, 404, 405, 409])

/** Why an engine gave no answer or an incomplete one. `status` and `error` go to the client if no other engine serves it. */
export interface AgentFailure {
  status: number
  error: ErrorBody
  /** Whether another engine may be tried. */
  replaceable: boolean
  /** When the engine expects to have room, if it said so. */
  retry_after_s: number | null
}

export type AgentConnection =
  /** `head`: the first data event and the bytes that came with it. `rest` continues after it. */
  | {
      status: 'data'
      head: Uint8Array
      rest: ReadableStreamDefaultReader<Uint8Array>
      /** Closes the connection; `rest` breaks with the reason. */
      cut: (reason: string) => void
      /** To be called when `rest` is over. The connection no longer hears whether the client leaves. */
      over: () => void
    }
  | { status: 'failed'; failure: AgentFailure }
  | { status: 'cancelled' }

export interface AgentConnectionLimits {
  headers_timeout_ms: number
  silence_ms_max: number
}

export const AGENT_CONNECTION_LIMITS: AgentConnectionLimits = {
  headers_timeout_ms: HEADERS_TIMEOUT_MS,
  silence_ms_max: SILENCE_MS_MAX,
}

export interface AgentRequest {
  url: string
  headers: Headers
  body: string | Uint8Array<ArrayBuffer>
  /** Fires when the client has left. */
  gone: AbortSignal
  fetch: typeof fetch
  limits: AgentConnectionLimits
  /** The agent has answered 200: the call has arrived. */
  onHeaders?: (headers: Headers) => void
  /** The engine has read the call and not refused it. */
  onAccepted?: () => void
}

export async function openAgentConnection(request: AgentRequest): Promise<AgentConnection> {
  const { gone, limits } = request
  // Aborting the fetch closes the socket at once, which is how an agent learns that no one listens.
  const cut = new AbortController()
  const leave = (): void => cut.abort(gone.reason)
  if (gone.aborted) return { status: 'cancelled' }
  gone.addEventListener('abort', leave, { once: true })
  // What a listener knows, the call's prompt too, lives as long as the signal, which V8's frequent collections leave.
  const over = (): void => gone.removeEventListener('abort', leave)
  let connection: AgentConnection = { status: 'cancelled' }
  const heard = startPauseProofTimer(limits.headers_timeout_ms, () => cut.abort(new Error('no headers')))
  try {
    const response = await request.fetch(request.url, {
      method: 'POST',
      headers: request.headers,
      body: request.body,
      redirect: 'manual',
      signal: cut.signal,
    })
    heard()
    if (response.status !== 200 || response.body === null) {
      connection = await refusalOf(response, limits, cut)
    } else {
      request.onHeaders?.(response.headers)
      if (response.headers.has(ACCEPTED_HEADER)) request.onAccepted?.()
      const close = (reason: string): void => cut.abort(new Error(reason))
      connection = await readToFirstData(response.body, request, close, over)
    }
    return connection
  } catch (error) {
    if (gone.aborted) return { status: 'cancelled' }
    // fetch and read reject the same way when nothing listens, the connection breaks or it was cut above. The failure is
    // logged, so a bug in this code would show there.
    return failed(unreachable(error))
  } finally {
    heard()
    if (connection.status !== 'data') over()
  }
}

async function readToFirstData(
  body: ReadableStream<Uint8Array>,
  { limits: { silence_ms_max }, onAccepted }: AgentRequest,
  cut: (reason: string) => void,
  over: () => void,
): Promise<AgentConnection> {
  const splitter = new SseSplitter()
  const reader = body.getReader()
  for (;;) {
    const heard = startPauseProofTimer(silence_ms_max, () => cut('silent'))
    const { done, value } = await reader.read().finally(heard)
    if (done) return failed(brokenConnection('engine_ended_early', 'The engine ended its answer before it began.'))
    splitter.push(value)
    const found = firstEvent(splitter, onAccepted)
    if (found === null) continue
    if (found.status === 'failed') {
      cut('the engine failed')
      return found
    }
    return { status: 'data', head: found.head, rest: reader, cut, over }
  }
}

function firstEvent(
  splitter: SseSplitter,
  onAccepted: () => void = () => {},
): { status: 'head'; head: Uint8Array } | (AgentConnection & { status: 'failed' }) | null {
  try {
    for (let bytes = splitter.next(); bytes !== null; bytes = splitter.next()) {
      const frame = parseFrame(bytes)
      if (frame.kind === 'comment') {
        if (frame.text === COMMENT_ACCEPTED) onAccepted()
        continue
      }
      if (frame.event === EVENT_ERROR) return failed(errorEvent(frame.data))
      return { status: 'head', head: joined([bytes, splitter.rest()]) }
    }
    return null
  } catch (error) {
    if (error instanceof FrameTooLarge) return failed(brokenConnection('engine_malformed', error.message))
    throw error
  }
}

/** The failure that the data of an `event: error` states. */
export function errorEvent(data: string): AgentFailure {
  const stated = parseStreamError(data)
  if (stated === null) return brokenConnection('engine_malformed', 'The engine failed without saying why.')
  return failureOf(stated)
}

async function refusalOf(
  response: Response,
  { headers_timeout_ms }: AgentConnectionLimits,
  cut: AbortController,
): Promise<AgentConnection> {
  const read = startPauseProofTimer(headers_timeout_ms, () => cut.abort(new Error('its refusal has no end')))
  const stated = parseStreamError(await readText(response).finally(read))
  if (stated === null) {
    return failed(brokenConnection('engine_malformed', `The engine answered ${response.status} without saying why.`))
  }
  const failure = failureOf(stated)
  if (!OUR_STATUSES.has(response.status)) return failed(failure)
  return failed({ ...failure, status: stated.status < 500 ? 502 : stated.status, replaceable: true })
}

function failureOf({ status, error, retryable, retry_after_s }: StatedError): AgentFailure {
  return { status, error, replaceable: retryable, retry_after_s: retry_after_s ?? null }
}

async function readText(response: Response): Promise<string> {
  if (response.body === null) return ''
  const decoder = new TextDecoder()
  let text = ''
  let bytes = 0
  for await (const chunk of response.body as ReadableStream<Uint8Array>) {
    bytes += chunk.length
    if (bytes > REFUSAL_BYTES_MAX) return ''
    text += decoder.decode(chunk, { stream: true })
  }
  return text
}

/** Inside a stream an error may lack the two fields that only matter before it. */
const LooseStreamError = StreamError.extend({
  status: StreamError.shape.status.default(502),
  retryable: StreamError.shape.retryable.default(false),
})

type StatedError = z.infer<typeof LooseStreamError>

function parseStreamError(json: string): StatedError | null {
  try {
    const parsed = LooseStreamError.safeParse(JSON.parse(json))
    return parsed.success ? parsed.data : null
  } catch (error) {
    if (error instanceof SyntaxError) return null
    throw error
  }
}

function failed(failure: AgentFailure): { status: 'failed'; failure: AgentFailure } {
  return { status: 'failed', failure }
}

/** A failure of the engine or its host: another engine may serve the call. */
function brokenConnection(code: string, message: string): AgentFailure {
  const error = { message, type: 'server_error', param: null, code }
  return { status: 502, error, replaceable: true, retry_after_s: null }
}

function unreachable(error: unknown): AgentFailure {
  const reason = error instanceof Error ? error.message : String(error)
  return brokenConnection('engine_unreachable', `The engine could not be reached: ${reason}`)
}
