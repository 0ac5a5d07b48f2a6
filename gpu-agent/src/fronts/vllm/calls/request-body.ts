/**
 * A client's body → the body that the server gets: fields that were checked, and nothing else of the client's. Whose call it is
 * comes from the ticket (ticket-fields.ts). It is always asked to stream, with usage.
 */
import type { StreamError } from '../../../../../src/protocol/index.ts'
import { bodyError, pathOf } from '../../../openai/body-error.ts'
import { BODY_RULES, findUnsupported } from '../../../openai/capabilities.ts'
import { badRequest } from '../../../openai/errors.ts'
import { type OutputFields, outputFields } from '../../../openai/output-format.ts'
import type { Message } from '../../../openai/schemas.ts'
import {
  CHAT_OUTPUT_TOKENS_DEFAULT,
  COMPLETION_OUTPUT_TOKENS_DEFAULT,
  chatContradiction,
  checkMessage,
  completionContradiction,
  type Prompt,
  promptsOf,
} from '../../../openai/translate.ts'
import { profileOf, type ServerProfile } from '../../attached/server-profile.ts'
import type { TextDialect } from '../../engine-front.ts'
import { textBytes } from '../../local/bytes-per-token.ts'
import { MessageName, PASSED_FIELDS, type VllmBody, VllmChatBody, VllmCompletionBody } from './body-schemas.ts'
import { schemaFault } from './schema-bounds.ts'
import { structuredOutputs } from './structured-outputs.ts'

export type Json = Record<string, unknown>

export interface VllmRequestBody {
  /** Without the ticket's fields. */
  fields: Json
  /** Of the prompt's text; null: it is token ids. */
  prompt_bytes: number | null
  /** Of a prompt of token ids. */
  prompt_tokens: number | null
  /** Answers to expect: of every prompt `n`. */
  choices: number
  prompts: number
  /** Of each answer. */
  output_tokens_max: number
  include_usage: boolean
  /** The client's, for a provider's cache. Left out: it gave none. */
  prompt_cache_key?: string | undefined
}

export type RequestResult = { ok: true; request: VllmRequestBody } | { ok: false; error: StreamError }

type Part = { ok: true; fields: Json } | { ok: false; error: StreamError }

/** `profile`: what the server honours. */
export function vllmRequest(
  dialect: TextDialect,
  body: unknown,
  served_model: string,
  profile: ServerProfile = profileOf('vllm'),
): RequestResult {
  const request = dialect === 'chat' ? chatRequest : completionRequest
  return request(body, served_model, profile)
}

function unsupportedBy(profile: ServerProfile, body: VllmBody): StreamError | null {
  const lacking = findUnsupported(body, BODY_RULES, profile.capabilities)
  if (lacking !== null) return lacking
  const ignored = Object.entries(BODY_RULES).filter(([field]) => profile.ignores.has(field))
  return findUnsupported(body, Object.fromEntries(ignored), new Set())
}

function chatRequest(input: unknown, model: string, profile: ServerProfile): RequestResult {
  const parsed = VllmChatBody.safeParse(input)
  if (!parsed.success) return { ok: false, error: bodyError(parsed.error) }
  const body = parsed.data
  const error = unsupportedBy(profile, body) ?? chatContradiction(body)
  if (error !== null) return { ok: false, error }
  const messages: Json[] = []
  let bytes = 0
  for (const [index, message] of body.messages.entries()) {
    const forwarded = forwardedMessage(message, index, profile)
    if (!forwarded.ok) return forwarded
    messages.push(forwarded.fields)
    bytes += Buffer.byteLength(typeof forwarded.fields.content === 'string' ? forwarded.fields.content : '')
  }
  const format = outputFields(body)
  if (!format.ok) return format
  const constraints = constraintFields(format.fields, profile)
  if (!constraints.ok) return constraints
  const structured = structuredOutputs(format.fields.constraint)
  if (!structured.ok) return structured
  const max_tokens = body.max_completion_tokens ?? body.max_tokens ?? CHAT_OUTPUT_TOKENS_DEFAULT
  const fields = {
    ...{
      model,
      messages,
      ...passed(body, profile),
      ...templateFields(body),
      ...constraints.fields,
      ...structured.fields,
    },
    ...{ max_tokens, ...STREAMED },
  }
  return { ok: true, request: { ...requestOf(body, fields), prompt_bytes: bytes, prompt_tokens: null } }
}

function completionRequest(input: unknown, model: string, profile: ServerProfile): RequestResult {
  const parsed = VllmCompletionBody.safeParse(input)
  if (!parsed.success) return { ok: false, error: bodyError(parsed.error) }
  const body = parsed.data
  const error = unsupportedBy(profile, body)
  if (error !== null) return { ok: false, error }
  const contradiction = completionContradiction(body)
  if (contradiction !== null) return { ok: false, error: contradiction }
  const prompts = promptsOf(body.prompt)
  const format = outputFields(body)
  if (!format.ok) return format
  const constraint = structuredOutputs(format.fields.constraint)
  if (!constraint.ok) return constraint
  const max_tokens = body.max_tokens ?? COMPLETION_OUTPUT_TOKENS_DEFAULT
  // An only prompt goes as itself: a list of one is the same to vLLM.
  const prompt = prompts.length === 1 ? plainPrompt(prompts[0]) : prompts.map(plainPrompt)
  const fields = { model, prompt, ...passed(body, profile), ...constraint.fields, max_tokens, ...STREAMED }
  const choices = prompts.length * (body.n ?? 1)
  return { ok: true, request: { ...requestOf(body, fields), ...sizeOf(prompts), choices, prompts: prompts.length } }
}

