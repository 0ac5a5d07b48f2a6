/**
 * The internal call: what the relay knows of a request whichever dialect it came in. Chat and completions are parsed at
 * this seam, and whatever else is spoken later is parsed here too; nothing behind it looks at a dialect but the aggregator.
 *
 * What an engine's scheduler reads stands in the ticket. So fields with which some servers let a client steer scheduling
 * or caching are dropped here and never refused: many clients send them by habit.
 */
import type { ApiErrorFields } from '../api/errors.ts'
import { ChatRequest, CompletionRequest, faultOf } from './dialect-schemas.ts'

export type Dialect = 'chat' | 'completions'

export const DIALECT_PATH: Readonly<Record<Dialect, string>> = {
  chat: '/v1/chat/completions',
  completions: '/v1/completions',
}

/** Set by the control plane alone. */
export const DROPPED_FIELDS: readonly string[] = [
  'priority',
  'vllm_xargs',
  'cache_salt',
  'session_id',
  'kv_transfer_params',
  'request_id',
]

export interface ParsedCall {
  dialect: Dialect
  model: string
  /** Whether the client wants a stream. Upstream always streams. */
  streaming: boolean
  /** The body as the client sent it, for identity, class and the prompt estimate. */
  body: Readonly<Record<string, unknown>>
  metadata: Readonly<Record<string, string>> | null
}

export type Parsed = { status: 'parsed'; call: ParsedCall } | { status: 'refused'; error: ApiErrorFields }

export function parseCall(dialect: Dialect, body: Readonly<Record<string, unknown>>): Parsed {
  const checked = (dialect === 'chat' ? ChatRequest : CompletionRequest).safeParse(body)
  if (!checked.success) {
    const { message, param } = faultOf(checked.error)
    return { status: 'refused', error: { message, param, code: 'invalid_value' } }
  }
  const { model, stream, metadata } = checked.data
  return {
    status: 'parsed',
    call: { dialect, model, streaming: stream === true, body, metadata: metadata ?? null },
  }
}

/** The body as an engine gets it: always a stream, with usage where the client asked for it or where we aggregate. */
export function forwardedBody(call: ParsedCall): string {
  const body: Record<string, unknown> = { ...call.body, stream: true }
  for (const field of DROPPED_FIELDS) delete body[field]
  if (!call.streaming) body.stream_options = { include_usage: true }
  else if (body.stream_options === null) delete body.stream_options
  return JSON.stringify(body)
}
