/**
 * The bodies of a scripted provider: OpenAI chat completions and Anthropic messages, in one piece and as streams. It says one word
 * a token, as many as it may. Text is counted at four bytes a token.
 */
import type { Json } from '../json-http.ts'
import type { LimitState } from './provider-limits.ts'

export type ProviderApi = 'chat' | 'messages'

export interface ProviderUsage {
  prompt_tokens: number
  cached_tokens: number
  output_tokens: number
}

const BYTES_PER_TOKEN = 4
const WORD = 'word '

export function promptOf(body: Json): string {
  return JSON.stringify([body.system ?? null, body.tools ?? null, body.messages ?? null])
}

export function tokensOf(text: string): number {
  return Math.max(1, Math.ceil(Buffer.byteLength(text) / BYTES_PER_TOKEN))
}

export function answerOf(api: ProviderApi, model: string, usage: ProviderUsage, tells: boolean): Json {
  const text = WORD.repeat(usage.output_tokens)
  if (api === 'chat') {
    const choices = [{ index: 0, message: { role: 'assistant', content: text }, finish_reason: 'length' }]
    const told = tells ? { usage: openaiUsage(usage) } : {}
    return { id: 'chatcmpl-1', object: 'chat.completion', created: 0, model, choices, ...told }
  }
  const content = [{ type: 'text', text }]
  const told = { usage: anthropicUsage(usage) }
  return { id: 'msg_1', type: 'message', role: 'assistant', model, content, stop_reason: 'max_tokens', ...told }
}

/** What comes before the first word. */
export function beginningOf(api: ProviderApi, model: string, usage: ProviderUsage): string {
  if (api === 'chat') return event(chunk(model, { role: 'assistant', content: '' }, null))
  const { output_tokens: _, ...input } = anthropicUsage(usage)
  const message = { id: 'msg_1', type: 'message', role: 'assistant', model, content: [], stop_reason: null }
  return (
    named('message_start', { message: { ...message, usage: { ...input, output_tokens: 1 } } }) +
    named('content_block_start', { index: 0, content_block: { type: 'text', text: '' } })
  )
}

export function wordOf(api: ProviderApi, model: string): string {
  if (api === 'chat') return event(chunk(model, { content: WORD }, null))
  return named('content_block_delta', { index: 0, delta: { type: 'text_delta', text: WORD } })
}

/** `tells`: with usage, where the API leaves a choice. */
export function endOf(api: ProviderApi, model: string, usage: ProviderUsage, tells: boolean): string {
  if (api === 'chat') {
    const told = tells ? event({ ...chunk(model, {}, null), choices: [], usage: openaiUsage(usage) }) : ''
    return `${event(chunk(model, {}, 'length'))}${told}data: [DONE]\n\n`
  }
  return (
    named('content_block_stop', { index: 0 }) +
    named('message_delta', {
      delta: { stop_reason: 'max_tokens', stop_sequence: null },
      usage: { output_tokens: usage.output_tokens },
    }) +
    named('message_stop', {})
  )
}

export function refusalOf(api: ProviderApi, status: number, type: string, message: string): Json {
  if (api === 'messages') return { type: 'error', error: { type, message }, request_id: 'req_1' }
  return { error: { message, type, param: null, code: status === 429 ? 'rate_limit_exceeded' : type } }
}

/** In OpenAI's words. */
export function limitMessage(
  model: string,
  { quantity, amount, per_s, remaining }: LimitState,
  needed: number,
): string {
  const what = quantity === 'requests' ? 'requests' : quantity === 'tokens' ? 'tokens' : `${quantity} tokens`
  const [per, letter] = per_s >= 86_400 ? ['day', 'D'] : per_s > 1 ? ['min', 'M'] : ['second', 'S']
  const short = `${what === 'requests' ? 'R' : 'T'}P${letter}`
  return `Rate limit reached for ${model} on ${what} per ${per} (${short}): Limit ${amount}, Used ${amount - remaining}, Requested ${needed}.`
}

function openaiUsage({ prompt_tokens, cached_tokens, output_tokens }: ProviderUsage): Json {
  return {
    ...{ prompt_tokens, completion_tokens: output_tokens, total_tokens: prompt_tokens + output_tokens },
    prompt_tokens_details: { cached_tokens },
  }
}

function anthropicUsage({ prompt_tokens, cached_tokens, output_tokens }: ProviderUsage): Json {
  return {
    ...{ input_tokens: prompt_tokens - cached_tokens, cache_read_input_tokens: cached_tokens },
    ...{ cache_creation_input_tokens: 0, output_tokens },
  }
}

function chunk(model: string, delta: Json, finish_reason: string | null): Json {
  const choices = [{ index: 0, delta, finish_reason }]
  return { id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 0, model, choices }
}

function event(value: Json): string {
  return `data: ${JSON.stringify(value)}\n\n`
}

function named(type: string, value: Json): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, ...value })}\n\n`
}
