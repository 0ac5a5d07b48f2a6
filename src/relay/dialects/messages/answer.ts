/**
 * OpenAI's answer → Anthropic's message. `input_tokens` leaves out what came from the KV cache, as with Anthropic. Our
 * extension of the usage stays in it under the same name.
 */
import { isNativeEvent } from '../../../core/wire/native/event-reading.ts'
import { Aggregate, parseChunk } from '../aggregate.ts'
import type { AnswerFacts, Json, ResponseBuilder } from '../dialect.ts'
import { isObject } from './content.ts'
import { NativeMessage } from './native-message.ts'

export type StopReason = 'end_turn' | 'max_tokens' | 'stop_sequence' | 'tool_use' | 'refusal'

export interface Stop {
  stop_reason: StopReason
  stop_sequence: string | null
}

/** Names of a delta's reasoning in vLLM's present and earlier versions. */
const REASONING_FIELDS = ['reasoning', 'reasoning_content'] as const

export class MessageBuilder implements ResponseBuilder {
  readonly #facts: AnswerFacts
  readonly #shows_thinking: boolean
  readonly #whole = new Aggregate('chat')
  /** Of a server that speaks this API. Undefined: no event has come. */
  #native: NativeMessage | null | undefined

  constructor(facts: AnswerFacts, shows_thinking: boolean) {
    this.#facts = facts
    this.#shows_thinking = shows_thinking
  }

  add(data: string): void {
    if (this.#native === undefined) this.#native = isNativeEvent(parseChunk(data)) ? new NativeMessage() : null
    if (this.#native === null) this.#whole.add(data)
    else this.#native.add(data)
  }

  finish(): Json {
    if (this.#native != null) return this.#native.finish()
    const { choices, usage } = this.#whole.finish() as { choices: Json[]; usage?: Json }
    const choice = choices[0] ?? {}
    const message = isObject(choice.message) ? choice.message : {}
    const content: Json[] = []
    const thinking = this.#shows_thinking ? reasoningOf(message) : ''
    if (thinking !== '') content.push({ type: 'thinking', thinking, signature: '' })
    if (typeof message.content === 'string' && message.content !== '') content.push(textBlock(message.content))
    const calls = (message.tool_calls ?? []) as { id?: string; function: { name: string; arguments: string } }[]
    for (const [index, { id, function: called }] of calls.entries()) {
      content.push(toolUseBlock(id ?? toolUseId(this.#facts, index), called.name, inputOf(called.arguments)))
    }
    return { ...emptyMessage(this.#facts), content, ...stopOf(choice, calls.length > 0), usage: usageOf(usage ?? {}) }
  }
}

/** A message before its first block. */
export function emptyMessage({ call, model }: AnswerFacts): Json {
  return {
    ...{ id: `msg_${call}`, type: 'message', role: 'assistant', model, content: [] },
    ...{ stop_reason: null, stop_sequence: null, stop_details: null, container: null, diagnostics: null },
  }
}

export function textBlock(text: string): Json {
  return { type: 'text', text, citations: null }
}

export function toolUseBlock(id: string, name: string, input: Json): Json {
  return { type: 'tool_use', id, name, input, caller: { type: 'direct' } }
}

export function toolUseId({ call }: AnswerFacts, index: number): string {
  return `toolu_${call}_${index}`
}

/** Of a message or a delta; empty if there is none. */
export function reasoningOf(piece: Json): string {
  for (const field of REASONING_FIELDS) {
    const text = piece[field]
    if (typeof text === 'string' && text !== '') return text
  }
  return ''
}

/** A call that the output limit cut has arguments that are no JSON. The stop reason says so, and its input is empty. */
function inputOf(text: string): Json {
  try {
    const input: unknown = JSON.parse(text)
    return isObject(input) ? input : {}
  } catch (error) {
    if (error instanceof SyntaxError) return {}
    throw error
  }
}

/** `stop_reason` of a choice is vLLM's: the stop string that was met, or a token. */
export function stopOf({ finish_reason, stop_reason }: Json, calls_tools: boolean): Stop {
  if (finish_reason === 'length') return { stop_reason: 'max_tokens', stop_sequence: null }
  if (finish_reason === 'content_filter') return { stop_reason: 'refusal', stop_sequence: null }
  if (calls_tools) return { stop_reason: 'tool_use', stop_sequence: null }
  if (typeof stop_reason === 'string') return { stop_reason: 'stop_sequence', stop_sequence: stop_reason }
  return { stop_reason: 'end_turn', stop_sequence: null }
}

/** `usage`: the engine's. */
export function usageOf(usage: Json): Json {
  const details = isObject(usage.prompt_tokens_details) ? usage.prompt_tokens_details : {}
  const cached_tokens = countOf(details.cached_tokens)
  const { switchyard } = usage
  return {
    ...tokensOf(Math.max(0, countOf(usage.prompt_tokens) - cached_tokens), cached_tokens),
    output_tokens: countOf(usage.completion_tokens),
    ...(switchyard === undefined ? {} : { switchyard }),
  }
}

/** Before the engine has counted. */
export function usageEstimate({ prompt_tokens_estimate }: AnswerFacts): Json {
  return { ...tokensOf(prompt_tokens_estimate, 0), output_tokens: 0 }
}

function tokensOf(input_tokens: number, cached_tokens: number): Json {
  return {
    ...{ input_tokens, cache_creation_input_tokens: 0, cache_read_input_tokens: cached_tokens },
    ...{ cache_creation: { ephemeral_5m_input_tokens: 0, ephemeral_1h_input_tokens: 0 } },
    ...{ output_tokens_details: null, server_tool_use: null },
    ...{ service_tier: 'standard', inference_geo: null, speed: null },
  }
}

function countOf(value: unknown): number {
  return typeof value === 'number' ? value : 0
}
