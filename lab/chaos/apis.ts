/**
 * The APIs in which a tester asks for text: how each is asked, and how its answer is read, in one piece and as a stream. What
 * a client must see is the same in all of them: one beginning, one finish, one usage, one end.
 */
export const APIS = ['chat', 'completions', 'messages', 'responses'] as const
export type Api = (typeof APIS)[number]

export const PATHS: Readonly<Record<Api, string>> = {
  chat: '/v1/chat/completions',
  completions: '/v1/completions',
  messages: '/v1/messages',
  responses: '/v1/responses',
}

export interface Usage {
  completion_tokens: number
  prompt_tokens_details: { cached_tokens: number }
  switchyard: { service_s: number; wait_s: number; engine: string; region: string }
}

interface Asked {
  model: string
  prompt: string
  output_tokens: number
  stream: boolean
}

export function bodyOf(api: Api, { model, prompt, output_tokens, stream }: Asked): object {
  const common = { model, stream, temperature: 0 }
  const messages = [{ role: 'user', content: prompt }]
  const with_usage = stream ? { stream_options: { include_usage: true } } : {}
  switch (api) {
    case 'chat':
      return { ...common, ...with_usage, messages, max_tokens: output_tokens }
    case 'completions':
      return { ...common, ...with_usage, prompt, max_tokens: output_tokens }
    case 'messages':
      return { ...common, messages, max_tokens: output_tokens }
    case 'responses':
      return { ...common, input: prompt, max_output_tokens: output_tokens, store: false }
  }
}

/** What an event adds. */
export interface EventRead {
  text: string
  /** The client is told that its answer begins. */
  begins: number
  finishes: number
  usage: Usage | null
  /** Null: it tells of none. */
  error: { code: string | null } | null
  /** Nothing follows but [DONE], which ends the answers of the other two APIs. */
  ends: boolean
}

const NOTHING_READ: EventRead = { text: '', begins: 0, finishes: 0, usage: null, error: null, ends: false }

interface StatedUsage {
  completion_tokens?: number
  output_tokens?: number
  cache_read_input_tokens?: number
  input_tokens_details?: { cached_tokens: number }
  prompt_tokens_details?: { cached_tokens: number }
  switchyard: Usage['switchyard']
}

interface StatedError {
  code?: string | null
  message?: unknown
  details?: { error_code: string | null }
}

interface StatedEvent {
  type?: string
  error?: StatedError | null
  code?: string | null
  choices?: { delta?: { role?: string; content?: string | null }; text?: string; finish_reason: string | null }[]
  delta?: string | { text?: string; stop_reason?: string | null }
  usage?: StatedUsage | null
  response?: { usage?: StatedUsage | null }
}

export function codeOf({ code, details }: StatedError): string | null {
  return code ?? details?.error_code ?? null
}

export function readEvent(api: Api, event: StatedEvent): EventRead {
  if (api === 'messages') return readMessageEvent(event)
  return api === 'responses' ? readResponseEvent(event) : readChunk(event)
}

function readChunk({ error, choices = [], usage }: StatedEvent): EventRead {
  const read = { ...NOTHING_READ, usage: usageOf(usage), error: error == null ? null : { code: codeOf(error) } }
  for (const { delta, text, finish_reason } of choices) {
    if (delta?.role !== undefined) read.begins += 1
    read.text += delta?.content ?? text ?? ''
    if (finish_reason != null) read.finishes += 1
  }
  return read
}

function readMessageEvent({ type, error, delta, usage }: StatedEvent): EventRead {
  switch (type) {
    case 'error':
      return { ...NOTHING_READ, error: { code: codeOf(error ?? {}) } }
    case 'message_start':
      return { ...NOTHING_READ, begins: 1 }
    case 'content_block_delta':
      return { ...NOTHING_READ, text: typeof delta === 'object' ? (delta.text ?? '') : '' }
    case 'message_delta':
      return { ...NOTHING_READ, finishes: 1, usage: usageOf(usage) }
    case 'message_stop':
      return { ...NOTHING_READ, ends: true }
    default:
      return NOTHING_READ
  }
}

function readResponseEvent({ type, code = null, delta, response }: StatedEvent): EventRead {
  switch (type) {
    case 'error':
      return { ...NOTHING_READ, error: { code } }
    case 'response.created':
      return { ...NOTHING_READ, begins: 1 }
    case 'response.output_text.delta':
      return { ...NOTHING_READ, text: typeof delta === 'string' ? delta : '' }
    case 'response.failed':
      return { ...NOTHING_READ, ends: true }
    case 'response.completed':
    case 'response.incomplete':
      return { ...NOTHING_READ, finishes: 1, usage: usageOf(response?.usage), ends: true }
    default:
      return NOTHING_READ
  }
}

function usageOf(stated: StatedUsage | null | undefined): Usage | null {
  if (stated == null) return null
  const { prompt_tokens_details, input_tokens_details, cache_read_input_tokens: cached_tokens = 0 } = stated
  return {
    completion_tokens: stated.completion_tokens ?? stated.output_tokens ?? 0,
    prompt_tokens_details: prompt_tokens_details ?? input_tokens_details ?? { cached_tokens },
    switchyard: stated.switchyard,
  }
}

interface StatedAnswer {
  choices?: { message?: { content?: string | null }; text?: string; finish_reason: string | null }[]
  content?: { text?: string }[]
  stop_reason?: string | null
  status?: string
  output?: { content?: { text?: string }[] }[]
  usage?: StatedUsage
}

/** Null: it has not one finished answer. */
export function readAnswer(api: Api, answer: StatedAnswer): { text: string; usage: Usage | null } | null {
  const usage = usageOf(answer.usage)
  const textOf = (blocks: readonly { text?: string }[] = []): string => blocks.map(({ text }) => text ?? '').join('')
  if (api === 'messages') return answer.stop_reason == null ? null : { text: textOf(answer.content), usage }
  if (api === 'responses') {
    const has_ended = answer.status === 'completed' || answer.status === 'incomplete'
    return has_ended ? { text: textOf(answer.output?.flatMap(({ content = [] }) => content)), usage } : null
  }
  const [choice, ...others] = answer.choices ?? []
  if (choice?.finish_reason == null || others.length > 0) return null
  return { text: choice.message?.content ?? choice.text ?? '', usage }
}
