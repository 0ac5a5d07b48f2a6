/**
 * What both of OpenAI's dialects share: checking a body against its schema, and writing it for an engine.
 *
 * An engine's scheduler reads the ticket only. Some servers have fields that let a client steer scheduling or caching.
 * Those fields are dropped here and not refused, since many clients always send them.
 */
import { sortFields } from '../../core/call/request-fields.ts'
import { joined } from '../../core/wire/joined.ts'
import {
  COMPLETION_BODY_FIELDS,
  CONTROL_FIELDS,
  type FieldTable,
  SCHEDULING_FIELDS,
} from '../../protocol/request-fields.ts'
import type { AnswerFormat, Dialect, Json, Parsed, ParsedCall } from './dialect.ts'
import { normalised, sentAs } from './openai-aliases.ts'
import type { ChatRequest, CompletionRequest, EmbeddingRequest } from './openai-schemas.ts'
import { faultOf } from './openai-schemas.ts'

/** Never forwarded, however they came into the body. */
export const DROPPED_FIELDS: readonly string[] = [...CONTROL_FIELDS, ...SCHEDULING_FIELDS]

export function parseOpenAi(
  dialect: Dialect,
  schema: typeof ChatRequest | typeof CompletionRequest | typeof EmbeddingRequest,
  table: FieldTable,
  body: Readonly<Json>,
  answer: AnswerFormat,
): Parsed {
  const checked = schema.safeParse(body)
  if (!checked.success) {
    const { message, param } = faultOf(checked.error)
    return { status: 'refused', error: { message, param, code: 'invalid_value' } }
  }
  const { model, metadata } = checked.data
  const { body: sorted, ignored, hints } = sortFields(body, table)
  const agreed = normalised(table === COMPLETION_BODY_FIELDS ? 'completions' : 'chat', sorted)
  if (agreed.status === 'refused') return agreed
  return {
    status: 'parsed',
    call: {
      ...{ dialect, model, streaming: sorted.stream === true, body: agreed.body, metadata: metadata ?? null },
      ...{ answer, lowers_output_limit: false, warnings: { ignored, hints: sentAs(hints) } },
    },
  }
}

/** A body as an engine gets it, as JSON: bytes where a part of it is the client's own. */
export type ForwardedBody = string | Uint8Array<ArrayBuffer>

const encoder = new TextEncoder()

/** The body as an engine gets it: always a stream, with usage where the client asked for it or where we aggregate. */
export function forwardedBody(call: Pick<ParsedCall, 'body' | 'streaming'>): string {
  return JSON.stringify(forwardedFields(call))
}

/** The same, with values of the client's body that go on as they are. */
export function splicedBody(
  call: Pick<ParsedCall, 'body' | 'streaming'>,
  raw: ReadonlyMap<string, Uint8Array>,
): Uint8Array<ArrayBuffer> {
  const fields = forwardedFields(call)
  for (const field of raw.keys()) delete fields[field]
  const values = [...raw].map(([field, value]) => [encoder.encode(`,"${field}":`), value])
  return joined([encoder.encode(JSON.stringify(fields).slice(0, -1)), ...values.flat(), encoder.encode('}')])
}

function forwardedFields(call: Pick<ParsedCall, 'body' | 'streaming'>): Json {
  const body: Json = { ...call.body, stream: true }
  for (const field of DROPPED_FIELDS) delete body[field]
  if (!call.streaming) body.stream_options = { include_usage: true }
  else if (body.stream_options === null) delete body.stream_options
  return body
}

/** The body with one field more. It has at least one. */
export function withField(body: ForwardedBody, name: string, value: unknown): ForwardedBody {
  const field = `{${JSON.stringify(name)}:${JSON.stringify(value)},`
  return typeof body === 'string' ? field + body.slice(1) : joined([encoder.encode(field), body.subarray(1)])
}
