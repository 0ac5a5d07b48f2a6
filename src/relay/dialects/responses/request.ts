/**
 * A request of the Responses API as the chat body that engines get, and what its response repeats of it. Fields are of the
 * three classes that every API here has. Binding ones are translated or refused. Hints (`reasoning.effort`,
 * `text.verbosity`) are passed on for the engine to apply or drop. Others are dropped with a warning.
 */
import type { NotedField, NotedFields } from '../../../core/call/request-fields.ts'
import type { Json, Recalled } from '../dialect.ts'
import { type ChatMessages, MessageWriter } from './chat-messages.ts'
import { invalid } from './fault.ts'
import type { ResponseRequest } from './request-schema.ts'
import { chosenTools, ToolCollector, type Tools } from './tools.ts'
import type { RequestEcho } from './types.ts'
import type { Warning } from './warnings.ts'

export interface TranslatedRequest {
  chat: Json
  tools: Tools
  echo: RequestEcho
  /** Of the chat body's messages; see ChatMessages. */
  origins: ChatMessages['origins']
  encrypted_reasoning: boolean
  warnings: readonly Warning[]
  /** Passed on for the engine to apply. */
  hints: NotedFields
}

/** Sampling fields that self-hosted servers take beside OpenAI's. They mean the same in a chat body. */
const PASSED = [
  ...['temperature', 'top_p', 'metadata', 'user', 'safety_identifier', 'prompt_cache_key', 'session_id'],
  ...['seed', 'stop', 'frequency_penalty', 'presence_penalty', 'repetition_penalty', 'logit_bias', 'top_k', 'min_p'],
  ...['ignore_eos', 'min_tokens', 'chat_template_kwargs'],
]

const TRANSLATED = [
  ...['model', 'input', 'instructions', 'stream', 'store', 'previous_response_id', 'conversation', 'max_output_tokens'],
  ...['max_tool_calls', 'top_logprobs', 'tools', 'tool_choice', 'parallel_tool_calls', 'text', 'reasoning', 'include'],
  ...['truncation', 'background', 'prompt', 'moderation'],
]

const KNOWN: ReadonlySet<string> = new Set([...PASSED, ...TRANSLATED])

/** Values that ask for nothing. */
const NEUTRAL: ReadonlyMap<string, readonly unknown[]> = new Map([
  ['service_tier', ['auto', 'default']],
  ['prompt_cache_retention', ['in_memory', 'in-memory']],
])
/** It concerns the transport alone. */
const SILENT: ReadonlySet<string> = new Set(['stream_options', 'client_metadata'])

/** More are counted by none: a client may invent any number of fields. */
const WARNED_FIELDS_MAX = 16

const INCLUDE_REASONING = 'reasoning.encrypted_content'
const INCLUDE_LOGPROBS = 'message.output_text.logprobs'

export function translateRequest(
  request: ResponseRequest,
  { history, referenced }: Pick<Recalled, 'history' | 'referenced'>,
): TranslatedRequest {
  const refused = unsupported(request)
  if (refused !== null) throw refused
  const warnings = droppedFields(request)
  const collector = new ToolCollector(warnings)
  for (const [index, tool] of (request.tools ?? []).entries()) collector.add(tool, `tools[${index}]`)
  const writer = new MessageWriter(collector, warnings)
  if (request.instructions != null && request.instructions !== '') writer.instructions(request.instructions)
  for (const item of history) writer.add(item, 'previous_response_id', null)
  for (const [index, item] of inputItems(request.input).entries()) {
    const param = `input[${index}]`
    writer.add(resolved(item, referenced, param), param, param)
  }
  const { messages, origins } = writer.finish()
  if (messages.length === 0) throw invalid('input', 'text or items are required')
  const { tools } = collector
  const include = new Set(request.include ?? [])
  return {
    chat: chatBody(request, messages, tools, include.has(INCLUDE_LOGPROBS)),
    tools,
    echo: echoOf(request),
    origins,
    encrypted_reasoning: include.has(INCLUDE_REASONING),
    warnings,
    hints: { fields: hintsOf(request), more: 0 },
  }
}

function hintsOf({ reasoning, text }: ResponseRequest): NotedField[] {
  const hints: NotedField[] = []
  const effort = 'reasoning.effort'
  const verbosity = 'text.verbosity'
  if (reasoning?.effort != null) hints.push({ field: effort, param: effort, sent_as: 'reasoning_effort' })
  if (text?.verbosity != null) hints.push({ field: verbosity, param: verbosity, sent_as: 'verbosity' })
  return hints
}

/** Text is the message of a user. */
export function inputItems(input: ResponseRequest['input']): readonly Json[] {
  if (typeof input === 'string') return [{ type: 'message', role: 'user', content: input }]
  return input ?? []
}

/** `type` may be absent: then the item has an id and no role. */
export function isReference(item: unknown): item is Json & { id: string } {
  if (typeof item !== 'object' || item === null) return false
  const { id, type, role } = item as Json
  return typeof id === 'string' && (type === 'item_reference' || (type == null && role == null))
}

function resolved(item: Json, referenced: ReadonlyMap<string, Json>, param: string): Json {
  if (!isReference(item)) return item
  const found = referenced.get(item.id)
  if (found === undefined) throw invalid(`${param}.id`, `there is no stored item '${item.id.slice(0, 64)}'`)
  return found
}

