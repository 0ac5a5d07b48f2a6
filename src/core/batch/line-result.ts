/**
 * The result of one line, as a line of the output or the error file (OpenAI's Batch API): the answer of its endpoint with
 * its status, or an error of the batch itself. Answers with another status than 200 go into the error file.
 */
import { z } from 'zod'
import { type BatchTokens, NO_TOKENS } from './batch-state.ts'

/** Of a line with its break. A longer answer is an error of its line: a Durable Object stores no larger value. */
export const RESULT_BYTES_MAX = 1536 * 1024

export interface LineResult {
  /** It belongs into the output file. */
  ok: boolean
  /** JSON and a line break. */
  bytes: Uint8Array
  tokens: BatchTokens
}

/** What a line was answered. */
export interface LineAnswer {
  http_status: number
  /** Id of the call; null: it had none. */
  call: string | null
  /** JSON. */
  body: string
}

/** What the answer says of waiting and service on its engine, seconds. Null: nothing. */
export interface ServedTimes {
  wait_s: number
  service_s: number
}

const tokens = z.number().int().nonnegative().catch(0)
const Details = z.object({ cached_tokens: tokens, reasoning_tokens: tokens }).partial().nullish()
/** Of all our APIs: chat and completions, Responses and Messages name their counts differently. */
const Answered = z.object({
  usage: z.object({
    prompt_tokens: tokens.optional(),
    input_tokens: tokens.optional(),
    completion_tokens: tokens.optional(),
    output_tokens: tokens.optional(),
    cache_read_input_tokens: tokens.optional(),
    prompt_tokens_details: Details,
    input_tokens_details: Details,
    completion_tokens_details: Details,
    output_tokens_details: Details,
    switchyard: z.object({ wait_s: z.number(), service_wall_s: z.number() }).optional(),
  }),
})

const encoder = new TextEncoder()

/** `request`: an id of the line, unique in the batch. */
export function answeredLine(
  request: string,
  custom_id: string,
  { http_status, call, body }: LineAnswer,
): { result: LineResult; times: ServedTimes | null } {
  // A long call is kept open by white space before its JSON, and a line must not break.
  const json: unknown = JSON.parse(body)
  const text = body.includes('\n') ? JSON.stringify(json) : body.trim()
  const head = JSON.stringify({ id: request, custom_id }).slice(0, -1)
  const ids = `"status_code":${http_status},"request_id":${JSON.stringify(call)}`
  const bytes = encoder.encode(`${head},"response":{${ids},"body":${text}},"error":null}\n`)
  if (bytes.length > RESULT_BYTES_MAX) {
    const message = `The answer has more than ${RESULT_BYTES_MAX} bytes. Ask for less in one line, or send the call by itself.`
    return { result: failedLine(request, custom_id, 'result_too_large', message), times: null }
  }
  const usage = http_status === 200 ? usageOf(json) : null
  const ok = http_status === 200
  return { result: { ok, bytes, tokens: usage?.tokens ?? NO_TOKENS }, times: usage?.times ?? null }
}

/** What an answer says that it took. Null: nothing. */
export function usageOf(json: unknown): { tokens: BatchTokens; times: ServedTimes | null } | null {
  const read = Answered.safeParse(json)
  if (!read.success) return null
  const { usage } = read.data
  const { switchyard } = usage
  return {
    tokens: {
      input: usage.prompt_tokens ?? usage.input_tokens ?? 0,
      cached:
        usage.prompt_tokens_details?.cached_tokens ??
        usage.input_tokens_details?.cached_tokens ??
        usage.cache_read_input_tokens ??
        0,
      output: usage.completion_tokens ?? usage.output_tokens ?? 0,
      reasoning:
        usage.completion_tokens_details?.reasoning_tokens ?? usage.output_tokens_details?.reasoning_tokens ?? 0,
    },
    times: switchyard === undefined ? null : { wait_s: switchyard.wait_s, service_s: switchyard.service_wall_s },
  }
}

/** A line that has no answer. */
function failedLine(request: string, custom_id: string, code: string, message: string): LineResult {
  const line = { id: request, custom_id, response: null, error: { code, message } }
  return { ok: false, bytes: encoder.encode(`${JSON.stringify(line)}\n`), tokens: NO_TOKENS }
}

/** OpenAI's. */
export function expiredLine(request: string, custom_id: string): LineResult {
  const message = 'This request could not be executed before the completion window expired.'
  return failedLine(request, custom_id, 'batch_expired', message)
}
