/**
 * A checked chat body → the body of Anthropic's Messages API, for providers that speak that alone. It streams. The end of the
 * system text and of the conversation are cache breakpoints, so that a program's next call finds its last one cached.
 */
import { z } from 'zod'

type Json = Record<string, unknown>

/** Fields that request-body.ts has written, so that anything else is a bug. */
const Fields = z.object({
  model: z.string(),
  messages: z.array(
    z.object({
      role: z.string(),
      content: z.string().nullable(),
      tool_calls: z
        .array(z.object({ id: z.string().nullish(), function: z.object({ name: z.string(), arguments: z.string() }) }))
        .optional(),
      tool_call_id: z.string().optional(),
    }),
  ),
  max_tokens: z.number(),
  temperature: z.number().optional(),
  top_p: z.number().optional(),
  top_k: z.number().optional(),
  stop: z.union([z.string(), z.array(z.string())]).optional(),
  tools: z
    .array(
      z.object({
        function: z.object({
          name: z.string(),
          description: z.string().nullish(),
          parameters: z.record(z.string(), z.unknown()).nullish(),
        }),
      }),
    )
    .optional(),
  tool_choice: z.union([z.string(), z.object({ function: z.object({ name: z.string() }) })]).optional(),
  parallel_tool_calls: z.boolean().optional(),
})
type Fields = z.infer<typeof Fields>

/** A breakpoint of its prompt cache. */
export const CACHED = { cache_control: { type: 'ephemeral' } }
/** Of Anthropic; OpenAI's goes to 2. */
const TEMPERATURE_MAX = 1

export function messagesBody(fields: Json): Json {
  const chat = Fields.parse(fields)
  const system = chat.messages.filter(isSystem).map(({ content }) => content ?? '')
  const turns = turnsOf(chat.messages.filter((message) => !isSystem(message)))
  const { temperature, top_p, top_k, stop } = chat
  return {
    ...{ model: chat.model, max_tokens: chat.max_tokens, stream: true },
    ...(system.length === 0 ? {} : { system: [{ type: 'text', text: system.join('\n\n'), ...CACHED }] }),
    messages: turns.map((turn, index) => (index === turns.length - 1 ? withBreakpoint(turn) : turn)),
    ...(temperature === undefined ? {} : { temperature: Math.min(TEMPERATURE_MAX, temperature) }),
    ...(top_p === undefined ? {} : { top_p }),
    ...(top_k === undefined || top_k < 1 ? {} : { top_k }),
    ...(stop === undefined ? {} : { stop_sequences: typeof stop === 'string' ? [stop] : stop }),
    ...toolFields(chat),
  }
}

interface Turn {
  role: 'user' | 'assistant'
  content: Json[]
}

function isSystem({ role }: { role: string }): boolean {
  return role === 'system' || role === 'developer'
}

/** Messages of one side in a row are one turn: results of several tools must come together. */
function turnsOf(messages: Fields['messages']): Turn[] {
  const turns: Turn[] = []
  for (const { role, content, tool_calls = [], tool_call_id } of messages) {
    const side = role === 'assistant' ? 'assistant' : 'user'
    const text = content === null || content === '' ? [] : [{ type: 'text', text: content }]
    const calls = tool_calls.map((call) => ({
      ...{ type: 'tool_use', id: call.id ?? '', name: call.function.name, input: inputOf(call.function.arguments) },
    }))
    const result = [{ type: 'tool_result', tool_use_id: tool_call_id, content: content ?? '' }]
    const blocks: Json[] = role === 'tool' ? result : [...text, ...calls]
    const last = turns.at(-1)
    if (last?.role === side) last.content.push(...blocks)
    else turns.push({ role: side, content: blocks })
  }
  return turns
}

/** Arguments that are no JSON object are the model's own mistake: it sees them as they were. */
function inputOf(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text === '' ? '{}' : text)
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
  }
  return { arguments: text }
}

function withBreakpoint({ role, content }: Turn): Turn {
  return {
    role,
    content: content.map((block, index) => (index === content.length - 1 ? { ...block, ...CACHED } : block)),
  }
}

function toolFields({ tools, tool_choice, parallel_tool_calls }: Fields): Json {
  if (tools === undefined || tools.length === 0) return {}
  const alone = parallel_tool_calls === false ? { disable_parallel_tool_use: true } : {}
  const choice =
    typeof tool_choice === 'object'
      ? { type: 'tool', name: tool_choice.function.name }
      : { type: tool_choice === 'required' ? 'any' : tool_choice === 'none' ? 'none' : 'auto' }
  return {
    tools: tools.map(({ function: { name, description, parameters } }) => ({
      name,
      ...(description == null ? {} : { description }),
      input_schema: parameters ?? { type: 'object', properties: {} },
    })),
    tool_choice: choice.type === 'none' ? choice : { ...choice, ...alone },
  }
}