function unsupported({ background, prompt, moderation, conversation, previous_response_id }: ResponseRequest) {
  if (background === true)
    return invalid('background', 'a response is made while its client waits; leave it out, and read the stream')
  if (prompt != null) return invalid('prompt', 'no prompt templates are stored here')
  if (moderation != null) return invalid('moderation', 'nothing is moderated here')
  if (conversation != null && previous_response_id != null) {
    return invalid('previous_response_id', "it cannot go with 'conversation'")
  }
  return null
}

function droppedFields(request: ResponseRequest): Warning[] {
  const warnings: Warning[] = []
  // Nothing is truncated: a prompt that does not fit into the context is refused.
  if (request.truncation === 'auto') warnings.push({ field: 'truncation', param: 'truncation' })
  for (const [param, value] of Object.entries(request)) {
    if (warnings.length >= WARNED_FIELDS_MAX) break
    if (KNOWN.has(param) || SILENT.has(param) || value === null || NEUTRAL.get(param)?.includes(value) === true)
      continue
    warnings.push({ field: param, param })
  }
  return warnings
}

function chatBody(request: ResponseRequest, messages: Json[], tools: Tools, logprobs: boolean): Json {
  const chat: Json = { model: request.model, messages }
  for (const field of PASSED) if (request[field] != null) chat[field] = request[field]
  if (request.max_output_tokens != null) chat.max_completion_tokens = request.max_output_tokens
  const { functions, choice } = chosenTools(request.tool_choice, tools)
  if (functions.length > 0) {
    chat.tools = functions
    if (choice !== null) chat.tool_choice = choice
    if (request.parallel_tool_calls != null) chat.parallel_tool_calls = request.parallel_tool_calls
  }
  const format = responseFormat(request.text)
  if (format !== null) chat.response_format = format
  if (request.text?.verbosity != null) chat.verbosity = request.text.verbosity
  if (request.reasoning?.effort != null) chat.reasoning_effort = request.reasoning.effort
  const top_logprobs = request.top_logprobs ?? 0
  if (logprobs || top_logprobs > 0) Object.assign(chat, { logprobs: true, top_logprobs })
  // The response states its usage, streamed or not.
  if (request.stream === true) chat.stream_options = { include_usage: true }
  return chat
}

function responseFormat(text: ResponseRequest['text']): Json | null {
  const format = text?.format
  if (format == null || format.type === 'text') return null
  if (format.type === 'json_object') return { type: 'json_object' }
  const { name, schema, description, strict } = format
  if (name === undefined) throw invalid('text.format.name', 'a json_schema has a name')
  if (schema === undefined) throw invalid('text.format.schema', 'a json_schema has a schema')
  const described = description == null ? {} : { description }
  return { type: 'json_schema', json_schema: { name, schema, ...described, ...(strict == null ? {} : { strict }) } }
}

function echoOf(request: ResponseRequest): RequestEcho {
  const { conversation, text, reasoning } = request
  return {
    conversation:
      conversation == null ? null : { id: typeof conversation === 'string' ? conversation : conversation.id },
    instructions: request.instructions ?? null,
    max_output_tokens: request.max_output_tokens ?? null,
    max_tool_calls: request.max_tool_calls ?? null,
    metadata: request.metadata ?? {},
    model: request.model,
    parallel_tool_calls: request.parallel_tool_calls ?? true,
    previous_response_id: request.previous_response_id ?? null,
    prompt_cache_key: request.prompt_cache_key ?? null,
    reasoning: { ...reasoning, effort: reasoning?.effort ?? null, summary: reasoning?.summary ?? null },
    safety_identifier: request.safety_identifier ?? null,
    store: request.store ?? true,
    temperature: request.temperature ?? 1,
    text: { ...text, format: text?.format ?? { type: 'text' } },
    tool_choice: request.tool_choice ?? 'auto',
    tools: [...(request.tools ?? [])],
    top_logprobs: request.top_logprobs ?? 0,
    top_p: request.top_p ?? 1,
    truncation: request.truncation ?? 'disabled',
    user: request.user ?? null,
  }
}

const RENAMED: readonly (readonly [from: RegExp, to: string])[] = [
  [/^(max_completion_tokens|max_tokens)$/, 'max_output_tokens'],
  [/^response_format\.json_schema/, 'text.format'],
  [/^response_format/, 'text.format'],
  [/^verbosity$/, 'text.verbosity'],
  [/^reasoning_effort$/, 'reasoning.effort'],
  [/^(tools\[\d+\])\.function/, '$1'],
  [/^logprobs$/, 'top_logprobs'],
]

/** The field of the client's body for one of the chat body that an engine names in an error. */
export function clientParam(param: string, origins: TranslatedRequest['origins']): string {
  const message = /^messages\[(\d+)\]/.exec(param)
  if (message !== null) {
    const origin = origins[Number(message[1])]
    return origin == null ? 'input' : `${origin}${param.slice(message[0].length)}`
  }
  if (param === 'messages') return 'input'
  for (const [from, to] of RENAMED) if (from.test(param)) return param.replace(from, to)
  return param
}
