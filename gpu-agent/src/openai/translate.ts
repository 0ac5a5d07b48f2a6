/**
 * A client's body → what an engine needs: messages or a prompt, sampling, limits, stop strings. Everything that cannot be
 * honoured is refused by name here, before a call costs anything.
 */
import { OUTPUT_TOKENS_DEFAULT } from '../../../src/core/call/lease-terms.ts'
import type { StreamError } from '../../../src/protocol/index.ts'
import type { TextDialect } from '../fronts/engine-front.ts'
import type { ChatMessage, TemplateOptions } from '../fronts/local/text-model.ts'
import { bodyError, pathOf } from './body-error.ts'
import { BODY_RULES, type Capabilities, findUnsupported, MESSAGE_RULES, unsupported } from './capabilities.ts'
import { badRequest } from './errors.ts'
import { type Output, outputOf } from './output-format.ts'
import { type AskedSampling, askedSampling } from './sampling-fields.ts'
import { CHOICES_MAX, ChatBody, CompletionBody, type Message, ToolCalls } from './schemas.ts'
import { PlainTemplateKwargs } from './template-kwargs.ts'
import { assistantText, type ToolCall, withTools } from './tool-text.ts'

/** Output of a chat call that names no limit: as much as the context leaves, at most this. */
export const CHAT_OUTPUT_TOKENS_DEFAULT = OUTPUT_TOKENS_DEFAULT
/** OpenAI's own default for completions. */
export const COMPLETION_OUTPUT_TOKENS_DEFAULT = 16

export type PlainPrompt = { kind: 'text'; text: string } | { kind: 'tokens'; tokens: readonly number[] }
export type Prompt = { kind: 'chat'; messages: readonly ChatMessage[]; options?: TemplateOptions } | PlainPrompt

export interface Translation {
  /** Each is answered by `choices` choices; several have one choice each. */
  prompts: readonly [Prompt, ...Prompt[]]
  /** Asked for by the client; null: the dialect's default. */
  max_output_tokens: number | null
  sampling: AskedSampling
  stops: readonly string[]
  include_usage: boolean
  choices: number
  /** None of which may stand in the answer. */
  bad_words: readonly string[]
  /** How many alternatives to each token are to be told, with log probabilities; null: nothing of them. */
  logprobs: number | null
  /** The answer begins with the prompt, log probabilities included. Of completions only. */
  echo: boolean
  output: Output
}

export type TranslationResult = { ok: true; translation: Translation } | { ok: false; error: StreamError }

export function translate(dialect: TextDialect, body: unknown, capabilities: Capabilities): TranslationResult {
  return dialect === 'chat' ? translateChat(body, capabilities) : translateCompletion(body, capabilities)
}

/** The hints that fronts of this machine's engines may apply. */
const HintedChatBody = ChatBody.extend({ chat_template_kwargs: PlainTemplateKwargs.nullish() })

function translateChat(input: unknown, capabilities: Capabilities): TranslationResult {
  const parsed = HintedChatBody.safeParse(input)
  if (!parsed.success) return { ok: false, error: bodyError(parsed.error) }
  const body = parsed.data
  const error = findUnsupported(body, BODY_RULES, capabilities)
  if (error !== null) return { ok: false, error }
  const messages: ChatMessage[] = []
  for (const [index, message] of body.messages.entries()) {
    const checked = checkMessage(message, index, capabilities)
    if (!checked.ok) return checked
    const { role, text, calls } = checked.message
    messages.push({ role, content: assistantText(text, calls) })
  }
  const contradiction = chatContradiction(body)
  if (contradiction !== null) return { ok: false, error: contradiction }
  const max_output_tokens = body.max_completion_tokens ?? body.max_tokens ?? null
  const result = outputOf(body)
  if (!result.ok) return result
  const { output } = result
  const told = output.tools.length === 0 ? messages : withTools(messages, output.tools)
  const options = body.chat_template_kwargs
  const prompt = { kind: 'chat' as const, messages: told, ...(options == null ? {} : { options }) }
  const logprobs = body.logprobs === true ? (body.top_logprobs ?? 0) : null
  const translation = { ...common(body), prompts: [prompt] as const, max_output_tokens, logprobs, echo: false, output }
  return { ok: true, translation }
}

/** Fields that are each valid and together are not. */
export function chatContradiction(body: ChatBody): StreamError | null {
  const { max_tokens, max_completion_tokens, top_logprobs, logprobs } = body
  if (max_tokens != null && max_completion_tokens != null && max_tokens !== max_completion_tokens) {
    return invalid('max_tokens', "'max_tokens' and 'max_completion_tokens' contradict each other").error
  }
  if ((top_logprobs ?? 0) > 0 && logprobs !== true) {
    return invalid('top_logprobs', "it goes with 'logprobs': true").error
  }
  return null
}

function translateCompletion(input: unknown, capabilities: Capabilities): TranslationResult {
  const parsed = CompletionBody.safeParse(input)
  if (!parsed.success) return { ok: false, error: bodyError(parsed.error) }
  const body = parsed.data
  const error = findUnsupported(body, BODY_RULES, capabilities)
  if (error !== null) return { ok: false, error }
  const contradiction = completionContradiction(body)
  if (contradiction !== null) return { ok: false, error: contradiction }
  const max_output_tokens = body.max_tokens ?? null
  const logprobs = body.logprobs ?? null
  const echo = body.echo === true
  const result = outputOf(body)
  if (!result.ok) return result
  const { output } = result
  if (echo && logprobs !== null && output.grammar !== null) {
    return invalid('echo', "with 'logprobs' it does not go with a format")
  }
  const prompts = promptsOf(body.prompt)
  return { ok: true, translation: { ...common(body), prompts, max_output_tokens, logprobs, echo, output } }
}

