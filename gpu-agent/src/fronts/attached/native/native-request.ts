/**
 * A body of Messages or Responses for a server that speaks that API itself. The fields were sorted (protocol/request-fields.ts), and
 * their values go as the client wrote them, cache breakpoints too. What is set here: the server's name of the model, the stream, a
 * limit of the answer, and `store: false`, since a provider must not keep what the control plane does not know of.
 *
 * A Messages body without a breakpoint gets two, as a translated one does, so that a program's next call finds its last one cached.
 */
import { z } from 'zod'
import type { NativeApi } from '../../../../../src/protocol/index.ts'
import { bodyError } from '../../../openai/body-error.ts'
import { CHAT_OUTPUT_TOKENS_DEFAULT } from '../../../openai/translate.ts'
import type { Json, RequestResult } from '../../vllm/calls/request-body.ts'
import { CACHED } from './messages-request.ts'

const Tokens = z
  .number()
  .int()
  .min(1)
  .max(2 ** 31 - 1)
const Blocks = z.array(z.looseObject({ type: z.string() }))
const MessagesBody = z.looseObject({
  messages: z.array(z.looseObject({ role: z.string(), content: z.union([z.string(), Blocks]) })).min(1),
  system: z.union([z.string(), Blocks]).nullish(),
  max_tokens: Tokens,
})
type MessagesBody = z.infer<typeof MessagesBody>
const ResponsesBody = z.looseObject({
  input: z.union([z.string(), z.array(z.looseObject({}))]).nullish(),
  max_output_tokens: Tokens.nullish(),
  prompt_cache_key: z.string().nullish(),
})

/** Read by the control plane: they name tenants' users and programs, of which a provider need not know. */
const OURS = ['metadata', 'user', 'safety_identifier', 'client_metadata', 'session_id'] as const
const OURS_TOO = ['litellm_session_id', 'litellm_trace_id', 'stream_options', 'prompt_cache_key'] as const
/** Strings of a body that are no text of the prompt. */
const OPAQUE: ReadonlySet<string> = new Set(['signature', 'encrypted_content', 'data', 'type', 'role', 'id', 'call_id'])

export function nativeRequest(api: NativeApi, body: unknown, served_model: string): RequestResult {
  return api === 'messages' ? messagesRequest(body, served_model) : responsesRequest(body, served_model)
}

function messagesRequest(input: unknown, model: string): RequestResult {
  const parsed = MessagesBody.safeParse(input)
  if (!parsed.success) return { ok: false, error: bodyError(parsed.error) }
  const marked = JSON.stringify(parsed.data).includes('"cache_control"') ? parsed.data : withBreakpoints(parsed.data)
  const { system, messages, tools } = parsed.data
  return requestOf({ ...ofClient(marked), model, stream: true }, parsed.data.max_tokens, [system, messages, tools])
}

function responsesRequest(body: unknown, model: string): RequestResult {
  const parsed = ResponsesBody.safeParse(body)
  if (!parsed.success) return { ok: false, error: bodyError(parsed.error) }
  const { input, instructions, tools } = parsed.data
  const max_output_tokens = parsed.data.max_output_tokens ?? CHAT_OUTPUT_TOKENS_DEFAULT
  const fields = { ...ofClient(parsed.data), model, max_output_tokens, store: false, stream: true }
  const made = requestOf(fields, max_output_tokens, [instructions, input, tools])
  return { ...made, request: { ...made.request, ...given(parsed.data.prompt_cache_key) } }
}

/** The server gets it as one of its tenant (ticket-fields.ts). */
function given(prompt_cache_key: string | null | undefined): { prompt_cache_key?: string } {
  return prompt_cache_key == null ? {} : { prompt_cache_key }
}

function requestOf(fields: Json, output_tokens_max: number, prompt: readonly unknown[]): RequestResult & { ok: true } {
  const sizes = { prompt_bytes: textBytesIn(prompt), prompt_tokens: null, output_tokens_max }
  return { ok: true, request: { fields, ...sizes, choices: 1, prompts: 1, include_usage: true } }
}

function ofClient(body: Readonly<Json>): Json {
  const fields = { ...body }
  for (const field of [...OURS, ...OURS_TOO]) delete fields[field]
  return fields
}

function withBreakpoints(body: MessagesBody): Json {
  const { system, messages } = body
  const last = messages.length - 1
  return {
    ...body,
    ...(system == null || system.length === 0 ? {} : { system: marked(system) }),
    messages: messages.map((message, index) =>
      index === last && message.role === 'user' && message.content.length > 0
        ? { ...message, content: marked(message.content) }
        : message,
    ),
  }
}

function marked(content: string | readonly Json[]): Json[] {
  const blocks = typeof content === 'string' ? [{ type: 'text', text: content }] : content
  return blocks.map((block, index) => (index === blocks.length - 1 ? { ...block, ...CACHED } : block))
}

/** The relay bounds how deep a body nests. */
function textBytesIn(value: unknown): number {
  if (typeof value === 'string') return Buffer.byteLength(value)
  if (typeof value !== 'object' || value === null) return 0
  const entries = Array.isArray(value) ? value.map((item: unknown) => ['', item] as const) : Object.entries(value)
  return entries.reduce((sum, [name, inner]) => (OPAQUE.has(name) ? sum : sum + textBytesIn(inner)), 0)
}
