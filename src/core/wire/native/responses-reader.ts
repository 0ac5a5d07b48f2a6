/**
 * Events of OpenAI's Responses API as chunks of chat. The deltas carry the text. The last event has the whole response once more, of
 * which the usage and the end are read.
 */
import { z } from 'zod'
import { type EventReader, type EventReading, NOTHING, says } from './event-reading.ts'

const Index = z.number().int().min(0)
const Count = z.number().int().min(0)
const Item = z.object({
  type: z.string(),
  id: z.string().nullish(),
  call_id: z.string().nullish(),
  name: z.string().nullish(),
})
const Usage = z.object({
  input_tokens: Count,
  output_tokens: Count,
  input_tokens_details: z.object({ cached_tokens: Count.nullish() }).nullish(),
})
const Ended = z.object({
  response: z.object({
    usage: Usage.nullish(),
    incomplete_details: z.object({ reason: z.string().nullish() }).nullish(),
  }),
})
const Failed = z.object({
  response: z.object({ error: z.object({ code: z.string().nullish() }).nullish() }),
})
const Added = z.object({ output_index: Index, item: Item })
const Delta = z.object({ output_index: Index, delta: z.string() })

/** Calls of tools have their arguments under these names. */
const CALLS: ReadonlySet<string> = new Set(['function_call', 'custom_tool_call'])
const TEXTS: ReadonlySet<string> = new Set(['response.output_text.delta', 'response.refusal.delta'])
const THOUGHTS: ReadonlySet<string> = new Set([
  'response.reasoning_text.delta',
  'response.reasoning_summary_text.delta',
])
const ARGUMENTS: ReadonlySet<string> = new Set([
  'response.function_call_arguments.delta',
  'response.custom_tool_call_input.delta',
])
const ENDS: ReadonlySet<string> = new Set(['response.completed', 'response.incomplete'])

const INCOMPLETE: Readonly<Record<string, string>> = { max_output_tokens: 'length', content_filter: 'content_filter' }
const BROKEN: EventReading = { ok: false, broken: 'an event that is not one of OpenAI' }

export class ResponsesReader implements EventReader {
  /** Tools by the index of their item. */
  readonly #tools = new Map<number, number>()
  stopped = false

  read(value: unknown): EventReading {
    const { type } = (typeof value === 'object' && value !== null ? value : {}) as { type?: unknown }
    if (typeof type !== 'string') return BROKEN
    if (type === 'response.created') return says({ role: 'assistant', content: '' })
    if (type === 'response.output_item.added') return this.#begins(value)
    if (ENDS.has(type)) return this.#ends(value)
    if (type === 'response.failed' || type === 'error') {
      const code = Failed.safeParse(value).data?.response.error?.code ?? 'no code'
      return { ok: false, broken: `a failed response (${code.slice(0, 64)})` }
    }
    const [is_text, is_thought, is_argument] = [TEXTS, THOUGHTS, ARGUMENTS].map((names) => names.has(type))
    // The API adds kinds of events, which are to be passed over.
    if (!is_text && !is_thought && !is_argument) return NOTHING
    const delta = Delta.safeParse(value)
    if (!delta.success) return BROKEN
    if (is_text) return says({ content: delta.data.delta })
    if (is_thought) return says({ reasoning: delta.data.delta })
    const at = this.#tools.get(delta.data.output_index)
    if (at === undefined || delta.data.delta === '') return NOTHING
    return says({ tool_calls: [{ index: at, function: { arguments: delta.data.delta } }] })
  }

  #begins(value: unknown): EventReading {
    const added = Added.safeParse(value)
    if (!added.success) return BROKEN
    const { item, output_index } = added.data
    if (!CALLS.has(item.type)) return NOTHING
    const at = this.#tools.size
    this.#tools.set(output_index, at)
    return says({
      tool_calls: [{ index: at, id: item.call_id ?? item.id, function: { name: item.name, arguments: '' } }],
    })
  }

  #ends(value: unknown): EventReading {
    const ended = Ended.safeParse(value)
    if (!ended.success) return BROKEN
    this.stopped = true
    const { usage, incomplete_details } = ended.data.response
    const cut = incomplete_details?.reason == null ? null : (INCOMPLETE[incomplete_details.reason] ?? 'length')
    const finish_reason = cut ?? (this.#tools.size > 0 ? 'tool_calls' : 'stop')
    const choices = [{ index: 0 as const, delta: {}, finish_reason }]
    if (usage == null) return { ok: true, piece: { choices } }
    const told = {
      ...{ prompt_tokens: usage.input_tokens, completion_tokens: usage.output_tokens },
      prompt_tokens_details: { cached_tokens: usage.input_tokens_details?.cached_tokens ?? null },
    }
    return { ok: true, piece: { choices, usage: told } }
  }
}