/** Fields that are each valid and together are not. */
export function completionContradiction({ prompt, n, max_tokens, echo }: CompletionBody): StreamError | null {
  if (max_tokens === 0 && echo !== true) return invalid('max_tokens', "0 goes with 'echo': true only").error
  const prompts = promptsOf(prompt).length
  if (prompts > 1 && (n ?? 1) > 1) return invalid('n', 'with several prompts each has one answer').error
  return prompts > CHOICES_MAX ? invalid('prompt', `at most ${CHOICES_MAX} prompts`).error : null
}

/** The prompts of one body: every one is answered as a choice. */
export function promptsOf(prompt: CompletionBody['prompt']): [PlainPrompt, ...PlainPrompt[]] {
  if (typeof prompt === 'string') return [{ kind: 'text', text: prompt }]
  if (isNumbers(prompt)) return [{ kind: 'tokens', tokens: prompt }]
  const [first, ...others] = prompt.map(plainPrompt)
  if (first === undefined) throw new RangeError('a body has a prompt')
  return [first, ...others]
}

function plainPrompt(one: string | number[]): PlainPrompt {
  return typeof one === 'string' ? { kind: 'text', text: one } : { kind: 'tokens', tokens: one }
}

function isNumbers(prompt: readonly (string | number | number[])[]): prompt is number[] {
  return typeof prompt[0] === 'number'
}

function common(
  body: ChatBody | CompletionBody,
): Omit<Translation, 'prompts' | 'max_output_tokens' | 'logprobs' | 'echo' | 'output'> {
  const stop = body.stop ?? []
  return {
    sampling: askedSampling(body),
    stops: typeof stop === 'string' ? [stop] : stop,
    include_usage: body.stream_options?.include_usage === true,
    choices: body.n ?? 1,
    bad_words: body.bad_words ?? [],
  }
}

/** A message as an engine's text is made of it. */
export interface CheckedMessage {
  role: Exclude<Message['role'], 'developer'>
  text: string
  calls: readonly ToolCall[]
}

export type MessageResult = { ok: true; message: CheckedMessage } | { ok: false; error: StreamError }

export function checkMessage(message: Message, index: number, capabilities: Capabilities): MessageResult {
  const path = pathOf(['messages', index])
  const error = findUnsupported(message, MESSAGE_RULES, capabilities, `${path}.`)
  if (error !== null) return { ok: false, error }
  // Models whose template knows no `developer` role call it `system`.
  const role = message.role === 'developer' ? 'system' : message.role
  const called = toolCalls(message, path)
  if (!called.ok) return called
  const text = contentText(message.content, path, OPTIONAL_CONTENT.has(role))
  return text.ok ? { ok: true, message: { role, text: text.text, calls: called.calls } } : text
}

type ToolCallsResult = { ok: true; calls: ToolCall[] } | { ok: false; error: StreamError }

function toolCalls({ role, tool_calls }: Message, path: string): ToolCallsResult {
  if (tool_calls == null) return { ok: true, calls: [] }
  const parsed = ToolCalls.safeParse(tool_calls)
  if (!parsed.success) {
    const where = pathOf(parsed.error.issues[0]?.path ?? [])
    const inner = where === '' || where.startsWith('[') ? where : `.${where}`
    return invalid(`${path}.tool_calls${inner}`, parsed.error.issues[0]?.message ?? 'it is not a list of calls')
  }
  if (parsed.data.length > 0 && role !== 'assistant') return invalid(`${path}.tool_calls`, 'an assistant calls tools')
  return { ok: true, calls: parsed.data.map((call) => call.function) }
}

type TextResult = { ok: true; text: string } | { ok: false; error: StreamError }

/** An answer may consist of calls or of reasoning that its client does not send back, and a tool may have nothing to say. */
const OPTIONAL_CONTENT: ReadonlySet<Message['role']> = new Set(['assistant', 'tool'])

function contentText(content: Message['content'], path: string, optional: boolean): TextResult {
  if (content == null) return optional ? { ok: true, text: '' } : invalid(`${path}.content`, 'text is required')
  if (typeof content === 'string') return { ok: true, text: content }
  let text = ''
  for (const [part, { type, ...fields }] of content.entries()) {
    if (MEDIA_PARTS.has(type)) return { ok: false, error: unsupported(`${path}.content`) }
    const field = TEXT_PARTS.get(type)
    if (field === undefined) return invalid(`${path}.content[${part}].type`, `there is no content part '${type}'`)
    const said = fields[field]
    if (typeof said !== 'string') return invalid(`${path}.content[${part}].${field}`, 'expected a string')
    text += said
  }
  return { ok: true, text }
}

const MEDIA_PARTS: ReadonlySet<string> = new Set(['image_url', 'input_audio', 'audio_url', 'video_url', 'file'])
/** Which field of a part is its text. */
const TEXT_PARTS: ReadonlyMap<string, string> = new Map([
  ['text', 'text'],
  ['refusal', 'refusal'],
])

function invalid(param: string, reason: string): { ok: false; error: StreamError } {
  return { ok: false, error: badRequest('invalid_value', `Invalid value for '${param}': ${reason}.`, param) }
}
