/**
 * Events of Anthropic's Messages API as chunks of chat. A prompt's tokens are those that were computed, written into the cache and
 * read from it. Only the last count as cached.
 */
import { z } from 'zod'
import { type EventReader, type EventReading, NOTHING, says } from './event-reading.ts'

const Tokens = z.number().int().min(0).nullish()
const Usage = z.object({
  input_tokens: Tokens,
  cache_read_input_tokens: Tokens,
  cache_creation_input_tokens: Tokens,
  output_tokens: Tokens,
})
const Block = z.object({ type: z.string(), id: z.string().nullish(), name: z.string().nullish() })
const Delta = z.object({
  type: z.string(),
  text: z.string().nullish(),
  thinking: z.string().nullish(),
  partial_json: z.string().nullish(),
})
const Event = z.discriminatedUnion('type', [
  z.object({ type: z.literal('message_start'), message: z.object({ usage: Usage.nullish() }) }),
  z.object({ type: z.literal('content_block_start'), index: z.number().int().min(0), content_block: Block }),
  z.object({ type: z.literal('content_block_delta'), index: z.number().int().min(0), delta: Delta }),
  z.object({ type: z.literal('content_block_stop') }),
  z.object({
    type: z.literal('message_delta'),
    delta: z.object({ stop_reason: z.string().nullish(), stop_sequence: z.string().nullish() }),
    usage: Usage.nullish(),
  }),
  z.object({ type: z.literal('message_stop') }),
  z.object({ type: z.literal('ping') }),
])
type Event = z.infer<typeof Event>

const FINISHES: Readonly<Record<string, string>> = {
  ...{ end_turn: 'stop', stop_sequence: 'stop', max_tokens: 'length', tool_use: 'tool_calls' },
  ...{ refusal: 'content_filter', pause_turn: 'stop', model_context_window_exceeded: 'length' },
}

export class MessagesReader implements EventReader {
  /** Tools by the index of their block. */
  readonly #tools = new Map<number, number>()
  #prompt_tokens = 0
  #cached_tokens: number | null = null
  stopped = false

  read(value: unknown): EventReading {
    const parsed = Event.safeParse(value)
    if (parsed.success) return this.#read(parsed.data)
    // The API adds kinds of events, which are to be passed over.
    const known = Event.options.some(({ shape }) => shape.type.value === (value as { type?: unknown } | null)?.type)
    return known ? { ok: false, broken: 'an event that is not one of Anthropic' } : NOTHING
  }

  #read(event: Event): EventReading {
    switch (event.type) {
      case 'message_start': {
        this.#counted(event.message.usage ?? {})
        return says({ role: 'assistant', content: '' })
      }
      case 'content_block_start':
        return this.#begins(event.index, event.content_block)
      case 'content_block_delta':
        return this.#continues(event.index, event.delta)
      case 'message_delta':
        return this.#ends(event)
      case 'message_stop':
        this.stopped = true
        return NOTHING
      default:
        return NOTHING
    }
  }

  #begins(index: number, { type, id, name }: z.infer<typeof Block>): EventReading {
    if (type !== 'tool_use') return NOTHING
    const at = this.#tools.size
    this.#tools.set(index, at)
    return says({ tool_calls: [{ index: at, id, function: { name, arguments: '' } }] })
  }

  #continues(index: number, { text, thinking, partial_json }: z.infer<typeof Delta>): EventReading {
    if (text != null) return says({ content: text })
    if (thinking != null) return says({ reasoning: thinking })
    const at = this.#tools.get(index)
    if (partial_json == null || partial_json === '' || at === undefined) return NOTHING
    return says({ tool_calls: [{ index: at, function: { arguments: partial_json } }] })
  }

  #ends({ delta, usage }: Extract<Event, { type: 'message_delta' }>): EventReading {
    if (usage != null) this.#counted(usage)
    const finish_reason = delta.stop_reason == null ? null : (FINISHES[delta.stop_reason] ?? 'stop')
    const stop_reason = delta.stop_sequence ?? null
    const told = {
      ...{ prompt_tokens: this.#prompt_tokens, completion_tokens: usage?.output_tokens ?? 0 },
      prompt_tokens_details: { cached_tokens: this.#cached_tokens },
    }
    return { ok: true, piece: { choices: [{ index: 0, delta: {}, finish_reason, stop_reason }], usage: told } }
  }

  #counted({
    input_tokens,
    cache_read_input_tokens,
    cache_creation_input_tokens,
  }: Partial<z.infer<typeof Usage>>): void {
    if (input_tokens == null) return
    const cached = cache_read_input_tokens ?? 0
    this.#prompt_tokens = input_tokens + cached + (cache_creation_input_tokens ?? 0)
    this.#cached_tokens = cached
  }
}
