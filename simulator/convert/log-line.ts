/** One line of a request log: an OpenAI-style request with when it was made and which session it belongs to (docs/traces.md). */
import { z } from 'zod'
import { ID_CHARS_MAX, OUTPUT_TOKENS_MAX, PROMPT_TOKENS_MAX } from '../workloads/trace-line.ts'

export const MESSAGES_MAX = 10_000
const YEAR_MS = 366 * 86_400_000
/** Numbers below are seconds since 1970, those from here on milliseconds. */
const MILLISECONDS_FROM = 1e11

export interface LoggedMessage {
  /** Role, text and tool calls as one string; compared, never kept. */
  text: string
}

export interface LoggedCall {
  session: string
  started_ms: number
  /** Null: the log does not say. */
  ended_ms: number | null
  prompt_tokens: number
  output_tokens: number
  tool: string | null
  messages: readonly LoggedMessage[] | null
}

const usageSchema = z.object({
  prompt_tokens: z.int().min(1).max(PROMPT_TOKENS_MAX),
  completion_tokens: z.int().min(0).max(OUTPUT_TOKENS_MAX),
})
const messagesSchema = z.array(z.record(z.string(), z.unknown())).max(MESSAGES_MAX)
const choicesSchema = z.array(
  z.object({
    message: z
      .object({ tool_calls: z.array(z.object({ function: z.object({ name: z.string() }).optional() })).nullish() })
      .optional(),
  }),
)
const timeSchema = z.union([z.string(), z.number()])

const lineSchema = z.object({
  timestamp: timeSchema,
  session_id: z.string().min(1).max(ID_CHARS_MAX),
  end_timestamp: timeSchema.optional(),
  latency_ms: z.number().min(0).max(YEAR_MS).optional(),
  messages: messagesSchema.optional(),
  request: z.object({ messages: messagesSchema.optional() }).optional(),
  usage: usageSchema.optional(),
  choices: choicesSchema.optional(),
  response: z.object({ usage: usageSchema.optional(), choices: choicesSchema.optional() }).optional(),
})

export type LogLine = { ok: true; call: LoggedCall } | { ok: false; field: string; reason: string }

export function parseLogLine(text: string): LogLine {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    return { ok: false, field: '(line)', reason: `is not JSON: ${(error as SyntaxError).message}` }
  }
  const parsed = lineSchema.safeParse(value)
  if (!parsed.success) {
    const issue = parsed.error.issues[0]
    return { ok: false, field: issue?.path.join('.') || '(line)', reason: issue?.message ?? 'is malformed' }
  }
  const line = parsed.data
  const usage = line.usage ?? line.response?.usage
  if (usage === undefined)
    return {
      ok: false,
      field: 'usage',
      reason: 'is missing, here and under response: prompt_tokens and completion_tokens are needed',
    }
  const started_ms = timeMs(line.timestamp)
  if (started_ms === null)
    return { ok: false, field: 'timestamp', reason: 'is neither ISO 8601 nor seconds or milliseconds since 1970' }
  const ended_ms = line.end_timestamp === undefined ? null : timeMs(line.end_timestamp)
  if (line.end_timestamp !== undefined && ended_ms === null)
    return { ok: false, field: 'end_timestamp', reason: 'is no time' }
  if (ended_ms !== null && ended_ms < started_ms)
    return { ok: false, field: 'end_timestamp', reason: 'is before timestamp' }
  const messages = line.messages ?? line.request?.messages
  return {
    ok: true,
    call: {
      session: line.session_id,
      started_ms,
      ended_ms: ended_ms ?? (line.latency_ms === undefined ? null : started_ms + line.latency_ms),
      prompt_tokens: usage.prompt_tokens,
      output_tokens: Math.max(1, usage.completion_tokens),
      tool: toolName(line.choices ?? line.response?.choices),
      messages: messages === undefined ? null : messages.map((message) => ({ text: JSON.stringify(message) })),
    },
  }
}

function toolName(choices: z.output<typeof choicesSchema> | undefined): string | null {
  const name = choices?.[0]?.message?.tool_calls?.[0]?.function?.name ?? ''
  return name === '' ? null : name.slice(0, ID_CHARS_MAX)
}

function timeMs(time: string | number): number | null {
  const ms = typeof time === 'string' ? Date.parse(time) : time < MILLISECONDS_FROM ? time * 1000 : time
  return Number.isFinite(ms) && ms >= 0 ? ms : null
}