function plainPrompt(prompt: Prompt | undefined): string | readonly number[] {
  if (prompt?.kind === 'tokens') return prompt.tokens
  return prompt?.kind === 'text' ? prompt.text : ''
}

/** Bytes if every prompt is text, tokens if none is. */
function sizeOf(prompts: readonly Prompt[]): Pick<VllmRequestBody, 'prompt_bytes' | 'prompt_tokens'> {
  let bytes = 0
  let tokens = 0
  for (const prompt of prompts) {
    bytes += textBytes(prompt) ?? 0
    tokens += prompt.kind === 'tokens' ? prompt.tokens.length : 0
  }
  return prompts[0]?.kind === 'tokens'
    ? { prompt_bytes: null, prompt_tokens: tokens }
    : { prompt_bytes: bytes, prompt_tokens: null }
}

const STREAMED = { stream: true, stream_options: { include_usage: true } }

function requestOf(body: VllmBody, fields: Json): Omit<VllmRequestBody, 'prompt_bytes' | 'prompt_tokens'> {
  const include_usage = body.stream_options?.include_usage === true
  const { prompt_cache_key } = body
  const sizes = { choices: body.n ?? 1, prompts: 1, output_tokens_max: Number(fields.max_tokens) }
  return { fields, ...sizes, include_usage, ...(prompt_cache_key == null ? {} : { prompt_cache_key }) }
}

/** Fields of vLLM alone go to others only where they ask for something. */
function passed(body: VllmBody, { dialect }: ServerProfile): Json {
  const given: Json = body
  const asks = (field: string): boolean => dialect === 'vllm' || BODY_RULES[field]?.neutral(given[field]) !== true
  const set = PASSED_FIELDS.filter((field) => given[field] !== undefined && given[field] !== null && asks(field))
  return Object.fromEntries(set.map((field) => [field, given[field]]))
}

/** Options of the model's chat template. Templates name the switch for thinking differently and ignore other names. */
function templateFields({ thinking, chat_template_kwargs }: VllmChatBody): Json {
  const enabled = thinking == null ? null : thinking.type !== 'disabled'
  const switches = enabled === null ? {} : { enable_thinking: enabled, thinking: enabled }
  const kwargs = { ...switches, ...chat_template_kwargs }
  return Object.keys(kwargs).length === 0 ? {} : { chat_template_kwargs: kwargs }
}

function forwardedMessage(message: Message, index: number, { capabilities, dialect }: ServerProfile): Part {
  const checked = checkMessage(message, index, capabilities)
  if (!checked.ok) return checked
  const { role, text, calls } = checked.message
  const fields: Json = { role, content: text === '' && calls.length > 0 ? null : text }
  if (calls.length > 0)
    fields.tool_calls = (message.tool_calls as Json[]).map((call) => ({ ...call, type: 'function' }))
  if (message.tool_call_id != null) fields.tool_call_id = message.tool_call_id
  // Older clients send back what vLLM now calls `reasoning` under its former name.
  const reasoning = message.reasoning ?? message.reasoning_content
  const name_of_reasoning = dialect === 'vllm' ? 'reasoning' : 'reasoning_content'
  if (role === 'assistant' && typeof reasoning === 'string') fields[name_of_reasoning] = reasoning
  if (message.name == null) return { ok: true, fields }
  const name = MessageName.safeParse(message.name)
  if (name.success) return { ok: true, fields: { ...fields, name: name.data } }
  const param = pathOf(['messages', index, 'name'])
  const reason = name.error.issues[0]?.message ?? 'expected a string'
  return { ok: false, error: badRequest('invalid_value', `Invalid value for '${param}': ${reason}.`, param) }
}

/** `response_format`, `tools`, `tool_choice` as vLLM takes them: it writes the grammar. */
function constraintFields({ format, tools, choice, several }: OutputFields, { dialect }: ServerProfile): Part {
  const fields: Json = {}
  if (format.type === 'json_object') fields.response_format = { type: 'json_object' }
  if (format.type === 'json_schema') {
    const { name, schema } = format.json_schema
    const error = schemaFault(schema ?? {}, ['response_format', 'json_schema', 'schema'])
    if (error !== null) return { ok: false, error }
    fields.response_format = { type: 'json_schema', json_schema: { name, schema: schema ?? {}, strict: true } }
  }
  if (tools.length === 0) return { ok: true, fields }
  for (const [index, { parameters }] of tools.entries()) {
    const error = schemaFault(parameters ?? {}, ['tools', index, 'function', 'parameters'])
    if (error !== null) return { ok: false, error }
  }
  // vLLM (0.32) holds arguments to the schemas of strict tools alone, also where a tool must be called.
  const held = choice.kind === 'asked' && dialect === 'vllm' ? { strict: true } : {}
  fields.tools = tools.map((tool) => ({ type: 'function', function: { ...tool, ...held } }))
  // Others take what says nothing for a field that they do not know.
  if (dialect === 'vllm' || choice.kind !== 'auto') fields.tool_choice = choiceOf(choice, tools.length)
  if (dialect === 'vllm' || !several) fields.parallel_tool_calls = several
  return { ok: true, fields }
}

function choiceOf(choice: OutputFields['choice'], tools: number): unknown {
  if (choice.kind !== 'asked') return choice.kind
  const [only, ...others] = choice.names
  // One tool of several was named; of one tool alone, "required" says the same.
  return others.length === 0 && tools > 1 ? { type: 'function', function: { name: only } } : 'required'
}
