/**
 * What a Worker sends with a call whose answer had begun on an engine that failed, so that another engine goes on from there
 * and the client sees one stream. It comes as one more field of the body, and an agent reads it only where the ticket says so.
 *
 * An agent names the tokens behind each event in the event's `id`, which the Worker keeps and no client sees. An engine of the
 * same model computes prompt and tokens, runs them through its own parsers again, and leaves out what was delivered.
 */
import { z } from 'zod'
import { Count } from './ids.ts'
import { TOOLS_PER_CALL_MAX } from './tools.ts'

export const RESUME_FIELD = 'switchyard_resume'
/** An answer beyond either is not resumed. Characters: of all texts and ids of events together. */
export const RESUME_TOKENS_MAX = 32_768
export const RESUME_CHARS_MAX = 256 * 1024
/** All of it, written as JSON: no character takes more than six bytes. */
export const RESUME_BYTES_MAX = 6 * RESUME_CHARS_MAX + 64 * 1024

const Delivered = z.string().max(RESUME_CHARS_MAX)

export const Resume = z.object({
  /** What the call had generated when its last delivered event was made. Empty: its engine did not tell. */
  tokens: z.array(Count.max(2 ** 32 - 1)).max(RESUME_TOKENS_MAX),
  // What the client has.
  content: Delivered,
  reasoning: Delivered,
  tool_calls: z.array(z.object({ name: Delivered, arguments: Delivered })).max(TOOLS_PER_CALL_MAX),
  // Of the chunks that it has.
  created_s: Count,
  system_fingerprint: z.string().max(256).nullable(),
})
export type Resume = z.infer<typeof Resume>

/** The `id` of an event. */
export function tokensText(tokens: readonly number[]): string {
  return tokens.join(',')
}

/** Null: `text` is no list of tokens. */
export function tokensOf(text: string): number[] | null {
  if (!/^\d{1,10}(,\d{1,10})*$/.test(text)) return null
  return text.split(',').map(Number)
}
