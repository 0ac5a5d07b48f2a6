/**
 * The bodies of a scripted provider: OpenAI's chat completions and responses, and Anthropic's messages, in one piece and as streams. It says one word
 * a token, as many as it may. Text is counted at four bytes a token.
 */

import type { LimitState } from '../../../../../engine/queue/limits/provider-account.ts'
import type { Json } from '../json-http.ts'

export const PROVIDER_APIS = ['chat', 'messages', 'responses'] as const
export type ProviderApi = (typeof PROVIDER_APIS)[number]

export interface ProviderUsage {
  prompt_tokens: number
  cached_tokens: number
  output_tokens: number
}

const BYTES_PER_TOKEN = 4
const WORD = 'word '

export function promptOf(body: Json): string {
  return JSON.stringify([
    body.system ?? body.instructions ?? null,
    body.tools ?? null,
    body.messages ?? body.input ?? null,
  ])
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
  if (api === 'responses') return responseOf(model, usage)
  const content = [{ type: 'text', text }]
  const told = { usage: anthropicUsage(usage) }
  return { id: 'msg_1', type: 'message', role: 'assistant', model, content, stop_reason: 'max_tokens', ...told }
}

/** What comes before the first word. */
export function beginningOf(api: ProviderApi, model: string, usage: ProviderUsage): string {
  if (api === 'chat') return event(chunk(model, { role: 'assistant', content: '' }, null))
  if (api === 'responses') {
    const response = { ...responseOf(model, usage), status: 'in_progress', output: [], usage: null }
    const item = { id: 'msg_1', type: 'message', role: 'assistant', status: 'in_progress', content: [] }
    return (
      named('response.created', { sequence_number: 0, response }) +
      named('response.output_item.added', { sequence_number: 1, output_index: 0, item })
    )
  }
  const { output_tokens: _, ...input } = anthropicUsage(usage)
  const message = { id: 'msg_1', type: 'message', role: 'assistant', model, content: [], stop_reason: null }
  return (
    named('message_start', { message: { ...message, usage: { ...input, output_tokens: 1 } } }) +
    named('content_block_start', { index: 0, content_block: { type: 'text', text: '' } })
  )
}

export function wordOf(api: ProviderApi, model: string): string {
  if (api === 'chat') return event(chunk(model, { content: WORD }, null))
  if (api === 'responses') {
    return named('response.output_text.delta', { sequence_number: 2, output_index: 0, item_id: 'msg_1', delta: WORD })
  }
  return named('content_block_delta', { index: 0, delta: { type: 'text_delta', text: WORD } })
}

/** `tells`: with usage, where the API leaves a choice. */
export function endOf(api: ProviderApi, model: string, usage: ProviderUsage, tells: boolean): string {
  if (api === 'chat') {
    const told = tells ? event({ ...chunk(model, {}, null), choices: [], usage: openaiUsage(usage) }) : ''
    return `${event(chunk(model, {}, 'length'))}${told}data: [DONE]\n\n`
  }
  if (api === 'responses') {
    return named('response.incomplete', { sequence_number: 3, response: responseOf(model, usage) })
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

/** It ends at its limit, as all answers here do. */
function responseOf(model: string, usage: ProviderUsage): Json {
  const { prompt_tokens, cached_tokens, output_tokens } = usage
  const content = [{ type: 'output_text', text: WORD.repeat(output_tokens), annotations: [] }]
  return {
    ...{ id: 'resp_1', object: 'response', created_at: 0, model, status: 'incomplete', error: null },
    incomplete_details: { reason: 'max_output_tokens' },
    output: [{ id: 'msg_1', type: 'message', role: 'assistant', status: 'incomplete', content }],
    usage: {
      ...{ input_tokens: prompt_tokens, input_tokens_details: { cached_tokens } },
      ...{ output_tokens, output_tokens_details: { reasoning_tokens: 0 } },
      total_tokens: prompt_tokens + output_tokens,
    },
  }
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
